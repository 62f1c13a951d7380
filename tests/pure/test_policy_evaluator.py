"""The policy evaluator agrees with the examples in AWS's documentation."""

from typing import Any

import pytest

from tests.policy_evaluator import Request, UnknownPolicyElement, allows, decide


def policy(**statement: Any) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*", **statement}]}


READ = Request(
    "s3:GetObject", "arn:aws:s3:::b/k", {"aws:userid": "AROA:i-1", "s3:prefix": "home/ada/x", "aws:SecureTransport": True}
)


def test_nothing_said_is_denied() -> None:
    assert decide(READ) == "implicit deny"


def test_an_explicit_deny_wins_over_every_allow() -> None:
    assert decide(READ, policy(), policy(Effect="Deny")) == "explicit deny"


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
    ],
)
def test_a_statement_applies_when_all_its_parts_match(statement: dict[str, Any], allowed: bool) -> None:
    assert allows(READ, policy(**statement)) is allowed


def test_not_action_and_not_resource_are_the_complement() -> None:
    statement = {"Effect": "Allow", "NotAction": "iam:*", "NotResource": "arn:aws:s3:::other/*"}
    assert allows(READ, {"Version": "2012-10-17", "Statement": statement})


def test_the_value_of_a_variable_is_no_pattern() -> None:
    request = Request("s3:PutObject", "arn:aws:s3:::b/nodes/other/key", {"aws:userid": "*"})
    assert not allows(request, policy(Resource="arn:aws:s3:::b/nodes/${aws:userid}/*"))


def test_a_wildcard_of_an_arn_condition_stays_between_colons() -> None:
    request = Request("a:b", context={"aws:SourceArn": "arn:aws:ec2:us-west-2:999999999999:vpc-flow-log/fl-1"})
    assert allows(request, policy(Condition={"ArnLike": {"aws:SourceArn": "arn:aws:ec2:*:999999999999:vpc-flow-log/*"}}))
    assert not allows(request, policy(Condition={"ArnLike": {"aws:SourceArn": "arn:aws:ec2:*:vpc-flow-log/*"}}))


@pytest.mark.parametrize(
    "statement",
    [
        {"Condition": {"StringResembles": {"a": "b"}}},
        {"Condition": {"ForSomeValues:StringEquals": {"a": "b"}}},
        {"Unless": "x"},
        {"Effect": "Perhaps"},
        {"NotAction": "s3:*"},
        {"NotPrincipal": "*"},
        {"Principal": {"Federated": "x"}},
        {"Resource": "${aws:userid, 'nobody'}"},
    ],
)
def test_what_the_judge_does_not_know_it_refuses(statement: dict[str, Any]) -> None:
    with pytest.raises(UnknownPolicyElement):
        decide(READ, policy(**statement))
