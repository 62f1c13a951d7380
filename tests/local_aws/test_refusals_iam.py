"""Calls that IAM and STS reject."""

from typing import Any

import pytest

from testkit.aws_clients import Client
from tests.local_aws.documents import EC2_TRUST, READ_OBJECTS, allow, policy, trust
from tests.local_aws.refusals import Refusal

API = "https://docs.aws.amazon.com/IAM/latest/APIReference/API_"
QUOTAS = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"
GRAMMAR = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html"
TRUST = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html"


def role(what: str, code: str, source: str = f"{API}CreateRole.html", message: str = "", **params: Any) -> Refusal:
    return Refusal(
        what, "create_role", {"RoleName": "new", "AssumeRolePolicyDocument": EC2_TRUST, **params}, code, source, message
    )


def bad_trust(what: str, text: str, message: str) -> Refusal:
    return role(what, "MalformedPolicyDocument", TRUST, message, AssumeRolePolicyDocument=text)


def bad_policy(what: str, text: str, message: str = "") -> Refusal:
    params = {"RoleName": "node", "PolicyName": "p", "PolicyDocument": text}
    return Refusal(what, "put_role_policy", params, "MalformedPolicyDocument", GRAMMAR, message)


def statements(count: int) -> str:
    return policy(*(allow(Action="s3:GetObject", Resource=f"arn:aws:s3:::bucket-{number:050}/*") for number in range(count)))


REFUSALS = [
    role("a name in use", "EntityAlreadyExists", RoleName="node"),
    role("a name of 65 characters", "ValidationError", QUOTAS, RoleName="r" * 65),
    role("a space in the name", "ValidationError", QUOTAS, RoleName="a role"),
    role("an em dash in the description", "ValidationError", Description="nodes \u2014 all of them"),
    role("sessions of 24 hours", "ValidationError", MaxSessionDuration=86400),
    role("a nonexistent permissions boundary", "NoSuchEntity", PermissionsBoundary="arn:aws:iam::123456789012:policy/missing"),
    bad_trust("a trust policy that is not JSON", "{nope", "Json"),
    bad_trust("a statement without a principal", policy(allow(Action="sts:AssumeRole")), "Principal"),
    bad_trust(
        "a trust policy with a resource",
        policy(allow(Principal={"Service": "ec2.amazonaws.com"}, Action="sts:AssumeRole", Resource="*")),
        "Resource",
    ),
    bad_trust("another service's action", trust({"Service": "ec2.amazonaws.com"}, "ec2:RunInstances"), "STS AssumeRole actions"),
    bad_trust("a nonexistent role", trust({"AWS": "arn:aws:iam::123456789012:role/nobody"}), "Invalid principal"),
    bad_trust("an invalid service principal", trust({"Service": "ec2"}), "Invalid principal"),
    bad_trust("an unknown principal type", trust({"Role": "arn:aws:iam::123456789012:role/node"}), "Invalid principal"),
    bad_trust("a lowercase effect", policy({"Effect": "allow", "Principal": "*", "Action": "sts:AssumeRole"}), "effect"),
    role(
        "a trust policy over 2048 characters",
        "LimitExceeded",
        QUOTAS,
        AssumeRolePolicyDocument=trust({"Service": [f"service-{number:040}.amazonaws.com" for number in range(50)]}),
    ),
    Refusal(
        "a trust policy without a principal",
        "update_assume_role_policy",
        {"RoleName": "node", "PolicyDocument": policy(allow(Action="sts:AssumeRole"))},
        "MalformedPolicyDocument",
        f"{API}UpdateAssumeRolePolicy.html",
    ),
    bad_policy("a policy that is not JSON", "{nope"),
    bad_policy("an action without a service prefix", policy(allow(Action="GetObject", Resource="*")), "vendor"),
    bad_policy("a statement without a resource", policy(allow(Action="s3:GetObject")), "resources"),
    bad_policy(
        "an identity policy with a principal", policy(allow(Action="s3:GetObject", Resource="*", Principal="*")), "principal"
    ),
    bad_policy("a resource that is not an ARN", policy(allow(Action="s3:GetObject", Resource="some-bucket"))),
    bad_policy("a statement id with a hyphen", policy(allow(Sid="read-objects", Action="s3:GetObject", Resource="*")), "SID"),
    bad_policy(
        "a duplicate statement id",
        policy(allow(Sid="A", Action="s3:GetObject", Resource="*"), allow(Sid="A", Action="s3:PutObject", Resource="*")),
    ),
    Refusal(
        "inline policies over 10240 characters",
        "put_role_policy",
        {"RoleName": "node", "PolicyName": "p", "PolicyDocument": statements(90)},
        "LimitExceeded",
        QUOTAS,
    ),
    Refusal(
        "a managed policy over 6144 characters",
        "create_policy",
        {"PolicyName": "p", "PolicyDocument": statements(60)},
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


def assume(what: str, role_name: str, code: str = "AccessDenied", **params: Any) -> Refusal:
    arn = f"arn:aws:iam::123456789012:role/{role_name}"
    return Refusal(what, "assume_role", {"RoleArn": arn, "RoleSessionName": "session", **params}, code, ASSUME_ROLE)


@pytest.mark.parametrize(
    "refusal",
    [
        assume("a missing role", "missing"),
        assume("a role that only EC2 may assume", "node"),
        assume("a session longer than the role allows", "mine", "ValidationError", DurationSeconds=7200),
    ],
    ids=str,
)
def test_sts_rejects_invalid_requests(aws: Client, refusal: Refusal) -> None:
    aws("iam").create_role(RoleName="node", AssumeRolePolicyDocument=EC2_TRUST)
    aws("iam").create_role(RoleName="mine", AssumeRolePolicyDocument=trust({"AWS": "123456789012"}))
    refusal.check(aws("sts"))
