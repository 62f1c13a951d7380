"""`plan` rejects bad stacks, writes nothing, and accepts valid stacks. `test_every_stack.py` tests the stack files."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from cli.stacks.plan import plan_command
from cli.stacks.plan.changes import Changes
from cli.stacks.plan.plan_report import Report
from infra.checks import table
from infra.config.stack_file import RawStack
from infra.cost.prices import read_snapshot
from infra.facts import price_list
from localcloud.aws import calls, prerequisites, quotas
from localcloud.aws.ec2 import capacity_reservations
from localcloud.aws.permissions import organization
from localcloud.engine.mocks import MotoMocks

REGION = "us-west-2"
RESERVATIONS = "reservations and Capacity Blocks"
VPC = {"vpcId": "vpc-0123456789abcdef0", "subnetIds": ["subnet-0123456789abcde00", "subnet-0123456789abcde01"]}
RESERVATION, BLOCK, EXPIRED, SCHEDULED = (f"cr-0123456789abcde{number:02}" for number in range(4))
GPUS = {"name": "train", "instanceType": "p5.48xlarge", "maxSize": 2}
BASE = {"target": {"kind": "eks"}, "platform": {"install": False}, "storage": {"efs": "none"}, "pools": [GPUS]}

Setup = Callable[[], object]


def make_pool_values(**changes: Any) -> dict[str, Any]:
    return {"pools": [{**GPUS, **changes}]}


def make_reserved_pool_values(reservation: str, kind: str = "targeted-odcr", **changes: Any) -> dict[str, Any]:
    return make_pool_values(capacity={"kind": kind, "reservationId": reservation}, **changes)


def make_quota_setup(code: str, value: float = 0) -> Setup:
    return lambda: quotas.set_values({code: value})


def make_deny_setup(action: str) -> Setup:
    return lambda: organization.deny_action(action)


def do_nothing() -> None:
    return


OF_FILE: dict[str, Mapping[str, Any]] = {
    "unknown setting": {"storrage": {}},
    "unknown setting of a pool": make_pool_values(gpu=8),
    "two pools with the same name": {"pools": [GPUS, GPUS]},
    "pool name with capitals": make_pool_values(name="Train"),
    "pool without maxSize": {"pools": [{"name": "train", "instanceType": "p5.48xlarge"}]},
    "minSize above maxSize": make_pool_values(minSize=3),
    "desiredSize above maxSize": make_pool_values(desiredSize=3),
    "zone outside network.zones": {**make_pool_values(zone=f"{REGION}c"), "network": {"zones": [f"{REGION}a", f"{REGION}b"]}},
    "VPC without subnets": {"network": {"vpcId": VPC["vpcId"]}},
    "unknown purchase option": make_pool_values(capacity={"kind": "cheap"}),
    "spot with a reservation": make_reserved_pool_values(RESERVATION, "spot"),
    "Kubernetes version too old": {"target": {"kind": "eks", "kubernetesVersion": "1.20"}},
    "CIDR too small": {"network": {"cidr": "10.0.0.0/28"}},
    "root volume too small": make_pool_values(rootVolumeGib=1),
    "malformed AMI": make_pool_values(amiId="ami-x"),
    "malformed administrator": {"target": {"kind": "eks", "admins": ["me"]}},
    "label of Kubernetes": make_pool_values(labels={"node.kubernetes.io/role": "x"}),
}
OF_AWS: dict[str, tuple[str, Mapping[str, Any], Setup]] = {
    "nonexistent instance type": ("instance types and zones", make_pool_values(instanceType="p5.49xlarge"), do_nothing),
    "nonexistent zone": ("instance types and zones", make_pool_values(zone=f"{REGION}z"), do_nothing),
    "zone without the type": (
        "instance types and zones",
        make_pool_values(instanceType="p5e.48xlarge", zone=f"{REGION}b"),
        do_nothing,
    ),
    "quota of P": ("vCPU quotas", make_pool_values(desiredSize=1), make_quota_setup("L-417A185B")),
    "quota of P5 spot": (
        "vCPU quotas",
        make_pool_values(desiredSize=1, capacity={"kind": "spot"}),
        make_quota_setup("L-C4BD4855"),
    ),
    "quota of standard types": ("vCPU quotas", {}, make_quota_setup("L-1216C47A")),
    "pools above the quota": ("node groups per cluster", {"pools": [{**GPUS, "name": f"p{n}"} for n in range(30)]}, do_nothing),
    "quota of VPCs": ("VPCs per Region", {}, make_quota_setup("L-F678F1CE")),
    "quota of internet gateways": ("Internet gateways per Region", {}, make_quota_setup("L-A4707A72")),
    "quota of addresses": ("EC2-VPC Elastic IPs", {}, make_quota_setup("L-0263D0A3")),
    "quota of NAT gateways": ("NAT gateways per Availability Zone", {}, make_quota_setup("L-FE5A380F")),
    "quota of interfaces": ("Network interfaces per Region", {}, make_quota_setup("L-DF5E4CA3")),
    "quota of volumes": ("Storage for General Purpose SSD (gp3) volumes", {}, make_quota_setup("L-7A658B76")),
    "quota of clusters": ("EKS clusters", {}, make_quota_setup("L-1194D53C")),
    "quota of nodes": ("Nodes per managed node group", {}, make_quota_setup("L-BD136A63", 1)),
    "quota of roles": ("IAM roles", {}, make_quota_setup("L-FE177D64", 1)),
    "missing reservation": (RESERVATIONS, make_reserved_pool_values("cr-0fffffffffffffff0"), do_nothing),
    "expired reservation": (RESERVATIONS, make_reserved_pool_values(EXPIRED), do_nothing),
    "reservation of another type": (
        RESERVATIONS,
        make_reserved_pool_values(RESERVATION, instanceType="g5.8xlarge"),
        do_nothing,
    ),
    "reservation in another zone": (RESERVATIONS, make_reserved_pool_values(RESERVATION, zone=f"{REGION}c"), do_nothing),
    "reservation too small": (RESERVATIONS, make_reserved_pool_values(RESERVATION, maxSize=3), do_nothing),
    "Capacity Block as an ODCR": (RESERVATIONS, make_reserved_pool_values(BLOCK), do_nothing),
    "nodes before the block starts": (
        RESERVATIONS,
        make_reserved_pool_values(SCHEDULED, "capacity-block", desiredSize=1),
        do_nothing,
    ),
    "reservation outside the VPC": (
        "instance types and zones",
        {**make_reserved_pool_values(RESERVATION), "network": {"zones": [f"{REGION}b", f"{REGION}c"]}},
        do_nothing,
    ),
    "missing VPC": ("existing VPC", {"network": {**VPC, "vpcId": "vpc-0fffffffffffffff0"}}, do_nothing),
    "missing subnet": (
        "existing VPC",
        {"network": {**VPC, "subnetIds": ["subnet-0fffffffffffffff1", VPC["subnetIds"][1]]}},
        do_nothing,
    ),
    "missing file system": (
        "existing file system",
        {"network": VPC, "storage": {"efs": {"fileSystemId": "fs-0fffffffffffffff0"}}},
        do_nothing,
    ),
    "missing bucket": (
        "bucket linked to FSx",
        {"storage": {"fsx": {"dataRepository": {"path": "s3://nowhere"}}}},
        do_nothing,
    ),
    "missing placement group": ("placement groups", make_pool_values(placementGroup="mine"), do_nothing),
    "missing AMI": ("AMIs", make_pool_values(amiId="ami-0fffffffffffffff0"), do_nothing),
    "missing administrator": (
        "cluster admins",
        {"target": {"kind": "eks", "admins": ["arn:aws:iam::123456789012:role/Nobody"]}},
        do_nothing,
    ),
    "no permission for clusters": ("permissions", {}, make_deny_setup("eks:CreateCluster")),
    "no permission to pass roles": ("permissions", {}, make_deny_setup("iam:PassRole")),
    "no permission to clean up": ("permissions", {}, make_deny_setup("ec2:DeleteVpc")),
    "budget per hour": ("budget", {"budget": {"maxHourly": 1}}, do_nothing),
    "budget per month": ("budget", {"budget": {"maxMonthly": 1}}, do_nothing),
}


@pytest.fixture(scope="module")
def account() -> Iterator[None]:
    """An account that all stacks share, because planning them does not change it."""
    with MotoMocks(REGION), pytest.MonkeyPatch.context() as patch:
        patch.setattr(price_list, "read", lambda request: read_snapshot(request.region))
        prerequisites.create_prerequisites(REGION, {"network": VPC, "storage": {"efs": "none"}})
        for name, kind, state in (
            (RESERVATION, "default", "active"),
            (BLOCK, "capacity-block", "active"),
            (EXPIRED, "default", "expired"),
            (SCHEDULED, "capacity-block", "scheduled"),
        ):
            seeded: Any = {"reservation_id": name, "kind": kind, "state": state, "match": "targeted"}
            capacity_reservations.seed_reservation("p5.48xlarge", f"{REGION}a", 2, **seeded)
        calls.clear_counts()
        yield


@pytest.fixture
def reset_limits() -> Iterator[None]:
    yield
    quotas._set.clear()
    organization._reset_denied_actions()


def run_plan(raw: RawStack, *, offline: bool = False) -> Report:
    return plan_command.build_report(raw, offline=offline, look_ahead=lambda: Changes({}, not_previewed="not needed"))


def list_refusals(raw: RawStack, *, offline: bool = False) -> dict[str, tuple[str, ...]]:
    return {refusal.check: refusal.sentences for refusal in run_plan(raw, offline=offline).refused_answers}


def test_there_are_forty_bad_plan_cases() -> None:
    assert len(OF_FILE) + len(OF_AWS) >= 40


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("name", OF_FILE)
def test_an_error_in_the_stack_file_is_reported_offline_and_before_any_write(name: str) -> None:
    assert list(list_refusals(RawStack("bad", REGION, {**BASE, **OF_FILE[name]}), offline=True)) == ["stack file"]
    assert calls.count_writes() == {}


@pytest.mark.usefixtures("account", "reset_limits")
@pytest.mark.parametrize("name", OF_AWS)
def test_a_request_that_aws_would_reject_is_refused_before_any_write(name: str) -> None:
    check, changes, setup = OF_AWS[name]
    setup()
    assert check in list_refusals(RawStack("bad", REGION, {**BASE, **changes}))
    assert calls.count_writes() == {}


@pytest.mark.usefixtures("account")
def test_the_stack_without_errors_is_not_refused() -> None:
    assert list_refusals(RawStack("good", REGION, BASE)) == {}


VARIATIONS: dict[str, Mapping[str, Any]] = {
    "larger": make_pool_values(maxSize=8, desiredSize=4),
    "another zone": make_pool_values(zone=f"{REGION}c"),
    "on-demand GPUs of another type": make_pool_values(instanceType="g6.48xlarge", desiredSize=2),
    "spot": make_pool_values(capacity={"kind": "spot"}, desiredSize=1),
    "without EFA": make_pool_values(efa=False),
    "reserved": make_reserved_pool_values(RESERVATION, desiredSize=2),
    "in a block": make_reserved_pool_values(BLOCK, "capacity-block", desiredSize=2),
    "in a block that has not started": make_reserved_pool_values(SCHEDULED, "capacity-block"),
    "private": {"network": {"natGateways": "none", "interfaceEndpoints": True}},
    "a NAT gateway per zone": {"network": {"natGateways": "perZone"}},
    "in an existing VPC": {"network": VPC},
    "with EFS and Lustre": {"storage": {"fsx": {"sizeGib": 2400}}},
    "with a large budget": {"budget": {"maxHourly": 1000}},
    "two pools": {"pools": [GPUS, {**GPUS, "name": "more", "instanceType": "c7i.2xlarge"}]},
    "EC2 cluster": {"target": {"kind": "ec2"}, "storage": {}},
}


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("name", VARIATIONS)
def test_a_valid_variation_of_the_stack_is_not_refused(name: str) -> None:
    values = {**BASE, **VARIATIONS[name]}
    if values["target"] == {"kind": "ec2"}:
        del values["platform"]
        prerequisites.create_prerequisites(REGION, values)
    assert list_refusals(RawStack("good", REGION, values)) == {}


OF_STACK = {"autoscaling:DescribeAutoScalingGroups", "logs:DescribeLogGroups"}
"""Calls that look up the stack's own workers, and the logs of its deleted cluster. No check depends only on these calls."""


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("name", ["in an existing VPC", "private", "reserved", "with EFS and Lustre"])
def test_the_documentation_lists_every_aws_operation_called_by_plan(name: str) -> None:
    calls.clear_counts()
    run_plan(RawStack("good", REGION, {**BASE, **VARIATIONS[name]}))
    called = {call.replace(".", ":").replace("service-quotas", "servicequotas") for call in calls.count_reads()}
    assert called - {operation for _, operations in table.list_rows() for operation in operations} <= OF_STACK
