"""The Kubernetes provider stand-in as a process: a gRPC server on loopback, attached with PULUMI_DEBUG_PROVIDERS."""

import importlib.resources
import json
from concurrent.futures import ThreadPoolExecutor

import grpc
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import provider_pb2_grpc

from localcloud.engine.kubernetes.provider import Provider

MAX_REQUESTS = 512
"""At once, of all engines together; most of them wait for a cluster. Threads are made as they are needed."""


def plugin_version() -> str:
    """The official provider's version: the stand-in is for this one."""
    text = importlib.resources.files("pulumi_kubernetes").joinpath("pulumi-plugin.json").read_text()
    return str(json.loads(text)["version"])


def start(port: int) -> tuple[grpc.Server, int]:
    """A running server and its port."""
    server = grpc.server(ThreadPoolExecutor(MAX_REQUESTS, thread_name_prefix="kubernetes"), options=_GRPC_CHANNEL_OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Provider(plugin_version()), server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, bound
