"""The threads that share a boto3 client see the same exception classes."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.errorfactory import ClientExceptionsFactory

from infra.facts.clients import Clients
from localcloud.engine.aws import clients as provider_clients
from tests.pure.facts_world import aws_credentials

__all__ = ["aws_credentials"]


def make_facts_client() -> Any:
    return Clients("us-west-2").eks


def make_provider_client() -> Any:
    return provider_clients.get_client("eks", "us-west-2", "http://127.0.0.1:1")


@pytest.mark.parametrize("create", [make_facts_client, make_provider_client])
def test_exception_classes_exist_before_threads_use_the_client(
    create: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = create()

    def fail_late_creation(*_: object) -> None:
        raise AssertionError("the exception classes were created on first use, which is not thread-safe")

    monkeypatch.setattr(ClientExceptionsFactory, "_create_client_exceptions", fail_late_creation)
    assert issubclass(client.exceptions.ResourceNotFoundException, client.exceptions.ClientError)
