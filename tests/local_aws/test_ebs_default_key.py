"""The account's default EBS key: `plan` reports a problem if and only if nodes cannot start."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from infra import validation
from infra.facts.ebs_key import SERVICE_ROLE
from infra.facts.gather import gather
from infra.settings.stack import Settings
from localcloud.aws.account import ACCOUNT
from localcloud.aws.autoscaling.volume_keys import OPERATIONS
from testkit.aws_clients import REGION, Client
from testkit.eks_world import World, issues
from tests.pure.world import load

ROLE = f"arn:aws:iam::{ACCOUNT}:{SERVICE_ROLE}"
ROOT = {
    "Sid": "root",
    "Effect": "Allow",
    "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
    "Action": "kms:*",
    "Resource": "*",
}
USE = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"]
FOR_AWS = {"Bool": {"kms:GrantIsForAWSResource": True}}
THROUGH_EC2 = {"StringEquals": {"kms:ViaService": f"ec2.{REGION}.amazonaws.com", "kms:CallerAccount": ACCOUNT}}


def statement(action: Any, principal: str = ROLE, effect: str = "Allow", **more: Any) -> dict[str, Any]:
    return {"Effect": effect, "Principal": {"AWS": principal}, "Action": action, "Resource": "*", **more}


def grant(operations: tuple[str, ...]) -> Callable[[Any, str], None]:
    def make(kms: Any, key: str) -> None:
        kms.create_grant(KeyId=key, GranteePrincipal=ROLE, Operations=list(operations))

    return make


def disable(kms: Any, key: str) -> None:
    kms.disable_key(KeyId=key.rpartition("/")[2])


Case = tuple[list[dict[str, Any]], Callable[[Any, str], None] | None, str]
"""Additional key policy statements, a function that changes the key (or None), and part of the expected problem ("" if
none).
"""

CASES: dict[str, Case] = {
    "only the account": ([], None, f"does not allow AWSServiceRoleForAutoScaling to call {', '.join(OPERATIONS[:-1])}"),
    "as AWS documents it": ([statement(USE), statement("kms:CreateGrant", Condition=FOR_AWS)], None, ""),
    "without grants": ([statement(USE)], None, "AWSServiceRoleForAutoScaling to call CreateGrant, so no node could start"),
    "for everyone through EC2": ([statement([*USE, "kms:CreateGrant"], "*", Condition=THROUGH_EC2)], None, ""),
    "for everyone through another service": (
        [statement("kms:*", "*", Condition={"StringEquals": {"kms:ViaService": "s3.us-west-2.amazonaws.com"}})],
        None,
        "so no node could start",
    ),
    "by a grant": ([], grant(OPERATIONS), ""),
    "by a grant that does not cover everything": ([], grant(("Decrypt", "CreateGrant")), "so no node could start"),
    "denied": ([statement("kms:*"), statement("kms:Decrypt", effect="Deny")], None, "to call Decrypt, so no node"),
    "disabled": ([statement("kms:*")], disable, "the state of the key is Disabled. Enable the key, or run `aws ec2 reset"),
}


pytestmark = pytest.mark.usefixtures("account_credentials")


def problems() -> list[str]:
    settings: Settings = load({"target": {"kind": "eks"}, "platform": {"install": False}, "pools": []}, region=REGION)
    return [str(problem) for problem in validation.check(settings, gather(settings))]


@pytest.fixture
def world(aws: Client) -> World:
    world = World(aws)
    world.cluster()
    return world


@pytest.mark.parametrize("case", CASES)
def test_the_plan_reports_a_key_exactly_when_nodes_cannot_start(world: World, case: str) -> None:
    statements, change, expected = CASES[case]
    kms = world.client("kms")
    policy = {"Version": "2012-10-17", "Statement": [ROOT, *statements]}
    key = kms.create_key(Policy=json.dumps(policy))["KeyMetadata"]["Arn"]
    world.ec2.modify_ebs_default_kms_key_id(KmsKeyId=key)
    if change:
        change(kms, key)

    reported = [problem for problem in problems() if problem.startswith("account: ")]
    assert [expected in problem for problem in reported] == ([True] if expected else [])

    group = world.node_group(launchTemplate=world.template("encrypted", **ENCRYPTED))
    launched = [] if not expected else ["AsgInstanceLaunchFailures"]
    assert [code for code, _ in issues(group)] == launched


ENCRYPTED = {"BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"Encrypted": True, "VolumeSize": 50}}]}


def test_an_unencrypted_volume_needs_no_key(world: World) -> None:
    world.ec2.modify_ebs_default_kms_key_id(KmsKeyId=world.key())
    assert issues(world.node_group()) == []


def test_a_volume_is_encrypted_with_the_default_key(world: World) -> None:
    key = world.key(Policy=json.dumps({"Version": "2012-10-17", "Statement": [ROOT, statement("kms:*")]}))
    world.ec2.modify_ebs_default_kms_key_id(KmsKeyId=key)
    world.node_group(launchTemplate=world.template("encrypted", **ENCRYPTED))
    assert {volume.get("KmsKeyId") for volume in world.ec2.describe_volumes()["Volumes"]} == {key}


def test_the_default_key_is_the_key_of_aws_until_the_account_chooses_another(world: World) -> None:
    ec2 = world.ec2
    key = world.key()
    assert ec2.get_ebs_default_kms_key_id()["KmsKeyId"] == "alias/aws/ebs"
    assert ec2.modify_ebs_default_kms_key_id(KmsKeyId=key)["KmsKeyId"] == key
    assert ec2.get_ebs_default_kms_key_id()["KmsKeyId"] == key
    assert ec2.reset_ebs_default_kms_key_id()["KmsKeyId"] == "alias/aws/ebs"
    assert ec2.get_ebs_default_kms_key_id()["KmsKeyId"] == "alias/aws/ebs"
    assert ec2.get_ebs_encryption_by_default()["EbsEncryptionByDefault"] is False


def test_an_account_can_encrypt_all_volumes_by_default(world: World) -> None:
    world.ec2.enable_ebs_encryption_by_default()
    world.ec2.modify_ebs_default_kms_key_id(KmsKeyId=world.key())
    [(code, message)] = issues(world.node_group())
    assert code == "AsgInstanceLaunchFailures"
    assert "Termination Reason: Client.InternalError: Client error on launch" in message
