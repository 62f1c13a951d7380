"""Missing facts are reported. The program stops if a fact that planning requires is missing."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from infra.facts.gather import gather_facts
from infra.facts.model import FactsError
from tests.pure.facts_world import ACCOUNT, IDENTITY, OFFERED, USER, aws_account, aws_credentials, set_answer
from tests.pure.world import pool, settings

__all__ = ["aws_account", "aws_credentials", "set_answer"]


@pytest.mark.usefixtures("aws_account")
def test_denied_optional_queries_are_listed_as_not_checked(set_answer: Callable[..., None]) -> None:
    set_answer(
        GetCallerIdentity={"Account": ACCOUNT, "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/Ops/ada"},
        GetServiceQuota="AccessDeniedException",
        DescribeClusterVersions="AccessDeniedException",
        DescribeAddonVersions="ServiceUnavailable",
        GetRole="AccessDenied",
        GetEbsDefaultKmsKeyId="UnauthorizedOperation",
    )
    facts = gather_facts(settings())
    who = f"arn:aws:sts::{ACCOUNT}:assumed-role/Ops/ada"
    assert (facts.quotas, facts.kubernetes_versions, facts.addon_versions, facts.caller.principal_arn) == ({}, (), {}, None)
    versions, addons, *further = facts.unchecked_sentences
    assert versions.startswith("Kubernetes versions: "), versions
    assert addons.startswith("add-on versions: AWS could not be queried: An error occurred (ServiceUnavailable)")
    assert further == [
        f"the IAM role behind the caller: {who} may not call iam:GetRole",
        f"vCPU quotas: {who} may not call servicequotas:GetServiceQuota",
        f"whether Auto Scaling may use the default key of EBS: {who} may not call ec2:GetEbsDefaultKmsKeyId",
    ]
    assert {query.name for query in facts.unchecked} == {
        *("KUBERNETES_VERSIONS", "ADDON_VERSIONS", "CALLER_ROLE", "VCPU_QUOTAS", "EBS_KEY")
    }


@pytest.mark.usefixtures("aws_account")
def test_denied_required_query_ends_planning(set_answer: Callable[..., None]) -> None:
    set_answer(**IDENTITY, **OFFERED, DescribeSubnets="UnauthorizedOperation")
    with pytest.raises(FactsError) as caught:
        gather_facts(settings())
    assert str(caught.value) == f"{USER} may not call ec2:DescribeSubnets, which planning requires. Allow it"


@pytest.mark.usefixtures("aws_account")
def test_quota_missing_from_every_list_is_reported(set_answer: Callable[..., None]) -> None:
    set_answer(**IDENTITY, **OFFERED)
    observed = gather_facts(settings(pool(instance_type="p6-b200.48xlarge", capacity={"kind": "spot"})))
    assert observed.unchecked_sentences == ("vCPU quota of p6-b200.48xlarge as spot: not in AWS's list of quotas",)


@pytest.mark.usefixtures("aws_account")
def test_quota_missing_in_the_region_is_reported(set_answer: Callable[..., None]) -> None:
    set_answer(**IDENTITY, **{**OFFERED, "GetServiceQuota": "NoSuchResourceException"})
    name = "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"
    assert gather_facts(settings()).unchecked_sentences == (f"vCPU quota L-1216C47A ({name}): AWS reports no value",)


@pytest.mark.usefixtures("aws_account")
def test_expired_credentials_are_reported(set_answer: Callable[..., None]) -> None:
    set_answer(GetCallerIdentity="ExpiredToken")
    with pytest.raises(FactsError, match=r"^AWS rejects the credentials \(ExpiredToken\)\. Log in "):
        gather_facts(settings())


def test_missing_credentials_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    with pytest.raises(FactsError, match=r"^AWS could not be queried: no credentials found\. Log in "):
        gather_facts(settings())


def test_an_unknown_profile_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(
        FactsError, match=r"^AWS could not be queried: The config profile \(nobody\) could not be found\. Log in "
    ):
        gather_facts(settings())


@pytest.mark.parametrize(
    ("region", "problem"),
    [
        ("us-west-2", "AWS is not reachable in Region us-west-2: Could not connect to the endpoint"),
        ("us-wst-2", '"us-wst-2" is not a known Region, and AWS rejects requests to it (Could not connect to the endpoint'),
    ],
)
def test_unreachable_endpoint_is_reported_with_the_region(region: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(FactsError, match=f"^{re.escape(problem)}"):
        gather_facts(settings(region=region))
