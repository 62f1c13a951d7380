"""Fixtures for the local AWS in this process (`aws`) and as a separate process (`server`)."""

from collections.abc import Iterator

import pytest
from moto import mock_aws

from localcloud.aws import account, calls, durations, extend
from testkit.aws_clients import Client, LocalAws, client, start_server, stop_server
from tests.local_aws.eks_refusing import Refusing

extend.extend_moto()


@pytest.fixture
def aws() -> Iterator[Client]:
    """Factory for clients of an empty local AWS account in this process."""
    calls.clear_counts()
    with mock_aws():
        yield client
    durations.set_factor(0)


@pytest.fixture(scope="module")
def shared_eks_world() -> Iterator[Refusing]:
    """One environment shared by all rejected calls in a test module; this is safe because a rejected call changes
    nothing.
    """
    with mock_aws():
        yield Refusing(client)


@pytest.fixture(scope="module")
def server_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    server = start_server(tmp_path_factory.mktemp("local-aws"))
    yield server
    stop_server(server)


@pytest.fixture
def server(server_process: LocalAws) -> LocalAws:
    """The module's server, reset before each test."""
    server_process.call_control_api("POST", "reset")
    return server_process


@pytest.fixture
def account_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the credentials of the account's user in the environment, for code that creates its own clients."""
    for name, value in account.default_access_key().environment.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
