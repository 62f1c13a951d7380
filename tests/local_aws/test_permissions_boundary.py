"""A platform team can give `up-roles-bounded.json` to people who must not create roles with arbitrary permissions."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.aws.account import ACCOUNT
from localcloud.aws.policy_evaluation import Request, allows
from testkit import iam_policies
from testkit.aws_clients import Client
from tests.local_aws.documents import EC2_TRUST

BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/gpumpi-boundary"
ADMINISTRATOR = "arn:aws:iam::aws:policy/AdministratorAccess"
TAGS = [{"Key": "gpumpi:stack", "Value": "tiny"}]
Attempt = Callable[[Client], Any]


def create_role(aws: Client, name: str, **more: Any) -> None:
    aws("iam").create_role(RoleName=name, AssumeRolePolicyDocument=EC2_TRUST, Tags=TAGS, **more)


@pytest.fixture
def bounded(aws: Client) -> Client:
    """An account in which the user has the bounded policy, with a role that was created before the boundary."""
    document = json.dumps(iam_policies.read_policy(iam_policies.BOUNDARY))
    aws("iam").create_policy(PolicyName="gpumpi-boundary", PolicyDocument=document)
    create_role(aws, "gpumpi-tiny-old")
    files = ["up-roles-bounded" if name == "up-roles" else name for name in iam_policies.STACK]
    iam_policies.restrict_user(aws, map(iam_policies.read_policy, files))
    return aws


def test_roles_with_the_boundary_can_be_created_changed_and_deleted(bounded: Client) -> None:
    iam = bounded("iam")
    create_role(bounded, "gpumpi-tiny-new", PermissionsBoundary=BOUNDARY)
    iam.attach_role_policy(RoleName="gpumpi-tiny-new", PolicyArn=ADMINISTRATOR)
    iam.put_role_policy(RoleName="gpumpi-tiny-new", PolicyName="own", PolicyDocument=json.dumps(iam_policies.read_policy("read")))
    iam.put_role_permissions_boundary(RoleName="gpumpi-tiny-old", PermissionsBoundary=BOUNDARY)
    iam.detach_role_policy(RoleName="gpumpi-tiny-new", PolicyArn=ADMINISTRATOR)
    iam.delete_role_policy(RoleName="gpumpi-tiny-new", PolicyName="own")
    iam.delete_role(RoleName="gpumpi-tiny-new")


REFUSED: dict[str, Attempt] = {
    "role without boundary": lambda aws: create_role(aws, "gpumpi-tiny-new"),
    "role with a wider boundary": lambda aws: create_role(aws, "gpumpi-tiny-new", PermissionsBoundary=ADMINISTRATOR),
    "wider boundary": lambda aws: aws("iam").put_role_permissions_boundary(
        RoleName="gpumpi-tiny-old", PermissionsBoundary=ADMINISTRATOR
    ),
    "no boundary": lambda aws: aws("iam").delete_role_permissions_boundary(RoleName="gpumpi-tiny-old"),
    "permissions for a role without boundary": lambda aws: aws("iam").attach_role_policy(
        RoleName="gpumpi-tiny-old", PolicyArn=ADMINISTRATOR
    ),
    "inline permissions for a role without boundary": lambda aws: aws("iam").put_role_policy(
        RoleName="gpumpi-tiny-old", PolicyName="own", PolicyDocument=json.dumps(iam_policies.read_policy("up"))
    ),
    "other boundary document": lambda aws: aws("iam").create_policy_version(
        PolicyArn=BOUNDARY, PolicyDocument=json.dumps(iam_policies.read_policy("up")), SetAsDefault=True
    ),
}


@pytest.mark.parametrize("attempt", REFUSED.values(), ids=REFUSED.keys())
def test_roles_that_exceed_the_boundary_are_refused(bounded: Client, attempt: Attempt) -> None:
    with pytest.raises(ClientError) as caught:
        attempt(bounded)
    assert caught.value.response["Error"]["Code"] == "AccessDenied"


ESCALATIONS = (
    *("iam:CreateUser", "iam:CreateAccessKey", "iam:PutRolePolicy", "iam:AttachRolePolicy", "iam:PassRole", "sts:AssumeRole"),
    *("ssm:GetParameter", "ssm:SendCommand", "ssm:StartSession", "secretsmanager:GetSecretValue", "kms:Decrypt"),
    *("kms:PutKeyPolicy", "s3:PutBucketPolicy", "lambda:CreateFunction", "organizations:LeaveOrganization"),
)


@pytest.mark.parametrize("action", ESCALATIONS)
def test_the_boundary_allows_no_change_of_identities_and_no_secrets(action: str) -> None:
    assert not allows(Request(action, "arn:aws:x:::any"), iam_policies.read_policy(iam_policies.BOUNDARY))


def test_iam_accepts_the_boundary(aws: Client) -> None:
    document = json.dumps(iam_policies.read_policy(iam_policies.BOUNDARY))
    assert aws("iam").create_policy(PolicyName="gpumpi-boundary", PolicyDocument=document)["Policy"]["Arn"] == BOUNDARY
