"""Calls that IAM and STS reject."""

from typing import Any

import pytest

from testkit.aws_clients import Client
from tests.local_aws.documents import EC2_TRUST, READ_OBJECTS, allow_statement, make_policy, make_trust_policy
from tests.local_aws.refusals import Refusal

API = "https://docs.aws.amazon.com/IAM/latest/APIReference/API_"
QUOTAS = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"
GRAMMAR = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html"
TRUST = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html"


def reject_role(what: str, code: str, source: str = f"{API}CreateRole.html", message: str = "", **params: Any) -> Refusal:
    return Refusal(
        what, "create_role", {"RoleName": "new", "AssumeRolePolicyDocument": EC2_TRUST, **params}, code, source, message
    )


def reject_trust_policy(what: str, text: str, message: str) -> Refusal:
    return reject_role(what, "MalformedPolicyDocument", TRUST, message, AssumeRolePolicyDocument=text)


def reject_policy(what: str, text: str, message: str = "") -> Refusal:
    params = {"RoleName": "node", "PolicyName": "p", "PolicyDocument": text}
    return Refusal(what, "put_role_policy", params, "MalformedPolicyDocument", GRAMMAR, message)


def build_long_policy(count: int) -> str:
    return make_policy(
        *(allow_statement(Action="s3:GetObject", Resource=f"arn:aws:s3:::bucket-{number:050}/*") for number in range(count))
    )


