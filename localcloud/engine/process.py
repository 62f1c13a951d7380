"""Provider process: a gRPC server on loopback. Engines attach to it through PULUMI_DEBUG_PROVIDERS."""

import argparse
import importlib.resources
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from localcloud import garbage, whole_file
from localcloud.engine import peers

MAX_REQUESTS = 512
"""Maximum number of concurrent requests. Most of them wait for AWS or a cluster. Threads are created on demand."""
GRACE_SECONDS = 5.0


class NoEndpoint(Exception):
    """AWS_ENDPOINT_URL is not set, so the handlers would call real AWS."""


def read_package_version(package: str) -> str:
    """Return the version of the emulated official provider, as given in its SDK package."""
    text = importlib.resources.files(package).joinpath("pulumi-plugin.json").read_text()
    return str(json.loads(text)["version"])


def start(provider: provider_pb2_grpc.ResourceProviderServicer, name: str, port: int) -> tuple[grpc.Server, int]:
    """Start a gRPC server and return it with its port. `name`: name prefix of its threads."""
    server, bound = peers.create_server(ThreadPoolExecutor(MAX_REQUESTS, thread_name_prefix=name), port)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    server.start()
    return server, bound


def parse_options(module: str, about: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ready-file", type=Path, help="JSON file for pid and port, written once the server is ready")
    parser.add_argument("--log-level", default="DEBUG")
    return parser.parse_args()


def serve_until_terminated(options: argparse.Namespace, begin: Callable[[int], tuple[grpc.Server, int]]) -> int:
    """Serve until SIGTERM, then exit the process. If the server cannot start, return the exit code."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("localcloud").setLevel(options.log_level)
    stop_requested = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop_requested.set())
    try:
        server, port = begin(options.port)
    except NoEndpoint as error:
        print(error, file=sys.stderr)
        return 2
    garbage.resume_collection()
    if options.ready_file:
        whole_file.write_atomically(options.ready_file, json.dumps({"pid": os.getpid(), "port": port}) + "\n")
    stop_requested.wait()
    server.stop(GRACE_SECONDS).wait()
    if options.ready_file:
        options.ready_file.unlink(missing_ok=True)
    sys.stderr.flush()
    os._exit(0)  # threads that are still waiting for a response must not block the exit
