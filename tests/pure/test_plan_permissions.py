"""`plan` checks the permissions that the local cloud recorded for the same stack, and docs/iam allows all of them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.config import stack_file
from infra.config.parse import parse_model
from infra.facts.model import CapacityReservation, Subnet
from infra.inventory.permissions import list_needed_permissions, read_actions
from infra.inventory.table import TABLE
from infra.settings.stack import Settings
from localcloud.aws.policy_evaluation import to_list
from tests.pure.world import ZONES, account_facts

ROOT = Path(__file__).parents[2]
IAM = ROOT / "docs" / "iam"
RECORDED = ("05-existing-vpc-and-efs", "06-closed-network", "full", "full-ec2", "local", "local-ec2")
CREATED_LATER = {"ec2:CreateTags", "ec2:RunInstances"}
"""Actions that AWS checks as part of other calls, so they are not recorded for every stack."""
BEFORE_UP = {
    *("ec2:DescribeAvailabilityZones", "ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstanceTypes"),
    *("ec2:DescribeInstanceTypeOfferings", "ec2:DescribePlacementGroups", "ec2:DescribeVpcEndpointServices"),
    *("ec2:DescribeRouteTables", "ec2:DescribeSubnets", "ec2:DescribeVpcAttribute", "ec2:DescribeVpcs"),
    *("ec2:DescribeVpcEndpoints", "ec2:GetEbsDefaultKmsKeyId", "eks:DescribeAddonVersions", "eks:DescribeClusterVersions"),
    *(
        "eks:ListAddons",
        "eks:ListNodegroups",
        "elasticfilesystem:DescribeFileSystems",
        "elasticfilesystem:DescribeMountTargetSecurityGroups",
    ),
    *("elasticfilesystem:DescribeMountTargets", "iam:GetUser", "servicequotas:GetServiceQuota"),
}
"""Read actions that the checks before `up` need. If an action is not allowed, the result of its check is unknown."""


def load_stack(name: str) -> Settings:
    folder = ROOT / ("tests/configs" if name.startswith("full") else "stacks")
    raw = stack_file.read_stack_file(folder / f"Pulumi.{name}.yaml")
    parsed = parse_model(Settings, raw.values, stack=raw.stack, region=raw.region)
    assert parsed.model is not None
    return parsed.model


def list_needed_actions(settings: Settings) -> set[str]:
    subnets = {
        subnet: Subnet(subnet, "vpc", f"us-west-2{letter}", "10.0.0.0/24", 1, False)
        for subnet, letter in zip(settings.network.subnet_ids, "abc", strict=False)
    }
    zones = frozenset((*ZONES, *settings.network.zone_names))
    types = {settings.target.head_type, *(pool.instance_type for pool in settings.pools)}
    facts = account_facts(settings, offerings=dict.fromkeys(types, zones), **({"subnets": subnets} if subnets else {}))
    return {action for need in list_needed_permissions(settings, facts) for action in need.actions}


def list_allowed_actions(*names: str) -> set[str]:
    def yield_actions() -> Iterator[str]:
        for name in names:
            document: dict[str, Any] = json.loads((IAM / f"{name}.json").read_text(encoding="utf-8"))
            for statement in document["Statement"]:
                yield from to_list(statement["Action"])

    return set(yield_actions())


def test_iam_actions_are_recorded_for_every_resource_type() -> None:
    assert set(read_actions()) == set(TABLE)


@pytest.mark.parametrize("name", RECORDED)
def test_required_permissions_match_the_recorded_permissions(name: str) -> None:
    sources: dict[str, str] = yaml.safe_load((IAM / "sources.yaml").read_text(encoding="utf-8"))
    allowed = list_allowed_actions("read", "up", "destroy")
    recorded = {
        action
        for action, source in sources.items()
        if action in allowed and source.startswith("recorded: ") and name in source.removeprefix("recorded: ").split(", ")
    }
    beginnings = ("https://", "hashicorp/", "not verified", "localcloud/engine/aws/resources/", "infra/facts/fsx.py")
    documented = {action for action, source in sources.items() if source.startswith(beginnings)}
    assert recorded - BEFORE_UP <= list_needed_actions(load_stack(name))
    assert list_needed_actions(load_stack(name)) - recorded - documented <= CREATED_LATER


@pytest.mark.parametrize("name", RECORDED)
def test_documented_policies_allow_every_permission_that_plan_checks(name: str) -> None:
    assert list_needed_actions(load_stack(name)) - list_allowed_actions("read", "up", "destroy") == set()


def test_new_lustre_file_system_needs_permissions_for_fsx_and_its_s3_link() -> None:
    needed_actions = list_needed_actions(load_stack("10-fsx-lustre"))
    assert {"fsx:CreateFileSystem", "fsx:DeleteFileSystem", "fsx:CreateDataRepositoryAssociation"} <= needed_actions
    assert not {action for action in list_needed_actions(load_stack("02-p4d-efa")) if action.startswith("fsx:")}
    assert needed_actions <= list_allowed_actions("read", "up", "destroy")


def test_capacity_block_pool_needs_scheduled_action_permissions() -> None:
    stack = load_stack("03-p5-capacity-block")
    start = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)
    [name] = [pool.reservation_id for pool in stack.pools if pool.reservation_id]
    block = CapacityReservation(
        *(name, "capacity-block", "scheduled", "p5.48xlarge", "us-west-2a", 2, 2), start=start, end=start + timedelta(days=1)
    )
    needed_actions = {
        action
        for need in list_needed_permissions(stack, account_facts(stack, reservations={name: block}))
        for action in need.actions
    }
    scheduled = {"autoscaling:PutScheduledUpdateGroupAction", "autoscaling:DeleteScheduledAction"}
    assert scheduled <= needed_actions - list_needed_actions(load_stack("02-p4d-efa"))
    assert needed_actions <= list_allowed_actions("read", "up", "destroy")
