"""AWS account for tests that gather facts: moto in this process, with fixed responses to the calls that moto lacks."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from moto import mock_aws

from infra.facts import account as account_facts
from localcloud.aws import account

ACCOUNT = "123456789012"
KEY = account.default_access_key().access_key_id
"""Access key that moto always accepts. Once a test in this process has loaded the local AWS, moto rejects other keys.
"""
USER = f"arn:aws:iam::{ACCOUNT}:user/ada"


@pytest.fixture(autouse=True)
def aws_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    # `count_vcpus_in_use` calls DescribeCapacityReservations, which moto lacks. tests/local_aws/test_facts.py tests it.
    monkeypatch.setattr(account_facts, "count_vcpus_in_use", lambda *_: {})


@pytest.fixture(scope="module")
def aws_account() -> Iterator[None]:
    """All tests share one account, because resetting it takes longer than the tests. Each test creates the resources
    that it needs.
    """
    with mock_aws():
        yield


@pytest.fixture
def set_answer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets an operation's response or error code, for calls that moto lacks."""
    answers: dict[str, Any] = {}
    real = BaseClient._make_api_call  # type: ignore[attr-defined]

    def call_operation(self: BaseClient, operation: str, arguments: dict[str, Any]) -> Any:
        canned = answers.get(operation)
        if isinstance(canned, str):
            words = f"User: {USER} is not authorized to perform: {self.meta.service_model.signing_name}:{operation}"
            raise ClientError({"Error": {"Code": canned, "Message": words}}, operation)
        return real(self, operation, arguments) if canned is None else canned

    monkeypatch.setattr(BaseClient, "_make_api_call", call_operation)
    return answers.update


IDENTITY = {"GetCallerIdentity": {"Account": ACCOUNT, "Arn": USER, "UserId": "AIDA"}}
OFFERED = {
    "DescribeClusterVersions": {"clusterVersions": [{"clusterVersion": version} for version in ("1.36", "1.9", "1.35")]},
    "DescribeAddonVersions": {"addons": []},
    "GetServiceQuota": {"Quota": {"Value": 96.0}},
    "GetEbsDefaultKmsKeyId": {"KmsKeyId": "alias/aws/ebs"},
}
