"""Which broken nodes the job controller takes out of service, and how.

A node is taken out with one patch: it becomes unschedulable, and an annotation records when and why. A controller that is
killed between two patches finds all that it did on the nodes. The patch names the version of the node that it is about, so
a node that has changed since is looked at again.

The condition of EKS's agent stays False after the fault is gone. A node with the annotation is therefore never cordoned
again, even if a person has uncordoned it, until the verification of the node has removed the annotation.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from infra.health import faults
from infra.health.brake import Brake
from infra.health.faults import Action

ANNOTATION: Final = "gpumpi.io/taken-out"

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Cordon:
    """A node to take out of service."""

    node: str
    condition: str
    reason: str
    action: Action
    """What the node needs after its jobs have left."""
    version: str
    """The node's resourceVersion."""

    def patch(self, now: datetime) -> dict[str, Any]:
        """Return the merge patch of the node. The API server refuses it if the node has changed."""
        why = {"at": now.astimezone(UTC).isoformat(), "condition": self.condition, "reason": self.reason, "action": self.action}
        metadata = {"resourceVersion": self.version, "annotations": {ANNOTATION: json.dumps(why)}}
        return {"metadata": metadata, "spec": {"unschedulable": True}}


@dataclass(frozen=True)
class Verdict:
    """What to do about the broken nodes of a cluster."""

    cordons: tuple[Cordon, ...]
    held: tuple[str, ...]
    """Broken nodes that the brake keeps in service, for a person to look at."""


def decide(
    nodes: Sequence[Object], gone: Mapping[str, datetime], now: datetime, *, existing: bool = False, brake: Brake | None = None
) -> Verdict:
    """Return the nodes to take out now, the one that broke first first.

    `nodes`: the nodes of the pools. `gone`: nodes that were taken out and no longer exist, and when. `existing`: whether
    another program owns the nodes, so that they are only cordoned.
    """
    broken = {one.node: one for one in _broken(nodes, existing=existing)}
    released = (brake or Brake()).released([*broken], {**gone, **taken_out(nodes)}, map(_name, nodes), now)
    return Verdict(tuple(broken[name] for name in released), tuple(name for name in broken if name not in released))


def taken_out(nodes: Iterable[Object]) -> dict[str, datetime]:
    """Return the nodes that were taken out, and when. A damaged annotation counts as old: the node stays out."""
    return {_name(one): _taken_out(one) for one in nodes if ANNOTATION in _annotations(one)}


def _taken_out(node: Object) -> datetime:
    try:
        return datetime.fromisoformat(json.loads(_annotations(node)[ANNOTATION])["at"])
    except (ValueError, KeyError, TypeError):
        return datetime.min.replace(tzinfo=UTC)


def _broken(nodes: Iterable[Object], *, existing: bool) -> list[Cordon]:
    """Return the nodes in service that the controller takes out, the one that broke first first."""
    found = []
    for node in nodes:
        if ANNOTATION in _annotations(node) or node["spec"].get("unschedulable"):
            continue  # taken out before, or cordoned by a person
        if (fault := _fault(node, existing=existing)) is not None:
            found.append(fault)
    return [cordon for _, cordon in sorted(found, key=lambda one: (one[0], one[1].node))]


def _fault(node: Object, *, existing: bool) -> tuple[str, Cordon] | None:
    """Return since when the controller has to act on a node, and how; None if it does not have to."""
    for one in node["status"].get("conditions", ()):
        if one["type"] not in faults.AGENT_CONDITIONS or one["status"] != "False":
            continue
        decision = faults.decide(one["type"], one.get("reason", ""))
        decision = decision.on_existing() if existing else decision
        if decision.owner == "controller" and decision.costs_node:
            version = node["metadata"].get("resourceVersion", "")
            cordon = Cordon(_name(node), one["type"], one.get("reason", ""), decision.action, version)
            return str(one.get("lastTransitionTime", "")), cordon
    return None


def _annotations(node: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = node["metadata"].get("annotations") or {}
    return found


def _name(node: Object) -> str:
    return str(node["metadata"]["name"])
