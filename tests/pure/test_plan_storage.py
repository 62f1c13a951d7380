"""Decisions about shared file systems: location, key, and the security groups that admit nodes."""

from typing import Any

import pytest

from infra.facts.model import Existing, FileSystem, LustreFileSystem
from infra.plan.specs import ExistingSpec, NewLustreSpec
from infra.plan.storage import plan_storage
from tests.pure import world
from tests.pure.world import FILE_SYSTEM, VPC, ZONES, account_facts, existing_network, pool, settings, subnet_id

KEY = "arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
A, B, C, _ = ZONES


def plan_lustre(reported: dict[str, Any] | None = None, *pools: dict[str, Any], **fsx: Any) -> NewLustreSpec:
    network = {"network": existing_network()} if reported else {}
    stack = settings(*pools, storage={"efs": "none", "fsx": fsx}, **network)
    (spec,) = plan_storage(stack, account_facts(stack, **(reported or {})))
    assert isinstance(spec, NewLustreSpec)
    return spec


def test_file_system_is_in_the_zone_of_the_first_pool() -> None:
    assert plan_lustre(None, pool(zone=B)).zone == B
    assert plan_lustre(None, pool(zone=B), zone=C).zone == C
    assert plan_lustre().zone == A


@pytest.mark.parametrize(("subnet", "expected"), [(subnet_id("b"), subnet_id("b")), ("subnet-of-another-vpc", None)])
def test_file_system_keeps_its_zone_and_subnet(subnet: str, expected: str | None) -> None:
    lustre = LustreFileSystem(
        FILE_SYSTEM, "AVAILABLE", {B: VPC}, subnet_id=subnet, size_gib=1200, dns_name="fsx", mount_name="data"
    )
    spec = plan_lustre({"existing": Existing(lustre=lustre)}, pool(zone=A))
    assert (spec.zone, spec.subnet_id) == (B, expected)


@pytest.mark.parametrize(
    ("fsx", "creates_key", "key_arn", "throughput"),
    [
        ({}, True, None, 125),
        ({"kmsKeyArn": KEY, "throughputPerTib": 500}, False, KEY, 500),
        ({"deployment": "SCRATCH_2"}, False, None, None),
    ],
)
def test_deployment_type_determines_key_and_throughput(
    fsx: dict[str, Any], creates_key: bool, key_arn: str | None, throughput: int | None
) -> None:
    spec = plan_lustre(**fsx)
    assert (spec.creates_key, spec.key_arn, spec.throughput_per_tib) == (creates_key, key_arn, throughput)


@pytest.mark.parametrize(("directory", "owned"), [("/data", ("/", "/data")), ("/", ("/",))])
def test_root_and_linked_directory_are_owned_by_the_job_user(directory: str, owned: tuple[str, ...]) -> None:
    assert plan_lustre().owned == ("/",)
    assert plan_lustre(dataRepository={"path": "s3://sets", "directory": directory}).owned == owned


GROUPS = {
    A: {"sg-b": frozenset({"10.0.0.0/16"}), "sg-a": frozenset[str]()},
    B: {"sg-a": frozenset[str]()},
    C: {"sg-unused-zone": frozenset[str]()},
}


@pytest.mark.parametrize(("adds_rule", "groups"), [(True, ("sg-a",)), (False, ())])
@pytest.mark.parametrize("kind", ["efs", "fsx"])
def test_ingress_rules_open_one_security_group_per_mount_target(kind: str, adds_rule: bool, groups: tuple[str, ...]) -> None:
    existing = {"fileSystemId": FILE_SYSTEM, "addIngressRule": adds_rule}
    stack = world.settings(network=existing_network(), storage={"efs": "none", kind: existing})
    efs = FileSystem(FILE_SYSTEM, "available", dict.fromkeys(GROUPS, VPC), GROUPS)
    lustre = LustreFileSystem(
        FILE_SYSTEM, "AVAILABLE", {A: VPC}, GROUPS, subnet_id="", size_gib=1200, dns_name="fsx", mount_name="data"
    )
    (spec,) = plan_storage(stack, account_facts(stack, efs={FILE_SYSTEM: efs}, lustre={FILE_SYSTEM: lustre}))
    assert isinstance(spec, ExistingSpec) and spec.admitting_groups == groups and spec.owned == ()
