"""Generate stacks and accounts to test whether `up` succeeds or fails as `plan` predicts.

`plan` queries the local AWS in this process, and `up` runs the Pulumi program with mocks. The mocks create each
resource in the same account with the local provider's handlers, so the local AWS rejects what AWS would reject. With
mocks, a stack takes one or two seconds; with a Pulumi engine, it takes 40 seconds.
"""

import asyncio
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from unittest.mock import patch

import pulumi
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pulumi.runtime.config import set_all_config
from pulumi.runtime.mocks import set_mocks
from pulumi.runtime.mocks import test as under_mocks

from cli.stacks.plan.changes import Changes
from cli.stacks.plan.plan_command import build_report
from infra import program
from infra.checks.model import Answer
from infra.config.stack_file import RawStack
from infra.facts.clients import Clients
from localcloud.aws import prerequisites, quotas, scarcity
from localcloud.aws.account import ACCOUNT
from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import capacity_reservations, instance_types
from localcloud.aws.permissions import organization
from localcloud.engine.mocks import MotoMocks

REGION: Final = "us-west-2"
STACK: Final = "drawn"
VPC: Final = {"vpcId": "vpc-0123456789abcdef0", "subnetIds": ["subnet-0123456789abcde00", "subnet-0123456789abcde01"]}
TYPES: Final = ("g5.xlarge", "g5.8xlarge", "g6.48xlarge", "p4d.24xlarge", "p5.48xlarge", "p5en.48xlarge", "c7i.2xlarge")
ZONES: Final = tuple(f"{REGION}{letter}" for letter in "abcd")
QUOTAS: Final = {
    "L-417A185B": (0, 96, 192, 384),  # vCPUs of On-Demand P instances
    "L-DB2E81BA": (0, 4, 32, 192),  # vCPUs of On-Demand G instances
    "L-1216C47A": (0, 2, 4, 5, 100),  # vCPUs of On-Demand standard instances
    "L-3819A6DF": (0, 32, 192),  # vCPUs of Spot G instances
    "L-7212CCBC": (0, 96),  # vCPUs of Spot P4 instances
    "L-C4BD4855": (0, 192),  # vCPUs of Spot P5 instances
    "L-F678F1CE": (0, 1, 2),  # VPCs
    "L-A4707A72": (0, 1, 2),  # internet gateways
    "L-0263D0A3": (0, 1, 2),  # Elastic IP addresses
    "L-DF5E4CA3": (2, 8, 40),  # network interfaces
    "L-FE5A380F": (0, 1),  # NAT gateways per zone
    "L-7A658B76": (0, 1),  # TiB of gp3 volumes
    "L-1194D53C": (0, 1),  # EKS clusters
    "L-BD136A63": (1, 2, 3),  # nodes per node group
    "L-FE177D64": (0, 5, 60),  # IAM roles
}
"""Maps a quota code to values just below and just above the usage of the generated stacks."""
ACTIONS: Final = (
    *("ec2:CreateVpc", "ec2:CreateSubnet", "ec2:CreateNatGateway", "ec2:CreateVpcEndpoint", "ec2:CreateSecurityGroup"),
    *("ec2:CreateLaunchTemplate", "ec2:CreatePlacementGroup", "ec2:RunInstances", "ec2:CreateFlowLogs", "ec2:AllocateAddress"),
    *("eks:CreateCluster", "eks:CreateNodegroup", "eks:CreateAddon", "eks:CreateAccessEntry"),
    *("iam:CreateRole", "iam:PassRole", "iam:PutRolePolicy", "iam:AttachRolePolicy", "iam:CreateInstanceProfile"),
    *("kms:CreateKey", "logs:CreateLogGroup", "s3:CreateBucket", "autoscaling:CreateAutoScalingGroup"),
    *("elasticfilesystem:CreateFileSystem", "elasticfilesystem:CreateMountTarget", "elasticfilesystem:CreateAccessPoint"),
    *("iam:CreateServiceLinkedRole", "fsx:CreateFileSystem"),
)


@dataclass(frozen=True)
class Reservation:
    """A capacity reservation in the account."""

    id: str
    kind: Literal["default", "capacity-block"]
    instance_type: str
    zone: str
    count: int
    state: str


