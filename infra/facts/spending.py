"""Running times of a stack's instances: from EC2 or, if EC2 no longer lists an instance, from scaling activities."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from infra.facts.clients import Clients, build_filter, read_pages
from infra.facts.ec2 import list_instances
from infra.naming import COST_TAG, POOL_TAG, ROLE_TAG, STACK_TAG, SYSTEM_POOL, Naming

Market = Literal["on-demand", "spot", "capacity-block"]

EKS_CLUSTER_TAG: Final = "eks:cluster-name"
EKS_GROUP_TAG: Final = "eks:nodegroup-name"
_LAUNCHED: Final = re.compile(r"Launching a new EC2 instance: (i-[0-9a-f]+)")
_TERMINATED: Final = re.compile(r"Terminating EC2 instance: (i-[0-9a-f]+)")
_ENDED: Final = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")
"""Matches the time in `StateTransitionReason`, such as `User initiated (2026-11-23 13:00:00 GMT)`."""


@dataclass(frozen=True)
class Run:
    """The run of one instance, from its launch to its end."""

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


def list_instance_runs(clients: Clients, stack: str) -> list[Run]:
    """Return the instances of a stack, oldest first. EC2 lists terminated instances for an hour; Auto Scaling keeps
    scaling activities for six weeks."""
    activities, own = list(_list_scaling_activities(clients, stack)), build_filter(f"tag:{STACK_TAG}", [stack])
    ends = {match[1]: activity for activity, _ in activities if (match := _TERMINATED.match(activity["Description"]))}
    listed = {instance["InstanceId"]: _build_run_from_instance(instance, ends) for instance in list_instances(clients, own)}
    ended = {
        launched[1]: _build_run_from_activity(launched[1], activity, group, listed, ends.get(launched[1]))
        for activity, group in activities
        if (launched := _LAUNCHED.match(activity["Description"])) and activity["StatusCode"] == "Successful"
    }
    return sorted({**ended, **listed}.values(), key=lambda run: (run.started, run.instance))


def _build_run_from_instance(instance: Mapping[str, Any], ends: Mapping[str, Mapping[str, Any]]) -> Run:
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
    ended: datetime | None = None
    if instance["State"]["Name"] in ("shutting-down", "terminated", "stopping", "stopped"):
        reason = _ENDED.search(instance.get("StateTransitionReason", ""))
        ended = datetime.fromisoformat(f"{reason[1]}+00:00") if reason else _read_end_time(ends.get(instance["InstanceId"]))
        ended = ended or instance["LaunchTime"]  # the time is unknown: count nothing rather than too much
    return Run(
        instance["InstanceId"],
        tags.get(POOL_TAG) or ("head node" if ROLE_TAG in tags else SYSTEM_POOL),
        instance["InstanceType"],
        instance["Placement"]["AvailabilityZone"],
        _convert_market(instance.get("InstanceLifecycle")),
        tags.get(COST_TAG, ""),
        instance["LaunchTime"].astimezone(UTC),
        ended.astimezone(UTC) if ended else None,
    )


def _list_scaling_activities(clients: Clients, stack: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield each scaling activity of the stack's Auto Scaling groups, with its group. EKS tags the groups that it
    creates with the cluster's name."""
    groups: dict[str, Mapping[str, Any]] = {}
    for tag, value in ((STACK_TAG, stack), (EKS_CLUSTER_TAG, Naming(stack).cluster)):
        own = [build_filter(f"tag:{tag}", [value])]
        pages = read_pages(clients.autoscaling, "describe_auto_scaling_groups", "AutoScalingGroups", Filters=own)
        groups |= {group["AutoScalingGroupName"]: group for group in pages}
    for name, group in groups.items():
        for activity in read_pages(clients.autoscaling, "describe_scaling_activities", "Activities", AutoScalingGroupName=name):
            yield activity, group


def _build_run_from_activity(
    instance: str,
    activity: Mapping[str, Any],
    group: Mapping[str, Any],
    listed: Mapping[str, Run],
    end: Mapping[str, Any] | None,
) -> Run:
    """Return the run of an instance that EC2 no longer lists. Its pool is read from the group's tags, or from another
    instance of the group; its type is empty if the group has no instances."""
    tags = {tag["Key"]: tag["Value"] for tag in group.get("Tags", ())}
    member = next((run for entry in group.get("Instances", ()) if (run := listed.get(entry["InstanceId"]))), None)
    cluster, named = tags.get(EKS_CLUSTER_TAG, ""), tags.get(EKS_GROUP_TAG, "")
    of_group = named.removeprefix(f"{cluster}-").rpartition("-")[0] or named
    zone = re.search(r'"Availability Zone": ?"([^"]+)"', activity.get("Details", ""))
    started = activity["StartTime"].astimezone(UTC)
    return Run(
        instance,
        member.pool if member else tags.get(POOL_TAG) or of_group or SYSTEM_POOL,
        member.instance_type if member else "",
        zone[1] if zone else "",
        member.market if member else "on-demand",
        member.cost_center if member else tags.get(COST_TAG, ""),
        started,
        _read_end_time(end) or started,
    )


def _read_end_time(activity: Mapping[str, Any] | None) -> datetime | None:
    if activity is None:
        return None
    moment: datetime = activity.get("EndTime") or activity["StartTime"]
    return moment.astimezone(UTC)


def _convert_market(lifecycle: str | None) -> Market:
    match lifecycle:
        case "spot" | "capacity-block":
            return lifecycle
    return "on-demand"


def fill_in_missing_types(runs: Iterable[Run], pools: Mapping[str, tuple[str, Market]]) -> list[Run]:
    """Fill in the type and market of instances whose group is now empty, from the pools of the stack file."""
    return [
        replace(run, instance_type=pools[run.pool][0], market=pools[run.pool][1])
        if run.pool in pools and not run.instance_type
        else run
        for run in runs
    ]
