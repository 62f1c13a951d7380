"""An account in which a stack of this repository is fine: what its file names by id exists there."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import yaml

from infra import stack_file
from infra.facts import Facts
from infra.policies import assumed_by_service, to_json
from infra.preflight import settings_and_facts
from infra.settings import Settings
from localcloud.aws.ec2 import capacity_reservations, instance_types
from localcloud.aws.images import IMAGES
from localcloud.engine.mocks import MotoMocks

ROOT = Path(__file__).parent.parent.parent
STACKS = sorted([*(ROOT / "stacks").glob("Pulumi.*.yaml"), *(ROOT / "tests" / "configs").glob("Pulumi.*.yaml")])


@contextmanager
def account_for(path: Path) -> Iterator[tuple[Settings, Facts, MotoMocks]]:
    """The local AWS in this process with what the stack needs, the stack as the program will see it, and mocks that make its
    resources there."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))["config"]
    region = content["aws:region"]
    with MotoMocks(region) as mocks:
        substitutes = _make_what_is_named(content, region)
        raw = stack_file.read(path)
        values = _substituted(raw.values, substitutes)
        settings, facts = settings_and_facts(replace(raw, values=values))
        yield settings, facts, mocks


def _make_what_is_named(content: Mapping[str, Any], region: str) -> dict[str, str]:
    """Reservations get the ids of the file; for ids that AWS chooses, file -> account."""
    ec2 = boto3.client("ec2", region)
    substitutes: dict[str, str] = {}
    for arn in content.get("gpumpi:target", {}).get("admins", []):
        _make_principal(arn)
    for pool in content.get("gpumpi:pools", []):
        _reserve(pool, region)
        if pool.get("placementGroup", "auto") not in ("auto", "none"):
            ec2.create_placement_group(GroupName=pool["placementGroup"], Strategy="cluster")
        if "amiId" in pool:
            substitutes[pool["amiId"]] = IMAGES[0].id(region)
    network = content.get("gpumpi:network", {})
    subnets: dict[str, str] = {}
    if "vpcId" in network:
        vpc, subnets = _make_network(region, network["subnetIds"])
        substitutes |= {network["vpcId"]: vpc, **subnets}
    efs = content.get("gpumpi:storage", {}).get("efs", {})
    if efs != "none" and "fileSystemId" in efs:
        substitutes[efs["fileSystemId"]] = _make_file_system(region, list(subnets.values()))
    return substitutes


def _make_principal(arn: str) -> None:
    iam = boto3.client("iam")
    kind, *path, name = arn.split(":", 5)[5].split("/")
    where = f"/{'/'.join(path)}/" if path else "/"
    if kind == "role":
        iam.create_role(RoleName=name, Path=where, AssumeRolePolicyDocument=to_json(assumed_by_service("ec2.amazonaws.com")))
    else:
        iam.create_user(UserName=name, Path=where)


def _reserve(pool: Mapping[str, Any], region: str) -> None:
    capacity = pool.get("capacity", {})
    if "reservationId" not in capacity:
        return
    block = capacity["kind"] == "capacity-block"
    capacity_reservations.seed(
        pool["instanceType"],
        pool.get("zone") or min(instance_types.offered_zones(region)[pool["instanceType"]]),
        pool["maxSize"],
        reservation_id=capacity["reservationId"],
        kind="capacity-block" if block else "default",
        match="targeted",
    )


def _make_network(region: str, names: list[str]) -> tuple[str, dict[str, str]]:
    """A VPC with a private subnet per name, each in a zone of its own."""
    ec2 = boto3.client("ec2", region)
    vpc = ec2.create_vpc(CidrBlock="10.50.0.0/16")["Vpc"]["VpcId"]
    for setting in ("EnableDnsSupport", "EnableDnsHostnames"):
        ec2.modify_vpc_attribute(VpcId=vpc, **{setting: {"Value": True}})
    subnets = {}
    for index, name in enumerate(names):
        zone = f"{region}{'abcd'[index]}"
        made = ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.50.{16 * index}.0/20", AvailabilityZone=zone)
        subnets[name] = made["Subnet"]["SubnetId"]
    return vpc, subnets


def _make_file_system(region: str, subnets: list[str]) -> str:
    efs = boto3.client("efs", region)
    made: str = efs.create_file_system(CreationToken="existing", Encrypted=True)["FileSystemId"]
    for subnet in subnets:
        efs.create_mount_target(FileSystemId=made, SubnetId=subnet)
    return made


def _substituted(value: Any, substitutes: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _substituted(inner, substitutes) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_substituted(inner, substitutes) for inner in value]
    return substitutes.get(value, value) if isinstance(value, str) else value
