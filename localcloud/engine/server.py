"""The provider stand-in as a process: a gRPC server on loopback that engines attach to with PULUMI_DEBUG_PROVIDERS."""

import importlib.resources
import json
import os
from concurrent.futures import ThreadPoolExecutor

import grpc
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import provider_pb2_grpc

import localcloud.engine.resources  # noqa: F401  fills the table of handlers
from localcloud.engine.provider import Provider

MAX_REQUESTS = 512
"""At once, of all engines together; most of them wait for AWS. Threads are made as they are needed."""


class NoEndpoint(Exception):
    """Without an endpoint the handlers would talk to AWS itself."""


def plugin_version() -> str:
    """The official provider's version: the stand-in is for this one."""
    text = importlib.resources.files("pulumi_aws").joinpath("pulumi-plugin.json").read_text()
    return str(json.loads(text)["version"])


def endpoint() -> str:
    """Where the local AWS is; never AWS itself."""
    url = os.environ.get("AWS_ENDPOINT_URL")
    if not url:
        raise NoEndpoint("AWS_ENDPOINT_URL is not set: the local provider works on a local AWS only")
    return url


def start(port: int, url: str) -> tuple[grpc.Server, int]:
    """A running server and its port."""
    server = grpc.server(ThreadPoolExecutor(MAX_REQUESTS, thread_name_prefix="provider"), options=_GRPC_CHANNEL_OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Provider(plugin_version(), url), server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, bound
