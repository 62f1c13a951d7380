"""The AWS provider stand-in, served."""

import os

import grpc

import localcloud.engine.aws.resources  # noqa: F401  fills the table of handlers
from localcloud.engine import process
from localcloud.engine.aws.provider import Provider
from localcloud.engine.process import NoEndpoint


def plugin_version() -> str:
    return process.version_of("pulumi_aws")


def endpoint() -> str:
    """Where the local AWS is; never AWS itself. Raises NoEndpoint."""
    url = os.environ.get("AWS_ENDPOINT_URL")
    if not url:
        raise NoEndpoint("AWS_ENDPOINT_URL is not set: the local provider works on a local AWS only")
    return url


def start(port: int, url: str) -> tuple[grpc.Server, int]:
    """A running server and its port."""
    return process.start(Provider(plugin_version(), url), "provider", port)
