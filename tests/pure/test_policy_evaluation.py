"""The policy evaluator agrees with the examples in AWS's documentation."""

from typing import Any

import pytest

from localcloud.aws.policy_evaluation import Request, UnknownPolicyElement, allows, evaluate_request


def make_policy(**statement: Any) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*", **statement}]}


READ = Request(
    "s3:GetObject", "arn:aws:s3:::b/k", {"aws:userid": "AROA:i-1", "s3:prefix": "home/ada/x", "aws:SecureTransport": True}
)


def test_request_without_a_matching_statement_is_denied() -> None:
    assert evaluate_request(READ) == "implicit deny"


def test_explicit_deny_overrides_every_allow() -> None:
    assert evaluate_request(READ, make_policy(), make_policy(Effect="Deny")) == "explicit deny"


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ({"Action": "s3:Get*"}, True),
        ({"Action": "S3:getobject"}, True),
        ({"Action": ["ec2:*", "s3:GetObject"]}, True),
        ({"Action": "s3:Put*"}, False),
        ({"Resource": "arn:aws:s3:::b/?"}, True),
        ({"Resource": "arn:aws:s3:::b"}, False),
        ({"Resource": "arn:aws:s3:::b/${aws:userid}"}, False),
        ({"Resource": "arn:aws:s3:::b/${missing:key}*"}, False),
        ({"Condition": {"StringLike": {"s3:prefix": "home/*"}}}, True),
        ({"Condition": {"StringEquals": {"s3:prefix": "home/*"}}}, False),
        ({"Condition": {"StringEquals": {"S3:Prefix": "home/ada/x"}}}, True),
        ({"Condition": {"StringEquals": {"aws:absent": "x"}}}, False),
        ({"Condition": {"StringEqualsIfExists": {"aws:absent": "x"}}}, True),
        ({"Condition": {"StringNotEquals": {"aws:absent": "x"}}}, True),
        ({"Condition": {"Null": {"aws:absent": "true"}}}, True),
        ({"Condition": {"Null": {"s3:prefix": "true"}}}, False),
        ({"Condition": {"Bool": {"aws:SecureTransport": "false"}}}, False),
        ({"Condition": {"ForAnyValue:StringEquals": {"s3:prefix": ["a", "home/ada/x"]}}}, True),
        ({"Principal": "*"}, True),
        ({"Principal": {"AWS": "arn:aws:iam::123456789012:root"}}, False),
        ({"NotPrincipal": {"AWS": "arn:aws:iam::123456789012:user/ada"}}, True),
        ({"Resource": "arn:aws:s3:::${aws:PrincipalTag/team, 'b'}/k"}, True),
        ({"Condition": {"NumericLessThan": {"s3:prefix": "5"}}}, False),
    ],
)
def test_a_statement_applies_when_all_its_parts_match(statement: dict[str, Any], allowed: bool) -> None:
    assert allows(READ, make_policy(**statement)) is allowed


def test_not_action_and_not_resource_match_the_complement() -> None:
    statement = {"Effect": "Allow", "NotAction": "iam:*", "NotResource": "arn:aws:s3:::other/*"}
    assert allows(READ, {"Version": "2012-10-17", "Statement": statement})


def test_wildcard_in_a_variable_value_is_matched_literally() -> None:
    request = Request("s3:PutObject", "arn:aws:s3:::b/nodes/other/key", {"aws:userid": "*"})
    assert not allows(request, make_policy(Resource="arn:aws:s3:::b/nodes/${aws:userid}/*"))


def test_arn_condition_wildcard_does_not_cross_colons() -> None:
    request = Request("a:b", context={"aws:SourceArn": "arn:aws:ec2:us-west-2:999999999999:vpc-flow-log/fl-1"})
    assert allows(request, make_policy(Condition={"ArnLike": {"aws:SourceArn": "arn:aws:ec2:*:999999999999:vpc-flow-log/*"}}))
    assert not allows(request, make_policy(Condition={"ArnLike": {"aws:SourceArn": "arn:aws:ec2:*:vpc-flow-log/*"}}))


@pytest.mark.parametrize(
    "statement",
    [
        {"Condition": {"StringResembles": {"a": "b"}}},
        {"Condition": {"ForSomeValues:StringEquals": {"a": "b"}}},
        {"Unless": "x"},
        {"Effect": "Perhaps"},
        {"NotAction": "s3:*"},
        {"Principal": {"Robot": "x"}},
    ],
)
def test_unknown_policy_element_is_refused(statement: dict[str, Any]) -> None:
    with pytest.raises(UnknownPolicyElement):
        evaluate_request(READ, make_policy(**statement))


ADA = {"AWS": "arn:aws:iam::123456789012:user/ada"}


@pytest.mark.parametrize(
    ("principal", "directly", "by_account"),
    [
        ("arn:aws:iam::123456789012:user/ada", True, True),
        ("arn:aws:iam::123456789012:root", False, True),
        ("123456789012", False, True),
        ("arn:aws:iam::999999999999:root", False, False),
    ],
)
def test_account_principal_does_not_grant_users_access_directly(principal: str, directly: bool, by_account: bool) -> None:
    document = make_policy(Principal={"AWS": principal})
    assert allows(Request("s3:GetObject", principal=ADA), document) is by_account
    assert allows(Request("s3:GetObject", principal=ADA, via_account=False), document) is directly


@pytest.mark.parametrize(
    ("statement", "decision"),
    [
        ({}, "allow"),
        ({"Resource": "arn:aws:s3:::b/*"}, "implicit deny"),
        ({"Resource": ["arn:aws:s3:::b/*", "*"]}, "allow"),
        ({"Effect": "Deny", "Resource": "arn:aws:s3:::b/*"}, "explicit deny"),
    ],
)
def test_unknown_resource_matches_every_deny_but_only_wildcard_allows(statement: dict[str, Any], decision: str) -> None:
    assert evaluate_request(Request("s3:GetObject", None), make_policy(**statement)) == decision


def test_policies_of_the_older_version_have_no_variables() -> None:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_version.html"""
    request = Request("s3:GetObject", "arn:aws:s3:::b/${aws:userid}", {"aws:userid": "ada"})
    document = make_policy(Resource="arn:aws:s3:::b/${aws:userid}")
    assert not allows(request, document)
    assert allows(request, {**document, "Version": "2008-10-17"})
