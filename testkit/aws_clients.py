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

import boto3
from botocore.config import Config

from localcloud.aws import account
from localcloud.control import Control
from localcloud.keys import Key

REGION = "us-west-2"
NO_RETRIES = Config(retries={"total_max_attempts": 1})

Client = Callable[..., Any]
"""Factory of boto3 clients that do not retry: `client("ec2")`, `client("ec2", region)`."""


_SESSION = boto3.Session()
"""boto3 session for all tests, so that botocore loads its service models only once."""


@functools.lru_cache(maxsize=256)
def client(service: str, region: str = REGION, **options: Any) -> Any:
    """Return a client. Calls with the same arguments share a client, because botocore needs several milliseconds to create it."""
    return _SESSION.client(
        service, region, **({"config": NO_RETRIES} | make_signing_arguments(account.default_access_key()) | options)
    )


def make_signing_arguments(key: Key) -> dict[str, str]:
    """Return the arguments with which a boto3 client signs its requests."""
    return {"aws_access_key_id": key.access_key_id, "aws_secret_access_key": key.secret_access_key}


@dataclass(frozen=True)
class LocalAws:
    """A running local AWS server."""

    endpoint: str
    key: Key
    process: subprocess.Popen[bytes]
    log: Path

    def client(self, service: str, region: str = REGION, **options: Any) -> Any:
        return client(service, region, endpoint_url=self.endpoint, **(make_signing_arguments(self.key) | options))

    def call_control_api(self, method: str, path: str, body: Any = None) -> Any:
        return Control(self.endpoint, self.key.control_token).send(method, path, body)


def start_server(folder: Path, *options: str) -> LocalAws:
    ready, log, key_file, key = folder / "ready.json", folder / "aws.log", folder / "key.json", Key.create()
    key.save(key_file)
    with log.open("wb") as output:
        where = ["--port", "0", "--ready-file", str(ready), "--key-file", str(key_file)]
        command = [sys.executable, "-m", "localcloud.aws", *where, *options]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 60
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"the local AWS did not start:\n{log.read_text()}")
        time.sleep(0.05)
    return LocalAws(json.loads(ready.read_text())["endpoint"], key, process, log)


def stop_server(server: LocalAws) -> int:
    """Stop the server and return its exit code."""
    server.process.terminate()
    try:
        return server.process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        server.process.kill()
        raise
