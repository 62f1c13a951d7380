"""The account's default EBS key: `plan` reports a problem if and only if nodes cannot start."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from infra import validation
from infra.facts.ebs_key import SERVICE_ROLE
from infra.facts.gather import gather_facts
from infra.settings.stack import Settings
from localcloud.aws.account import ACCOUNT
from localcloud.aws.autoscaling.volume_keys import OPERATIONS
from testkit.aws_clients import REGION, Client
from testkit.eks_world import World, list_health_issues
from tests.pure.world import load_settings

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


def build_statement(action: Any, principal: str = ROLE, effect: str = "Allow", **more: Any) -> dict[str, Any]:
    return {"Effect": effect, "Principal": {"AWS": principal}, "Action": action, "Resource": "*", **more}


def grant_creator(operations: tuple[str, ...]) -> Callable[[Any, str], None]:
    def create_grant(kms: Any, key: str) -> None:
        kms.create_grant(KeyId=key, GranteePrincipal=ROLE, Operations=list(operations))

    return create_grant


def disable_key(kms: Any, key: str) -> None:
    kms.disable_key(KeyId=key.rpartition("/")[2])


Case = tuple[list[dict[str, Any]], Callable[[Any, str], None] | None, str]
"""Additional key policy statements, a function that changes the key (or None), and part of the expected problem ("" if
none).
"""

CASES: dict[str, Case] = {
    "only the account": ([], None, f"does not allow AWSServiceRoleForAutoScaling to call {', '.join(OPERATIONS[:-1])}"),
    "as AWS documents it": ([build_statement(USE), build_statement("kms:CreateGrant", Condition=FOR_AWS)], None, ""),
    "without grants": ([build_statement(USE)], None, "AWSServiceRoleForAutoScaling to call CreateGrant, so no node could start"),
    "for everyone through EC2": ([build_statement([*USE, "kms:CreateGrant"], "*", Condition=THROUGH_EC2)], None, ""),
    "for everyone through another service": (
        [build_statement("kms:*", "*", Condition={"StringEquals": {"kms:ViaService": "s3.us-west-2.amazonaws.com"}})],
        None,
        "so no node could start",
    ),
    "by a grant": ([], grant_creator(OPERATIONS), ""),
    "by a grant that does not cover everything": ([], grant_creator(("Decrypt", "CreateGrant")), "so no node could start"),
    "denied": ([build_statement("kms:*"), build_statement("kms:Decrypt", effect="Deny")], None, "to call Decrypt, so no node"),
    "disabled": (
        [build_statement("kms:*")],
        disable_key,
        "the state of the key is Disabled. Enable the key, or run `aws ec2 reset",
    ),
}


pytestmark = pytest.mark.usefixtures("account_credentials")


def find_problems() -> list[str]:
    settings: Settings = load_settings({"target": {"kind": "eks"}, "platform": {"install": False}, "pools": []}, region=REGION)
    return [str(problem) for problem in validation.run_rules(settings, gather_facts(settings))]


@pytest.fixture
def world(aws: Client) -> World:
    world = World(aws)
    world.cluster()
    return world


@pytest.mark.parametrize("case", CASES)
def test_plan_reports_an_unusable_default_ebs_key_exactly_when_nodes_cannot_start(world: World, case: str) -> None:
    statements, change, expected = CASES[case]
    kms = world.client("kms")
    policy = {"Version": "2012-10-17", "Statement": [ROOT, *statements]}
    key = kms.create_key(Policy=json.dumps(policy))["KeyMetadata"]["Arn"]
    world.ec2.modify_ebs_default_kms_key_id(KmsKeyId=key)
    if change:
        change(kms, key)

    reported = [problem for problem in find_problems() if problem.startswith("account: ")]
    assert [expected in problem for problem in reported] == ([True] if expected else [])

    group = world.node_group(launchTemplate=world.template("encrypted", **ENCRYPTED))
    launched = [] if not expected else ["AsgInstanceLaunchFailures"]
    assert [code for code, _ in list_health_issues(group)] == launched


ENCRYPTED = {"BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"Encrypted": True, "VolumeSize": 50}}]}


def test_an_unencrypted_volume_needs_no_key(world: World) -> None:
    world.ec2.modify_ebs_default_kms_key_id(KmsKeyId=world.key())
    assert list_health_issues(world.node_group()) == []


def test_a_volume_is_encrypted_with_the_default_key(world: World) -> None:
    key = world.key(Policy=json.dumps({"Version": "2012-10-17", "Statement": [ROOT, build_statement("kms:*")]}))
    world.ec2.modify_ebs_default_kms_key_id(KmsKeyId=key)
    world.node_group(launchTemplate=world.template("encrypted", **ENCRYPTED))
    assert {volume.get("KmsKeyId") for volume in world.ec2.describe_volumes()["Volumes"]} == {key}


def test_the_default_ebs_key_is_aws_managed_until_the_account_chooses_another(world: World) -> None:
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
    [(code, message)] = list_health_issues(world.node_group())
    assert code == "AsgInstanceLaunchFailures"
    assert "Termination Reason: Client.InternalError: Client error on launch" in message
