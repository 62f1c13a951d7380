"""Determines which nodes of a node group EKS's node auto repair repairs now. Pure.

https://docs.aws.amazon.com/eks/latest/userguide/node-repair.html
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from infra.health import faults

MANY_NODES, UNHEALTHY_PERCENT = 5, 20
"""Without a user's threshold, repairs stop in groups that have more nodes than this and a larger share of unhealthy
ones.
"""

Action = Literal["Replace", "Reboot"]


@dataclass(frozen=True)
class Fault:
    """A bad condition of a node."""

    instance: str
    condition: str
    reason: str
    since: datetime


@dataclass(frozen=True)
class Repair:
    instance: str
    action: Action
    fault: Fault


def of_node(instance: str, conditions: Iterable[Mapping[str, Any]], known: Iterable[Fault], now: datetime) -> list[Fault]:
    """Return the faults in a node's conditions, as Kubernetes lists them. A known fault keeps its time: conditions use
    the machine's clock, and the calendar may be ahead of it. A new reason for the same condition does not restart the
    wait.
    """
    since = {one.condition: one.since for one in known}
    found = []
    for one in conditions:
        is_fault = one["status"] == "False" if one["type"] in faults.AGENT_CONDITIONS else one["status"] != "True"
        if one["type"] in (faults.READY, *faults.AGENT_CONDITIONS) and is_fault:
            found.append(Fault(instance, one["type"], one.get("reason", ""), since.get(one["type"], now)))
    return found


def due(config: Mapping[str, Any], size: int, found: Sequence[Fault], repairing: Collection[str], now: datetime) -> list[Repair]:
    """Return the repairs to start, the oldest fault first. `repairing`: nodes whose repair has started.

    Repairs that have started continue after the threshold stops new ones. Without a limit by the user, all unhealthy
    nodes are repaired at once: NOT VERIFIED (2026-11-23).
    """
    if not config.get("enabled"):
        return []
    unhealthy = {one.instance for one in found}
    if _is_over_threshold(config, size, len(unhealthy)):
        return []
    starting: dict[str, Repair] = {}
    for fault in sorted(found, key=lambda one: (one.since, one.instance)):
        action, wait = rule(config, fault)
        if action is not None and fault.instance not in repairing and now - fault.since >= wait:
            starting.setdefault(fault.instance, Repair(fault.instance, action, fault))
    room = _limit(config, len(unhealthy | set(repairing))) - len(repairing)
    return list(starting.values())[: max(0, room)]


def rule(config: Mapping[str, Any], fault: Fault) -> tuple[Action | None, timedelta]:
    """Return what EKS does about a fault, and how long the fault must last first."""
    for one in config.get("nodeRepairConfigOverrides", ()):
        if (one["nodeMonitoringCondition"], one["nodeUnhealthyReason"]) == (fault.condition, fault.reason):
            action: Action | None = None if one["repairAction"] == "NoAction" else one["repairAction"]
            return action, timedelta(minutes=one["minRepairWaitTimeMins"])
    usual = faults.decide(fault.condition, fault.reason).eks
    return {"replace": "Replace", "reboot": "Reboot"}.get(usual), faults.wait(fault.condition)  # type: ignore[return-value]


def _is_over_threshold(config: Mapping[str, Any], size: int, unhealthy: int) -> bool:
    if "maxUnhealthyNodeThresholdCount" in config:
        return unhealthy > int(config["maxUnhealthyNodeThresholdCount"])
    percent = config.get("maxUnhealthyNodeThresholdPercentage")
    if percent is None:
        return size > MANY_NODES and unhealthy * 100 > UNHEALTHY_PERCENT * size
    return unhealthy * 100 > int(percent) * size


def _limit(config: Mapping[str, Any], unhealthy: int) -> int:
    if "maxParallelNodesRepairedCount" in config:
        return int(config["maxParallelNodesRepairedCount"])
    percent = config.get("maxParallelNodesRepairedPercentage")
    return unhealthy if percent is None else max(1, unhealthy * int(percent) // 100)
