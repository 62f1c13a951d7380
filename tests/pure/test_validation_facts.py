"""Rules that depend on facts from AWS. Each case contains one mistake and the full message that reports it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from infra import validation
from infra.facts.model import Caller, Existing, ExistingPool, Facts, FileSystem
from infra.plan.aws_services import FOR_EKS
from infra.settings.stack import Settings
from tests.pure.mistakes import facts_cluster, facts_launch, facts_lustre, facts_network, facts_node_types, facts_pools
from tests.pure.mistakes.case import (
    BLOCK,
    ODCR,
    A,
    B,
    C,
    format_problem,
    make_existing_facts,
    make_live_cluster_facts,
    make_reservation_facts,
)
from tests.pure.world import (
    ACCOUNT,
    ADMIN,
    FILE_SYSTEM,
    IMAGE,
    VPC,
    ZONES,
    account_facts,
    ec2_settings,
    existing_network,
    pool,
    settings,
    subnet,
    subnet_id,
    subnets,
)

CASES = (
    facts_pools.CASES
    | facts_network.CASES
    | facts_lustre.CASES
    | facts_cluster.CASES
    | facts_launch.CASES
    | facts_node_types.CASES
)


@pytest.mark.parametrize("case", CASES)
def test_each_mistake_gets_one_error(case: str) -> None:
    sections, pools, changed, expected = CASES[case]
    stack = settings(*pools, **sections)
    assert [format_problem(problem) for problem in validation.run_rules(stack, account_facts(stack, **changed))] == expected


def make_closed_file_system(admitted: dict[str, str]) -> FileSystem:
    """Return a file system whose mount targets each admit at most one source."""
    groups = {zone: {f"sg-{zone}": frozenset({admitted[zone]} if zone in admitted else ())} for zone in (A, B, C)}
    return FileSystem(FILE_SYSTEM, "available", {A: VPC, B: VPC, C: VPC}, groups, frozenset({"sg-nodes"}))


NO_ROUTE = subnets(subnet("a", has_route_out=False), subnet("b", has_route_out=False))
FINE: dict[str, tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]] = {
    "minimal stack": ({}, [], {}),
    "one GPU pool": ({}, [pool()], {}),
    "platform behind a private endpoint in an existing network": (
        {"network": existing_network(), "platform": {"install": True}},
        [],
        {},
    ),
    "platform behind a private endpoint of a running cluster": (
        {"platform": {"install": True}},
        [],
        {"existing": Existing("1.35")},
    ),
    "removed public endpoint with an explicit platform.install": (
        {"platform": {"install": False}},
        [],
        {"existing": Existing("1.35", has_public_endpoint=True)},
    ),
    "GPU types with and without EFA": (
        {},
        [pool("a", "p5.48xlarge"), pool("b", "g5.xlarge"), pool("c", "p6-b300.48xlarge")],
        {},
    ),
    "EFA on request": ({}, [pool(efa=True)], {}),
    "no EFA on request": ({}, [pool(efa=False)], {}),
    "reservation": ({}, [pool(instance_type="p5.48xlarge", maxSize=4, desiredSize=4, capacity=ODCR)], make_reservation_facts()),
    "reservation in a placement group": (
        {},
        [pool(instance_type="p5.48xlarge", placementGroup="theirs", capacity=ODCR)],
        {"placement_groups": {"theirs": "cluster"}, **make_reservation_facts(placement_group="theirs")},
    ),
    "capacity block that has not started": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=BLOCK)],
        make_reservation_facts(kind="capacity-block", state="scheduled"),
    ),
    "reserved capacity with a quota of zero": (
        {},
        [pool(instance_type="p5.48xlarge", capacity=BLOCK)],
        {"quotas": {"L-417A185B": 0.0}, **make_reservation_facts(kind="capacity-block")},
    ),
    "reservation used by the pool itself": (
        {},
        [pool(instance_type="p5.48xlarge", maxSize=4, desiredSize=4, capacity=ODCR)],
        {**make_reservation_facts(available=0), **make_existing_facts("1.35", (A, B, C), train=ExistingPool(B, 0, 4, 4))},
    ),
    "quota just enough": ({}, [pool(instance_type="p5.48xlarge", maxSize=2)], {"quotas": {"L-417A185B": 384.0}}),
    "quota that AWS did not report": ({}, [pool(instance_type="p5.48xlarge", maxSize=2)], {"quotas": {}}),
    "private cluster with all required endpoints": (
        {"network": existing_network()},
        [],
        {"subnets": NO_ROUTE, "endpoints": frozenset({*FOR_EKS, "s3"})},
    ),
    "private cluster with unknown endpoints": ({"network": existing_network()}, [], {"subnets": NO_ROUTE}),
    "as many node groups as the quota allows": ({}, [pool(f"p{number}", maxSize=1) for number in range(29)], {}),
    "increased node group quota": (
        {},
        [pool(f"p{number}", maxSize=1) for number in range(30)],
        {"node_groups_allowed": 40.0},
    ),
    "an admin that exists": ({"target": {"admins": [ADMIN]}}, [], {"admins": {ADMIN: ADMIN}}),
    "existing placement group of a pool that grew": (
        {},
        [pool(instance_type="p5.48xlarge", maxSize=16)],
        make_existing_facts("1.35", (A, B), train=ExistingPool(A, 0, 0, 2, instance_type="p5.48xlarge", placement="group")),
    ),
    "versions that AWS did not report": ({}, [], {"kubernetes_versions": (), "addon_versions": {}}),
    "next minor": ({"target": {"kubernetesVersion": "1.35"}}, [], make_existing_facts("1.34")),
    "version 61 days before its standard support ends": ({}, [], {"today": date(2027, 1, 25)}),
    "caller with a role that could not be read from IAM, and an admin": (
        {"target": {"admins": [ADMIN]}},
        [],
        {"caller": Caller(ACCOUNT, f"arn:aws:sts::{ACCOUNT}:assumed-role/Ops/ada", None)},
    ),
    "existing VPC and file system": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM}}},
        [pool()],
        {"efs": {FILE_SYSTEM: FileSystem(FILE_SYSTEM, "available", {A: VPC, B: VPC, C: VPC})}},
    ),
    "file system that admits the VPC in one zone, this stack's nodes in another, and a prefix list in the third": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM}}},
        [pool()],
        {"efs": {FILE_SYSTEM: make_closed_file_system({A: "10.0.0.0/16", B: "sg-nodes", C: "pl-1"})}},
    ),
    "file system that admits nobody, and a stack that adds the rule": (
        {"network": existing_network(), "storage": {"efs": {"fileSystemId": FILE_SYSTEM, "addIngressRule": True}}},
        [pool()],
        {"efs": {FILE_SYSTEM: make_closed_file_system({})}},
    ),
    "subnet whose addresses the pool already uses": (
        {"network": existing_network()},
        [pool(maxSize=20)],
        {
            "subnets": subnets(subnet("a", free_addresses=50), subnet("b")),
            **make_existing_facts("1.35", (), train=ExistingPool(A, 0, 20, 20)),
        },
    ),
    "pool in the only zone that offers its type": (
        {},
        [pool(zone=A)],
        {"offerings": {"g5.8xlarge": frozenset({A}), "m7i.large": frozenset(ZONES)}},
    ),
    "existing pool whose zone no longer offers its type": (
        {},
        [pool()],
        {
            "offerings": {"g5.8xlarge": frozenset({B}), "m7i.large": frozenset(ZONES)},
            **make_existing_facts("1.35", (A, B), train=ExistingPool(A, 0, 0, 2, instance_type="g5.8xlarge")),
        },
    ),
    "running cluster with an additional network zone": ({"network": {"zones": [A, B, C]}}, [], make_live_cluster_facts()),
    "custom AMI and placement group": (
        {},
        [pool(amiId=IMAGE, placementGroup="mine")],
        {"images": {IMAGE: "x86_64"}, "placement_groups": {"mine": "cluster"}},
    ),
}


@pytest.mark.parametrize("case", FINE)
def test_valid_combinations_have_no_problems(case: str) -> None:
    sections, pools, changed = FINE[case]
    stack = settings(*pools, **sections)
    assert validation.run_rules(stack, account_facts(stack, **changed)) == []


def test_all_problems_are_reported_at_once_without_duplicates() -> None:
    stack = settings(
        pool("A", instance_type="g5.xlarg", minSize=3),
        pool("b", instance_type="p5.48xlarge", maxSize=50, efa=True),
        pool("b", instance_type="g6f.large"),
        network={"cidr": "10.0.0.0/20", "natGateways": "none"},
        target={"kubernetesVersion": "1.36"},
    )
    problems = validation.run_rules(
        stack, account_facts(stack, quotas={"L-417A185B": 0.0}, addon_versions={}, **make_existing_facts("1.34"))
    )
    assert sorted(problem.path for problem in problems) == [
        "network.cidr",
        "network.natGateways",
        "pools[0].instanceType",
        "pools[0].minSize",
        "pools[0].name",
        "pools[1].maxSize",
        "pools[2].instanceType",
        "pools[2].name",
        "target.kubernetesVersion",
    ]


def test_malformed_value_gets_no_second_problem_from_aws_checks() -> None:
    stack = settings(network={"vpcId": "main", "subnetIds": [subnet_id("a"), subnet_id("b")]})
    problems = validation.run_rules(stack, account_facts(stack, vpc=None, not_found=frozenset({"main"})))
    assert [problem.path for problem in problems if problem.path == "network.vpcId"] == ["network.vpcId"]


def make_facts_without_zones(stack: Settings) -> Facts:
    return account_facts(stack, zones=(), offerings={}, instance_types={})


@pytest.mark.parametrize("world", [account_facts, make_facts_without_zones])
def test_rules_tolerate_placeholder_settings(world: Callable[[Settings], Facts]) -> None:
    """Settings from a malformed file contain placeholders such as empty names and invalid CIDRs."""
    stack = settings(pool("", "", 0), network={"cidr": "nonsense"})
    assert validation.run_rules(stack, world(stack))


@pytest.mark.parametrize("name", facts_node_types.ULTRASERVERS)
def test_ultraserver_pool_is_refused(name: str) -> None:
    kind = facts_node_types.ULTRASERVERS[name]
    for stack in (settings(pool(instance_type=kind.name, efa=False)), ec2_settings(pool(instance_type=kind.name, efa=False))):
        account = account_facts(stack, type_names=frozenset({kind.name}), offerings={kind.name: frozenset(ZONES)})
        offering = replace(account, instance_types={**account.instance_types, kind.name: kind})
        message = f"pools[0].instanceType: {facts_node_types.format_ultraserver_message(kind.name)}"
        assert message in [str(problem) for problem in validation.run_rules(stack, offering) if problem.is_error]


@pytest.mark.parametrize("name", ["t3.medium", "t3a.medium", "c5.large", "m5.large", "m7i.large", "r8a.large"])
def test_the_smallest_system_nodes_with_room_for_a_launcher_are_accepted(name: str) -> None:
    sections: dict[str, Any] = facts_node_types.make_small_system_case(name, "", "")[0]
    stack = settings(pool(instance_type="t3.small"), **sections)
    assert [str(problem) for problem in validation.run_rules(stack, account_facts(stack)) if problem.is_error] == []


def test_without_the_platform_nodes_need_no_room_for_launchers_and_workers() -> None:
    stack = settings(pool(instance_type="t3.micro"), target={"system": {"instanceType": "t3.small"}})
    assert [str(problem) for problem in validation.run_rules(stack, account_facts(stack)) if problem.is_error] == []


def test_an_arm64_pool_and_arm64_system_nodes_are_reported_together() -> None:
    stack = settings(pool(instance_type="g5g.xlarge"), target={"system": {"instanceType": "t4g.large"}})
    paths = [problem.path for problem in validation.run_rules(stack, account_facts(stack)) if "arm64" in problem.message]
    assert paths == ["target.system.instanceType", "pools[0].instanceType"]