@dataclass(frozen=True)
class World:
    """A stack file, and the AWS account in which `plan` and `up` run."""

    values: Mapping[str, Any]
    reservations: Sequence[Reservation] = ()
    quotas: Mapping[str, int] = field(default_factory=dict)
    denied: str = ""
    scarce: tuple[tuple[str, str], ...] = ()
    new_account: bool = False

    def set_up_account(self) -> None:
        """Create the existing resources to which the stack refers, and set the account's limits."""
        prerequisites.create_prerequisites(REGION, {**self.values, "pools": []})
        for reservation in self.reservations:
            capacity_reservations.seed_reservation(
                reservation.instance_type,
                reservation.zone,
                reservation.count,
                reservation_id=reservation.id,
                kind=reservation.kind,
                match="targeted",
                state=reservation.state,
            )
        quotas.set_values({code: float(value) for code, value in self.quotas.items()})
        for name, zone in self.scarce:
            scarcity.add_scarcity(name, zone)
        if self.denied:
            organization.deny_action(self.denied)


# --- drawing ------------------------------------------------------------------------------------------------------------


def draw_worlds(count: int, number: int) -> list[World]:
    """Return `count` distinct worlds. `number` is the random seed: the same seed always gives the same worlds."""
    distinct: dict[str, World] = {}

    @seed(number)
    @settings(
        max_examples=3 * count, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(worlds())
    def collect_world(world: World) -> None:
        distinct.setdefault(repr(world), world)

    collect_world()
    return list(distinct.values())[:count]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw a stack and an account. At most two conditions of the account are unusual (quotas, a denied action, scarce
    capacity, a new account), so most failures have a single reason."""
    kind = draw(st.sampled_from(["eks", "eks", "eks", "ec2"]))
    reservations: list[Reservation] = []
    count = 1 if kind == "ec2" else draw(st.integers(1, 2))
    pools = [draw(_draw_pool(name, kind, reservations)) for name in ("one", "two")[:count]]
    unusual = draw(st.sets(st.sampled_from(["quota", "denied", "scarce", "new", ""]), min_size=1, max_size=2))
    chosen = draw(st.dictionaries(st.sampled_from(sorted(QUOTAS)), st.integers(0, 4), min_size=1, max_size=2))
    return World(
        values={
            "target": {"kind": kind},
            "network": draw(st.sampled_from([{}, {}, {"natGateways": "perZone"}, {"zones": list(ZONES[:2])}, VPC])),
            "storage": draw(st.sampled_from([{}, {"efs": "none"}, {"efs": {"backup": False}}])) if kind == "eks" else {},
            **({"platform": {"install": False}} if kind == "eks" else {}),
            "pools": pools,
        },
        reservations=tuple(reservations),
        quotas={code: QUOTAS[code][place % len(QUOTAS[code])] for code, place in chosen.items()} if "quota" in unusual else {},
        denied=draw(st.sampled_from(ACTIONS)) if "denied" in unusual else "",
        scarce=_list_scarce_capacity(pools) if "scarce" in unusual else (),
        new_account="new" in unusual,
    )


@st.composite
def _draw_pool(draw: st.DrawFn, name: str, kind: str, reservations: list[Reservation]) -> dict[str, Any]:
    instance_type = draw(st.sampled_from([candidate for candidate in TYPES if kind == "eks" or candidate != "c7i.2xlarge"]))
    maximum = draw(st.integers(1, 4))
    pool: dict[str, Any] = {
        "name": name,
        "instanceType": instance_type,
        "maxSize": maximum,
        "desiredSize": draw(st.integers(0, maximum)),
    }
    if draw(st.booleans()):
        pool["zone"] = draw(st.sampled_from(ZONES))
    market = draw(st.sampled_from(["on-demand", "on-demand", "spot", "targeted-odcr", "capacity-block"]))
    if market == "spot":
        pool["capacity"] = {"kind": market}
    if market in ("targeted-odcr", "capacity-block"):
        reservation = draw(_draw_reservation(pool, market, len(reservations)))
        reservations.append(reservation)
        pool["capacity"] = {"kind": market, "reservationId": reservation.id}
    return pool


@st.composite
def _draw_reservation(draw: st.DrawFn, pool: Mapping[str, Any], market: str, number: int) -> Reservation:
    """Draw a reservation that usually fits the pool."""
    is_block = market == "capacity-block"
    name = pool["instanceType"] if draw(st.integers(0, 5)) else "p5.48xlarge"
    zones = instance_types.find_offered_zones(REGION)[name]
    pool_zone = pool.get("zone")
    zone = pool_zone if pool_zone in zones and draw(st.integers(0, 3)) else draw(st.sampled_from(zones))
    size = draw(st.sampled_from([pool["maxSize"], pool["maxSize"], 1]))
    state = draw(st.sampled_from(["active", "active", "active", "scheduled", "expired", "cancelled"]))
    kind: Literal["default", "capacity-block"] = "capacity-block" if is_block else "default"
    return Reservation(f"cr-0123456789abcde{number:02}", kind, name, zone, size, state)


def _list_scarce_capacity(pools: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    name = str(pools[0]["instanceType"])
    return tuple((name, zone) for zone in instance_types.find_offered_zones(REGION).get(name, ()))


# --- plan and up --------------------------------------------------------------------------------------------------------

RESERVATIONS: Final = "reservations and Capacity Blocks"
TYPES_AND_ZONES: Final = "instance types and zones"
NEED_NODES: Final = (RESERVATIONS, TYPES_AND_ZONES)
"""Checks of `plan` whose problems AWS reports only when a pool has nodes."""
REASONS: Final[Mapping[str, str]] = {
    "stack file": r"",
    "vCPU quotas": r"VcpuLimitExceeded|MaxSpotInstanceCountExceeded",
    "node groups per cluster": r"ResourceLimitExceeded",
    RESERVATIONS: (
        r"Reservation|Capacity Block|capacity-block|not available in the requested|InsufficientInstanceCapacity|Unsupported"
    ),
    TYPES_AND_ZONES: r"Unsupported|not supported|InvalidParameter|not offered|cannot be launched as",
    "existing VPC": r"Subnet|Vpc",
    "free addresses in subnets": r"InsufficientFreeAddresses",
    "VPCs per Region": r"VpcLimitExceeded",
    "Internet gateways per Region": r"InternetGatewayLimitExceeded",
    "EC2-VPC Elastic IPs": r"AddressLimitExceeded",
    "NAT gateways per Availability Zone": r"NatGatewayLimitExceeded",
    "Storage for General Purpose SSD (gp3) volumes": r"VolumeLimitExceeded",
    "Network interfaces per Region": r"NetworkInterfaceLimitExceeded|number of network interfaces",
    "EKS clusters": r"ResourceLimitExceeded",
    "Nodes per managed node group": r"ResourceLimitExceeded|InvalidParameter",
    "IAM roles": r"LimitExceeded",
    "service-linked roles": r"ServiceLinkedRole|AccessDenied|not authorized|UnauthorizedOperation",
    "permissions": r"AccessDenied|UnauthorizedOperation|not authorized|AuthorizationError",
}
"""Maps each check of `plan` to the pattern of the error that `up` reports for the same reason. For a check that is not
listed, the error must contain the check's own sentence."""
NO_CAPACITY: Final = r"InsufficientInstanceCapacity|UnfulfillableCapacity|no Spot capacity|sufficient \S+ capacity"
"""Pattern of capacity errors. AWS does not report available capacity in advance, so `plan` cannot predict these errors.
"""


@dataclass(frozen=True)
class Outcome:
    """Results of `plan` and `up` for one world."""

    world: World
    answers: tuple[Answer, ...]
    failure: str
    """Error with which `up` failed; empty if `up` created everything."""

    @property
    def refused_answers(self) -> tuple[Answer, ...]:
        return tuple(answer for answer in self.answers if answer.verdict == "no")

    @property
    def summary(self) -> str:
        said = f"refused by {', '.join(answer.check for answer in self.refused_answers)}" if self.refused_answers else "passes"
        return f"{said}; {self.disagreement or 'up agrees'}"

    @property
    def disagreement(self) -> str:
        """Describe how `plan` and `up` disagree; return an empty string if they agree."""
        if not self.refused_answers:
            excused = self._is_unknown() or (self.world.scarce and re.search(NO_CAPACITY, self.failure))
            return "" if not self.failure or excused else f"plan passes, up fails: {self.failure}"
        names = ", ".join(answer.check for answer in self.refused_answers)
        if not self.failure:
            return f"plan rejects it ({names}: {self.refused_answers[0].sentences[0]}), but up creates everything"
        if any(self._is_failure_reason(answer) for answer in self.refused_answers):
            return ""
        return f"plan rejects it ({names}), but up fails for another reason: {self.failure}"

    def _is_unknown(self) -> bool:
        """Return whether AWS denied an action that `plan` had reported as unknown."""
        unknown = " ".join(sentence for answer in self.answers if answer.verdict == "unknown" for sentence in answer.sentences)
        return bool(self.world.denied and self.world.denied in unknown and self.world.denied in self.failure)

    def _is_failure_reason(self, answer: Answer) -> bool:
        stopped = any(sentence in self.failure for sentence in answer.sentences)
        pattern = REASONS.get(answer.check, "")
        return stopped or bool(pattern and re.search(pattern, self.failure, re.IGNORECASE))

    def as_json(self) -> dict[str, object]:
        return {
            "stack": self.world.values,
            "account": {
                "reservations": [vars(reservation) for reservation in self.world.reservations],
                "quotas": dict(self.world.quotas),
                "denied": self.world.denied,
                "scarce": [list(place) for place in self.world.scarce],
                "new": self.world.new_account,
            },
            "plan": {answer.check: list(answer.sentences) for answer in self.refused_answers},
            "up": self.failure,
            "disagreement": self.disagreement,
        }


def compare_plan_and_up(world: World) -> Outcome:
    """Plan a stack, then create it in the same account, even if `plan` rejects it."""
    quotas.select_account_kind("new" if world.new_account else "established")
    try:
        with MotoMocks(REGION) as mocks:
            world.set_up_account()
            answers = tuple(_run_plan(world))
            failure = _bring_up(world, mocks)
            if not failure and any(answer.check in NEED_NODES for answer in answers if answer.verdict == "no"):
                failure = _scale_reserved_pools(world)
            return Outcome(world, answers, failure)
    finally:
        quotas.select_account_kind("established")


def _run_plan(world: World) -> Sequence[Answer]:
    raw = RawStack(STACK, REGION, world.values)
    return build_report(raw, offline=False, look_ahead=lambda: Changes({}, not_previewed="compared with up")).answers


def _bring_up(world: World, mocks: MotoMocks) -> str:
    """Run `up` without its checks; return the error if it fails, or an empty string."""
    texts = {f"gpumpi:{name}": json.dumps(value) for name, value in world.values.items()}
    set_all_config({"aws:region": REGION, **texts})
    quiet = patch.multiple(pulumi.log, warn=lambda *_, **__: None, error=lambda *_, **__: None)
    try:
        with patch.dict(os.environ, {program.SKIP_CHECKS: "1"}), quiet, _use_own_event_loop():
            set_mocks(mocks, project="gpumpi", stack=STACK)  # Pulumi binds its futures to the current event loop
            under_mocks(program.run_program)()  # type: ignore[no-untyped-call]
    except (Exception, SystemExit) as error:
        return " ".join(str(error).split()) or type(error).__name__
    finally:
        set_all_config({})
    return _describe_missing_nodes()


@contextmanager
def _use_own_event_loop() -> Iterator[None]:
    """Give a run its own event loop, so that no task of a failed run continues during the next run."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_exception_handler(lambda *_: None)
    try:
        yield
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        asyncio.set_event_loop(asyncio.new_event_loop())


def _scale_reserved_pools(world: World) -> str:
    """Scale the pools with reservations to their maximum size, because empty pools do not use their reservation yet.
    Return the error if this fails."""
    client = Clients(REGION).autoscaling
    reserved = [pool["name"] for pool in world.values["pools"] if "reservationId" in pool.get("capacity", {})]
    pools = ["-workers-"] if world.values["target"]["kind"] == "ec2" else [f"-{name}-" for name in reserved]
    for group in client.describe_auto_scaling_groups()["AutoScalingGroups"]:
        name = group["AutoScalingGroupName"]
        if any(pool in f"{name}-" for pool in pools):
            client.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=group["MaxSize"])
    return _describe_missing_nodes()


def _describe_missing_nodes() -> str:
    """Return why a group has fewer instances than desired; empty if none has. A Pulumi engine would wait for the
    instances."""
    autoscaling = backend_of("autoscaling", ACCOUNT, REGION)
    lacking = [
        group for group in autoscaling.autoscaling_groups.values() if len(group.instance_states) < (group.desired_capacity or 0)
    ]
    if not lacking:
        return ""
    activities = Clients(REGION).autoscaling.describe_scaling_activities(AutoScalingGroupName=lacking[0].name)["Activities"]
    messages = [
        f"{entry['StatusCode']}: {entry.get('StatusMessage', '')}" for entry in activities if entry["StatusCode"] == "Failed"
    ]
    return " ".join(messages[:1]) or f"{lacking[0].name} has too few instances"
