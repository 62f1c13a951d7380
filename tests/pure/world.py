"""A valid stack and matching facts for tests of validation rules; tests specify only the differences."""

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import moto

from infra.config.parse import parse_model
from infra.config.problems import SettingsError
from infra.facts.instance_types import InstanceType
from infra.facts.model import AddonVersions, Ami, Caller, Facts, Subnet, Vpc, Zone
from infra.facts.service_quotas import find_vcpu_quota
from infra.naming import ADDONS
from infra.settings.stack import Settings
from infra.versions import LIVE_KUBERNETES_VERSIONS

REGION = "us-west-2"
ZONES = ("us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d")
ACCOUNT = "123456789012"
TODAY = date(2026, 11, 28)
ADMIN = f"arn:aws:iam::{ACCOUNT}:role/Admin"
VPC, SUBNET, FILE_SYSTEM = "vpc-0123456789abcdef0", "subnet-0123456789abcde", "fs-0123456789abcdef0"
RESERVATION, IMAGE = "cr-0123456789abcdef0", "ami-0123456789abcdef0"

ADDON_VERSIONS = dict.fromkeys(
    ADDONS, AddonVersions(frozenset({"v1.35.1-eksbuild.1", "v1.35.2-eksbuild.1", "v1.35.3-eksbuild.1"}), "v1.35.2-eksbuild.1")
)


@cache
def load_described_types() -> dict[str, Any]:
    """Return real DescribeInstanceTypes data from moto's copy."""
    path = Path(moto.__file__).parent / "ec2" / "resources" / "instance_types.json.gz"
    with gzip.open(path) as file:
        described: dict[str, Any] = json.load(file)
    return described


def instance_type(name: str) -> InstanceType:
    return InstanceType.from_ec2(load_described_types()[name])


def load_settings(raw: Mapping[str, object], *, stack: str = "test", region: str = REGION) -> Settings:
    """Parse a stack's settings. Raise SettingsError if a value is malformed."""
    parsed = parse_model(Settings, raw, stack=stack, region=region)
    if parsed.model is None or parsed.problems:
        raise SettingsError(parsed.problems)
    return parsed.model


def pool(name: str = "train", instance_type: str = "g5.8xlarge", maxSize: int = 2, **more: Any) -> dict[str, Any]:
    return {"name": name, "instanceType": instance_type, "maxSize": maxSize, **more}


def stack_values(*pools: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """Return the values under `gpumpi:` in a stack file."""
    target = {"kind": "eks", **sections.pop("target", {})}
    return {"target": target, "pools": list(pools), **sections}


def settings(*pools: dict[str, Any], stack: str = "test", region: str = REGION, **sections: Any) -> Settings:
    """Return settings without a platform unless the test configures one, because most tests are about AWS. By default, a
    connected network reaches the Kubernetes API: otherwise every stack would have a warning."""
    platform = {"install": False, **sections.pop("platform", {})}
    target = {"endpointAccess": {"privateCidrs": ["10.8.0.0/16"]}, **sections.pop("target", {})}
    return load_settings(stack_values(*pools, platform=platform, target=target, **sections), stack=stack, region=region)


def ec2_settings(*pools: dict[str, Any], stack: str = "test", region: str = REGION, **sections: Any) -> Settings:
    """Return the settings of an EC2 cluster (without Kubernetes), by default with four workers."""
    target = {"kind": "ec2", **sections.pop("target", {})}
    workers = pools or (pool("workers", "g6.48xlarge", 4, desiredSize=4),)
    return load_settings({"target": target, "pools": list(workers), **sections}, stack=stack, region=region)


def existing_network(*subnets: str) -> dict[str, Any]:
    """Return the `network` section of a stack in an existing VPC."""
    return {"vpcId": VPC, "subnetIds": list(subnets) or [subnet_id("a"), subnet_id("b")]}


def subnet_id(letter: str) -> str:
    return f"{SUBNET}{'abcdef'.index(letter):02x}"


def subnet(letter: str, **more: Any) -> Subnet:
    default_subnet = Subnet(subnet_id(letter), VPC, f"{REGION}{letter}", "10.0.0.0/20", 4000, is_public=False)
    return replace(default_subnet, **more)


def subnets(*members: Subnet) -> dict[str, Subnet]:
    return {member.id: member for member in members}


def vpc(**more: Any) -> Vpc:
    return replace(Vpc(VPC, ("10.0.0.0/16",), dns_support=True, dns_hostnames=True), **more)


def account_facts(of: Settings, **more: Any) -> Facts:
    """Return the facts of an account that offers the settings' instance types in all zones and has ample quotas."""
    names = {of.target.head_type, *(worker_pool.instance_type for worker_pool in of.pools)}
    instance_types = {name: instance_type(name) for name in names if name in load_described_types()}
    fine = Facts(
        region=of.region,
        partition="aws",
        caller=Caller(ACCOUNT, f"arn:aws:iam::{ACCOUNT}:user/ada", f"arn:aws:iam::{ACCOUNT}:user/ada"),
        zones=tuple(Zone(name, f"usw2-az{number}") for number, name in enumerate(ZONES, 1)),
        instance_types=instance_types,
        type_names=frozenset(load_described_types()) if names - instance_types.keys() else frozenset(),
        offerings=dict.fromkeys(instance_types, frozenset(ZONES)),
        quotas=dict.fromkeys(_list_quota_codes(names), 10_000.0),
        kubernetes_versions=LIVE_KUBERNETES_VERSIONS,
        extended_support=frozenset({"1.33"}),
        today=TODAY,
        addon_versions=ADDON_VERSIONS,
    )
    if not of.is_eks:
        head = instance_types.get(of.ec2.head_node_type)
        fine = replace(fine, ami=Ami(of.ec2.ami_id or IMAGE, head.architecture if head else "x86_64", "/dev/sda1"))
    if of.network.is_existing:
        fine = replace(fine, vpc=vpc(), subnets=subnets(subnet("a"), subnet("b")))
    return replace(fine, **more)


def _list_quota_codes(names: Iterable[str]) -> set[str]:
    return {limit.code for name in names for spot in (False, True) if (limit := find_vcpu_quota(name, spot=spot))}
