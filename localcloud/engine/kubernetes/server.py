"""gRPC server of the Kubernetes provider emulator."""

import grpc

from localcloud.engine import process
from localcloud.engine.kubernetes.provider import Provider


def plugin_version() -> str:
    return process.read_package_version("pulumi_kubernetes")


def start(port: int) -> tuple[grpc.Server, int]:
    """Start the gRPC server. Return the server and its port."""
    return process.start(Provider(plugin_version()), "kubernetes", port)
