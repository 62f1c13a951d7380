"""boto3 clients for the local AWS, which runs in this process or as a separate server."""

import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import boto3
from botocore.config import Config

from localcloud.aws import account

REGION = "us-west-2"
NO_RETRIES = Config(retries={"total_max_attempts": 1})

Client = Callable[..., Any]
"""Factory of boto3 clients that do not retry: `client("ec2")`, `client("ec2", region)`."""


_SESSION = boto3.Session()
"""boto3 session for all tests, so that botocore loads its service models only once."""


@functools.lru_cache(maxsize=256)
def client(service: str, region: str = REGION, **options: Any) -> Any:
    """Return a client. Calls with the same arguments share one, because botocore needs several milliseconds to create it."""
    keys = {"aws_access_key_id": account.ACCESS_KEY_ID, "aws_secret_access_key": account.SECRET_ACCESS_KEY}
    return _SESSION.client(service, region, config=NO_RETRIES, **(keys | options))


@dataclass(frozen=True)
class LocalAws:
    """A running local AWS server."""

    endpoint: str
    process: subprocess.Popen[bytes]
    log: Path

    def client(self, service: str, region: str = REGION, key: str = account.ACCESS_KEY_ID, **options: Any) -> Any:
        keys = {"aws_access_key_id": key, "aws_secret_access_key": "any"}
        return client(service, region, endpoint_url=self.endpoint, **keys, **options)

    def control(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"{self.endpoint}/local-cloud/{path}", data, method=method), timeout=60) as response:
            return json.load(response)


def start_server(folder: Path, *options: str) -> LocalAws:
    ready, log = folder / "ready.json", folder / "aws.log"
    with log.open("wb") as output:
        command = [sys.executable, "-m", "localcloud.aws", "--port", "0", "--ready-file", str(ready), *options]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 60
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"the local AWS did not start:\n{log.read_text()}")
        time.sleep(0.05)
    return LocalAws(json.loads(ready.read_text())["endpoint"], process, log)


def stop_server(server: LocalAws) -> int:
    """Stop the server and return its exit code."""
    server.process.terminate()
    try:
        return server.process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        server.process.kill()
        raise
