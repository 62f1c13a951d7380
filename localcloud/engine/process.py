"""A provider as a process: a gRPC server on loopback that engines attach to with PULUMI_DEBUG_PROVIDERS."""

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
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import provider_pb2_grpc

from localcloud import whole_file

MAX_REQUESTS = 512
"""At once, of all engines together; most of them wait for AWS or a cluster. Threads are made as they are needed."""
GRACE_SECONDS = 5.0


class NoEndpoint(Exception):
    """Without an endpoint the handlers would talk to AWS itself."""


def version_of(package: str) -> str:
    """The official provider's, by its SDK: the stand-in is for this one."""
    text = importlib.resources.files(package).joinpath("pulumi-plugin.json").read_text()
    return str(json.loads(text)["version"])


def start(provider: provider_pb2_grpc.ResourceProviderServicer, name: str, port: int) -> tuple[grpc.Server, int]:
    """A running server and its port; its threads have this name."""
    server = grpc.server(ThreadPoolExecutor(MAX_REQUESTS, thread_name_prefix=name), options=_GRPC_CHANNEL_OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, bound


def options(module: str, about: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ready-file", type=Path, help="JSON with pid and port, written when requests are served")
    parser.add_argument("--log-level", default="DEBUG")
    return parser.parse_args()


def serve(given: argparse.Namespace, begin: Callable[[int], tuple[grpc.Server, int]]) -> int:
    """Until SIGTERM; then this process ends. An exit code where it cannot begin."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("localcloud").setLevel(given.log_level)
    asked_to_stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked_to_stop.set())
    try:
        server, port = begin(given.port)
    except NoEndpoint as error:
        print(error, file=sys.stderr)
        return 2
    if given.ready_file:
        whole_file.write(given.ready_file, json.dumps({"pid": os.getpid(), "port": port}) + "\n")
    asked_to_stop.wait()
    server.stop(GRACE_SECONDS).wait()
    if given.ready_file:
        given.ready_file.unlink(missing_ok=True)
    sys.stderr.flush()
    os._exit(0)  # threads that still wait for an answer must not hold the process