REFUSALS = [
    reject_role("a name in use", "EntityAlreadyExists", RoleName="node"),
    reject_role("a name of 65 characters", "ValidationError", QUOTAS, RoleName="r" * 65),
    reject_role("a space in the name", "ValidationError", QUOTAS, RoleName="a role"),
    reject_role("an em dash in the description", "ValidationError", Description="nodes \u2014 all of them"),
    reject_role("sessions of 24 hours", "ValidationError", MaxSessionDuration=86400),
    reject_role(
        "a nonexistent permissions boundary", "NoSuchEntity", PermissionsBoundary="arn:aws:iam::123456789012:policy/missing"
    ),
    reject_trust_policy("a trust policy that is not JSON", "{nope", "Json"),
    reject_trust_policy("a statement without a principal", make_policy(allow_statement(Action="sts:AssumeRole")), "Principal"),
    reject_trust_policy(
        "a trust policy with a resource",
        make_policy(allow_statement(Principal={"Service": "ec2.amazonaws.com"}, Action="sts:AssumeRole", Resource="*")),
        "Resource",
    ),
    reject_trust_policy(
        "another service's action",
        make_trust_policy({"Service": "ec2.amazonaws.com"}, "ec2:RunInstances"),
        "STS AssumeRole actions",
    ),
    reject_trust_policy(
        "a nonexistent role", make_trust_policy({"AWS": "arn:aws:iam::123456789012:role/nobody"}), "Invalid principal"
    ),
    reject_trust_policy("an invalid service principal", make_trust_policy({"Service": "ec2"}), "Invalid principal"),
    reject_trust_policy(
        "an unknown principal type", make_trust_policy({"Role": "arn:aws:iam::123456789012:role/node"}), "Invalid principal"
    ),
    reject_trust_policy(
        "a lowercase effect", make_policy({"Effect": "allow", "Principal": "*", "Action": "sts:AssumeRole"}), "effect"
    ),
    reject_role(
        "a trust policy over 2048 characters",
        "LimitExceeded",
        QUOTAS,
        AssumeRolePolicyDocument=make_trust_policy({"Service": [f"service-{number:040}.amazonaws.com" for number in range(50)]}),
    ),
    Refusal(
        "a trust policy without a principal",
        "update_assume_role_policy",
        {"RoleName": "node", "PolicyDocument": make_policy(allow_statement(Action="sts:AssumeRole"))},
        "MalformedPolicyDocument",
        f"{API}UpdateAssumeRolePolicy.html",
    ),
    reject_policy("a policy that is not JSON", "{nope"),
    reject_policy("an action without a service prefix", make_policy(allow_statement(Action="GetObject", Resource="*")), "vendor"),
    reject_policy("a statement without a resource", make_policy(allow_statement(Action="s3:GetObject")), "resources"),
    reject_policy(
        "an identity policy with a principal",
        make_policy(allow_statement(Action="s3:GetObject", Resource="*", Principal="*")),
        "principal",
    ),
    reject_policy("a resource that is not an ARN", make_policy(allow_statement(Action="s3:GetObject", Resource="some-bucket"))),
    reject_policy(
        "a statement id with a hyphen",
        make_policy(allow_statement(Sid="read-objects", Action="s3:GetObject", Resource="*")),
        "SID",
    ),
    reject_policy(
        "a duplicate statement id",
        make_policy(
            allow_statement(Sid="A", Action="s3:GetObject", Resource="*"),
            allow_statement(Sid="A", Action="s3:PutObject", Resource="*"),
        ),
    ),
    Refusal(
        "inline policies over 10240 characters",
        "put_role_policy",
        {"RoleName": "node", "PolicyName": "p", "PolicyDocument": build_long_policy(90)},
        "LimitExceeded",
        QUOTAS,
    ),
    Refusal(
        "a managed policy over 6144 characters",
        "create_policy",
        {"PolicyName": "p", "PolicyDocument": build_long_policy(60)},
        "LimitExceeded",
        QUOTAS,
    ),
    Refusal(
        "an eleventh managed policy",
        "attach_role_policy",
        {"RoleName": "full", "PolicyArn": "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"},
        "LimitExceeded",
        QUOTAS,
    ),
    Refusal(
        "a nonexistent policy",
        "attach_role_policy",
        {"RoleName": "node", "PolicyArn": "arn:aws:iam::aws:policy/AmazonEKSEverythingPolicy"},
        "NoSuchEntity",
        f"{API}AttachRolePolicy.html",
    ),
    Refusal(
        "a name instead of an ARN",
        "attach_role_policy",
        {"RoleName": "node", "PolicyArn": "AmazonEKSClusterPolicy"},
        "InvalidInput",
        f"{API}AttachRolePolicy.html",
    ),
    Refusal("a role with an attached policy", "delete_role", {"RoleName": "full"}, "DeleteConflict", f"{API}DeleteRole.html"),
    Refusal("a missing role", "get_role", {"RoleName": "missing"}, "NoSuchEntity", f"{API}GetRole.html"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_iam_rejects_invalid_requests(aws: Client, refusal: Refusal) -> None:
    iam = aws("iam")
    iam.create_role(RoleName="node", AssumeRolePolicyDocument=EC2_TRUST)
    iam.create_role(RoleName="full", AssumeRolePolicyDocument=EC2_TRUST)
    for number in range(10):
        policy_arn = iam.create_policy(PolicyName=f"p{number}", PolicyDocument=READ_OBJECTS)["Policy"]["Arn"]
        iam.attach_role_policy(RoleName="full", PolicyArn=policy_arn)
    refusal.check(iam)


ASSUME_ROLE = "https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html"


def reject_assume_role(what: str, role_name: str, code: str = "AccessDenied", **params: Any) -> Refusal:
    arn = f"arn:aws:iam::123456789012:role/{role_name}"
    return Refusal(what, "assume_role", {"RoleArn": arn, "RoleSessionName": "session", **params}, code, ASSUME_ROLE)


@pytest.mark.parametrize(
    "refusal",
    [
        reject_assume_role("a missing role", "missing"),
        reject_assume_role("a role that only EC2 may assume", "node"),
        reject_assume_role("a session longer than the role allows", "mine", "ValidationError", DurationSeconds=7200),
    ],
    ids=str,
)
def test_sts_rejects_invalid_requests(aws: Client, refusal: Refusal) -> None:
    aws("iam").create_role(RoleName="node", AssumeRolePolicyDocument=EC2_TRUST)
    aws("iam").create_role(RoleName="mine", AssumeRolePolicyDocument=make_trust_policy({"AWS": "123456789012"}))
    refusal.check(aws("sts"))
