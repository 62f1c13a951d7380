"""gRPC server of the AWS provider emulator."""

import os

import grpc

import localcloud.engine.aws.resources  # noqa: F401  registers the handlers
from localcloud.engine import process
from localcloud.engine.aws.provider import Provider
from localcloud.engine.process import NoEndpoint


def read_plugin_version() -> str:
    return process.read_package_version("pulumi_aws")


def get_endpoint() -> str:
    """Return the endpoint of the local AWS, never of real AWS. Raises NoEndpoint."""
    url = os.environ.get("AWS_ENDPOINT_URL")
    if not url:
        raise NoEndpoint("AWS_ENDPOINT_URL is not set: the local provider works only with a local AWS")
    return url


def start(port: int, url: str) -> tuple[grpc.Server, int]:
    """Start the gRPC server. Return the server and its port."""
    return process.start(Provider(read_plugin_version(), url), "provider", port)
