"""Determines which nodes of a node group are due for EKS's node auto repair. Performs no I/O.

https://docs.aws.amazon.com/eks/latest/userguide/node-repair.html
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from infra.health import faults

MANY_NODES, UNHEALTHY_PERCENT = 5, 20
"""Default threshold: EKS stops repairs in a group with more than MANY_NODES nodes if more than UNHEALTHY_PERCENT of
them are unhealthy.
"""

Action = Literal["Replace", "Reboot"]


@dataclass(frozen=True)
class Fault:
    """A node condition that indicates a fault."""

    instance: str
    condition: str
    reason: str
    since: datetime


@dataclass(frozen=True)
class Repair:
    instance: str
    action: Action
    fault: Fault


def find_faults(instance: str, conditions: Iterable[Mapping[str, Any]], earlier: Iterable[Fault], now: datetime) -> list[Fault]:
    """Return the faults that a node's conditions show. The conditions have the format of the Kubernetes API.

    A known fault keeps its start time. The times in conditions are ignored, because they come from the machine's clock, and
    the calendar may be ahead of it. A new reason for the same condition does not restart the wait.
    """
    since = {fault.condition: fault.since for fault in earlier}
    node_faults = []
    for condition in conditions:
        kind, status = condition["type"], condition["status"]
        is_fault = status == "False" if kind in faults.AGENT_CONDITIONS else status != "True"
        if kind in (faults.READY, *faults.AGENT_CONDITIONS) and is_fault:
            node_faults.append(Fault(instance, kind, condition.get("reason", ""), since.get(kind, now)))
    return node_faults


def list_due_repairs(
    config: Mapping[str, Any], size: int, current: Sequence[Fault], repairing: Collection[str], now: datetime
) -> list[Repair]:
    """Return the repairs to start, oldest fault first. `repairing` contains the IDs of the instances under repair.

    The threshold stops only new repairs; repairs in progress continue. If the user sets no limit, EKS repairs all
    unhealthy nodes at once: NOT VERIFIED (2026-11-23).
    """
    if not config.get("enabled"):
        return []
    unhealthy = {fault.instance for fault in current}
    if _has_too_many_unhealthy_nodes(config, size, len(unhealthy)):
        return []
    starting: dict[str, Repair] = {}
    for fault in sorted(current, key=lambda fault: (fault.since, fault.instance)):
        action, wait = find_repair_rule(config, fault)
        if action is not None and fault.instance not in repairing and now - fault.since >= wait:
            starting.setdefault(fault.instance, Repair(fault.instance, action, fault))
    room = _compute_max_parallel_repairs(config, len(unhealthy | set(repairing))) - len(repairing)
    return list(starting.values())[: max(0, room)]


def find_repair_rule(config: Mapping[str, Any], fault: Fault) -> tuple[Action | None, timedelta]:
    """Return the repair action for a fault, and how long the fault must last before the repair starts."""
    for override in config.get("nodeRepairConfigOverrides", ()):
        if (override["nodeMonitoringCondition"], override["nodeUnhealthyReason"]) == (fault.condition, fault.reason):
            action: Action | None = None if override["repairAction"] == "NoAction" else override["repairAction"]
            return action, timedelta(minutes=override["minRepairWaitTimeMins"])
    usual = faults.decide_repair(fault.condition, fault.reason).eks
    return {"replace": "Replace", "reboot": "Reboot"}.get(usual), faults.find_repair_wait(fault.condition)  # type: ignore[return-value]


def _has_too_many_unhealthy_nodes(config: Mapping[str, Any], size: int, unhealthy: int) -> bool:
    if "maxUnhealthyNodeThresholdCount" in config:
        return unhealthy > int(config["maxUnhealthyNodeThresholdCount"])
    percent = config.get("maxUnhealthyNodeThresholdPercentage")
    if percent is None:
        return size > MANY_NODES and unhealthy * 100 > UNHEALTHY_PERCENT * size
    return unhealthy * 100 > int(percent) * size


def _compute_max_parallel_repairs(config: Mapping[str, Any], unhealthy: int) -> int:
    if "maxParallelNodesRepairedCount" in config:
        return int(config["maxParallelNodesRepairedCount"])
    percent = config.get("maxParallelNodesRepairedPercentage")
    return unhealthy if percent is None else max(1, unhealthy * int(percent) // 100)
