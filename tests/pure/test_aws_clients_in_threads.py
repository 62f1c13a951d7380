"""The threads that share a boto3 client see the same exception classes."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.errorfactory import ClientExceptionsFactory

from infra.facts.clients import Clients
from localcloud.engine.aws import clients as provider_clients
from tests.pure.facts_world import credentials

__all__ = ["credentials"]


def of_the_facts() -> Any:
    return Clients("us-west-2").eks


def of_the_provider() -> Any:
    return provider_clients.client("eks", "us-west-2", "http://127.0.0.1:1")


@pytest.mark.parametrize("create", [of_the_facts, of_the_provider])
def test_exception_classes_exist_before_threads_use_the_client(
    create: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = create()

    def created_late(*_: object) -> None:
        raise AssertionError("the exception classes were created on first use, which is not thread-safe")

    monkeypatch.setattr(ClientExceptionsFactory, "_create_client_exceptions", created_late)
    assert issubclass(client.exceptions.ResourceNotFoundException, client.exceptions.ClientError)
