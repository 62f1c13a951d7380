"""The Kubernetes provider stand-in, served."""

import grpc

from localcloud.engine import process
from localcloud.engine.kubernetes.provider import Provider


def plugin_version() -> str:
    return process.version_of("pulumi_kubernetes")


def start(port: int) -> tuple[grpc.Server, int]:
    """A running server and its port."""
    return process.start(Provider(plugin_version()), "kubernetes", port)
