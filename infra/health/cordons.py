"""Selects the broken nodes that the job controller takes out of service, and builds the patches.

A node is taken out with one patch: it becomes unschedulable, and an annotation records when and why. If the controller
is killed between two patches, the nodes' annotations show what it has already done. The patch contains the node's
resourceVersion, so a node that has changed in the meantime is checked again.

The condition that EKS's agent sets stays False after the fault is gone. Therefore a node with the annotation is not
cordoned again, even if a person has uncordoned it, until the controller has verified the node and removed the
annotation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from infra.health import annotation, brake, faults
from infra.health.annotation import Object, TakenOut, read_node_name
from infra.health.faults import Action
from infra.naming import TAKEN_OUT_ANNOTATION


@dataclass(frozen=True)
class Cordon:
    """A node to take out of service."""

    node: str
    version: str
    """The node's resourceVersion."""
    out: TakenOut
    """Content of the annotation."""

    @property
    def patch(self) -> dict[str, Any]:
        """The merge patch for the node. The API server rejects the patch if the node has changed."""
        metadata = {"resourceVersion": self.version, "annotations": {TAKEN_OUT_ANNOTATION: self.out.text()}}
        return {"metadata": metadata, "spec": {"unschedulable": True}}


@dataclass(frozen=True)
class Before:
    """Nodes without an annotation that were taken out of service earlier, each with the time."""

    gone: Mapping[str, datetime] = field(default_factory=dict)
    """Nodes that no longer exist and that the brake counts."""
    counted: Mapping[str, datetime] = field(default_factory=dict)
    """Existing nodes that the brake counts: they were repaired, or the controller was killed before it patched them."""


@dataclass(frozen=True)
class Verdict:
    """Decisions about the broken nodes of a cluster."""

    cordons: tuple[Cordon, ...]
    held: tuple[str, ...]
    """Broken nodes that stay in service because the brake's limit is reached."""


def decide_cordons(
    nodes: Sequence[Object],
    before: Before,
    now: datetime,
    *,
    existing: bool = False,
    silent: Mapping[str, str] = MappingProxyType({}),
) -> Verdict:
    """Return the nodes to take out of service now, in the order in which they broke, and the nodes that the brake holds
    back.

    `nodes`: the nodes of the pools. `existing`: whether another program owns the nodes; if so, the controller only
    cordons them. `silent`: name of each node whose kubelet is silent -> time when the silence began.
    """
    broken = {cordon.node: cordon for cordon in find_broken_nodes(nodes, silent, now, existing=existing)}
    # A node that breaks repeatedly counts once per window.
    free = broken.keys() & brake.find_recently_taken_out(before.counted, now)
    waiting = [name for name in broken if name not in free]
    counted = {name: before.counted[name] for name in brake.find_recently_taken_out(before.counted, now)}
    taken_out = {read_node_name(node): out.at for node in nodes if (out := annotation.read_annotation(node)) is not None}
    released = {
        *free,
        *brake.select_nodes_to_take_out(waiting, {**before.gone, **counted, **taken_out}, map(read_node_name, nodes), now),
    }
    return Verdict(
        tuple(cordon for name, cordon in broken.items() if name in released),
        tuple(name for name in broken if name not in released),
    )


def find_broken_nodes(nodes: Iterable[Object], silent: Mapping[str, str], now: datetime, *, existing: bool) -> list[Cordon]:
    """Return the nodes in service that the controller should take out, in the order in which they broke."""
    by_time = []
    for node in nodes:
        if annotation.read_annotation(node) is not None or node["spec"].get("unschedulable"):
            continue  # already taken out of service, or cordoned by a person
        if fault := _find_fault(node, silent, existing=existing):
            since, condition, reason, action = fault
            out = TakenOut(now, condition, reason, action, "draining", now, drains=not existing)
            by_time.append((since, Cordon(read_node_name(node), node["metadata"].get("resourceVersion", ""), out)))
    return [cordon for _, cordon in sorted(by_time, key=lambda entry: (entry[0], entry[1].node))]


def _find_fault(node: Object, silent: Mapping[str, str], *, existing: bool) -> tuple[str, str, str, Action] | None:
    """Return the start time, condition, reason and repair of a fault that the controller must handle; None if the node has
    no such fault. A silent kubelet counts as such a fault until Kubernetes reports the node as not Ready."""
    conditions = {condition["type"]: condition for condition in node["status"].get("conditions", ())}
    for kind, condition in conditions.items():
        if kind not in faults.AGENT_CONDITIONS or condition["status"] != "False":
            continue
        decision = faults.decide_repair(kind, condition.get("reason", ""))
        decision = decision.for_existing_cluster() if existing else decision
        if decision.owner == "controller" and decision.takes_node_out:
            return str(condition.get("lastTransitionTime", "")), kind, condition.get("reason", ""), decision.action
    if read_node_name(node) in silent and conditions.get(faults.READY, {}).get("status") == "True":
        return silent[read_node_name(node)], faults.READY, faults.SILENT, faults.decide_repair(faults.READY, faults.SILENT).action
    return None
