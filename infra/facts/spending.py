"""Running times of a stack's instances: from EC2 or, if EC2 no longer lists the instance, from scaling activities."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from infra.facts.clients import Clients, filter_by, read_pages
from infra.facts.ec2 import instances
from infra.naming import COST_TAG, POOL_TAG, ROLE_TAG, STACK_TAG, SYSTEM_POOL, Naming

Market = Literal["on-demand", "spot", "capacity-block"]

EKS_CLUSTER_TAG: Final = "eks:cluster-name"
EKS_GROUP_TAG: Final = "eks:nodegroup-name"
_LAUNCHED: Final = re.compile(r"Launching a new EC2 instance: (i-[0-9a-f]+)")
_TERMINATED: Final = re.compile(r"Terminating EC2 instance: (i-[0-9a-f]+)")
_ENDED: Final = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")
"""Finds the time in `StateTransitionReason`, such as `User initiated (2026-11-23 13:00:00 GMT)`."""


@dataclass(frozen=True)
class Run:
    """Run of one instance, from its launch to its end."""

    instance: str
    pool: str
    instance_type: str
    zone: str
    market: Market
    cost_center: str
    started: datetime
    ended: datetime | None = None
    """None while the instance runs."""

    def seconds(self, since: datetime, now: datetime) -> float:
        """Return the seconds between `since` and `now` in which the instance ran."""
        return max(0.0, (min(self.ended or now, now) - max(self.started, since)).total_seconds())


def runs(clients: Clients, stack: str) -> list[Run]:
    """Return the instances of a stack, oldest first. EC2 lists terminated instances for an hour; Auto Scaling keeps
    scaling activities for six weeks."""
    activities, own = list(_activities(clients, stack)), filter_by(f"tag:{STACK_TAG}", [stack])
    ends = {match[1]: activity for activity, _ in activities if (match := _TERMINATED.match(activity["Description"]))}
    by_id = {run.instance: run for instance in instances(clients, own) if (run := _of_instance(instance, ends))}
    pools = _pools(by_id.values(), activities)
    for activity, group in activities:
        launched = _LAUNCHED.match(activity["Description"])
        if launched and activity["StatusCode"] == "Successful" and launched[1] not in by_id:
            by_id[launched[1]] = _of_activity(launched[1], activity, pools[group["AutoScalingGroupName"]], ends.get(launched[1]))
    return sorted(by_id.values(), key=lambda run: (run.started, run.instance))


def _of_instance(instance: Mapping[str, Any], ends: Mapping[str, Mapping[str, Any]]) -> Run | None:
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
    ended: datetime | None = None
    if instance["State"]["Name"] in ("shutting-down", "terminated", "stopping", "stopped"):
        reason = _ENDED.search(instance.get("StateTransitionReason", ""))
        ended = datetime.fromisoformat(f"{reason[1]}+00:00") if reason else _ended(ends.get(instance["InstanceId"]))
        ended = ended or instance["LaunchTime"]  # the time is unknown: count nothing rather than too much
    return Run(
        instance["InstanceId"],
        tags.get(POOL_TAG) or ("head node" if ROLE_TAG in tags else SYSTEM_POOL),
        instance["InstanceType"],
        instance["Placement"]["AvailabilityZone"],
        _market(instance.get("InstanceLifecycle")),
        tags.get(COST_TAG, ""),
        instance["LaunchTime"].astimezone(UTC),
        ended.astimezone(UTC) if ended else None,
    )


def _activities(clients: Clients, stack: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield each scaling activity of the stack's Auto Scaling groups, with its group. EKS tags the groups that it
    creates with the cluster's name."""
    groups: dict[str, Mapping[str, Any]] = {}
    for tag, value in ((STACK_TAG, stack), (EKS_CLUSTER_TAG, Naming(stack).cluster)):
        own = [filter_by(f"tag:{tag}", [value])]
        pages = read_pages(clients.autoscaling, "describe_auto_scaling_groups", "AutoScalingGroups", Filters=own)
        groups |= {group["AutoScalingGroupName"]: group for group in pages}
    for name, group in groups.items():
        for activity in read_pages(clients.autoscaling, "describe_scaling_activities", "Activities", AutoScalingGroupName=name):
            yield activity, group


@dataclass(frozen=True)
class _Pool:
    name: str
    instance_type: str
    """Empty if the group currently has no instances."""
    market: Market
    cost_center: str


def _pools(runs: Iterable[Run], activities: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> dict[str, _Pool]:
    """Return the pool of each Auto Scaling group, read from the tags of the group or of its instances."""
    by_instance = {run.instance: run for run in runs}
    pools: dict[str, _Pool] = {}
    for _, group in activities:
        tags = {tag["Key"]: tag["Value"] for tag in group.get("Tags", ())}
        member = next((run for entry in group.get("Instances", ()) if (run := by_instance.get(entry["InstanceId"]))), None)
        cluster, named = tags.get(EKS_CLUSTER_TAG, ""), tags.get(EKS_GROUP_TAG, "")
        of_group = named.removeprefix(f"{cluster}-").rpartition("-")[0] or named
        pools[group["AutoScalingGroupName"]] = _Pool(
            member.pool if member else tags.get(POOL_TAG) or of_group or SYSTEM_POOL,
            member.instance_type if member else "",
            member.market if member else "on-demand",
            member.cost_center if member else tags.get(COST_TAG, ""),
        )
    return pools


def _of_activity(instance: str, activity: Mapping[str, Any], pool: _Pool, end: Mapping[str, Any] | None) -> Run:
    """Return the run of an instance that EC2 no longer lists."""
    zone = re.search(r'"Availability Zone": ?"([^"]+)"', activity.get("Details", ""))
    started = activity["StartTime"].astimezone(UTC)
    ended = _ended(end) or started
    return Run(instance, pool.name, pool.instance_type, zone[1] if zone else "", pool.market, pool.cost_center, started, ended)


def _ended(activity: Mapping[str, Any] | None) -> datetime | None:
    if activity is None:
        return None
    moment: datetime = activity.get("EndTime") or activity["StartTime"]
    return moment.astimezone(UTC)


def _market(lifecycle: str | None) -> Market:
    match lifecycle:
        case "spot" | "capacity-block":
            return lifecycle
    return "on-demand"


def completed(runs: Iterable[Run], pools: Mapping[str, tuple[str, Market]]) -> list[Run]:
    """Fill in the type and market of instances whose group is now empty, from the pools of the stack file."""
    return [
        replace(run, instance_type=pools[run.pool][0], market=pools[run.pool][1])
        if run.pool in pools and not run.instance_type
        else run
        for run in runs
    ]
