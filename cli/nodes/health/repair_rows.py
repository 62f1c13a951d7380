"""Describe the job controller's actions on a node, and the next step, based on the node's annotation and the
controller's journal. Performs no I/O.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from cli.nodes.health.node_health import Moment
from infra.health import faults, journal
from infra.health.annotation import TakenOut
from infra.health.brake import SHARE, WINDOW
from infra.health.journal import Journal
from infra.health.repairs import VERIFYING

Object = Mapping[str, Any]

_DONE: Final = {
    "draining": "taken out of service",
    "repairing": "no jobs are left on it; it waits for its repair",
    "verifying": "the fault is gone; the node must stay healthy for a while",
    journal.IN_SERVICE: "back in service",
    journal.GONE: "the node is gone",
}
HELD: Final = (
    f"the job controller leaves it in service: {float(SHARE):.0%} of the nodes broke within {WINDOW.seconds // 60} minutes; "
    "look for a common cause"
)
SOON: Final = "the job controller takes it out of service"


def explain_next_step(node: Object, out: TakenOut, instance: str, *, by_eks: bool) -> str:
    """Return the next step for a node that is out of service. `by_eks`: whether the node belongs to a managed node
    group, which EKS repairs.
    """
    if out.state == "verifying":
        return f"accepts jobs again at {out.since + VERIFYING:%H:%M:%S} UTC if no new fault occurs until then"
    if not node["spec"].get("unschedulable"):
        return "it was uncordoned manually, so it keeps its jobs"
    if out.reason == faults.SILENT:
        return _explain_silent_node(out, by_eks=by_eks)
    if out.state == "draining":
        return "its jobs restart on other nodes" if out.drains else "its jobs stay until they end; then repair it"
    if not by_eks:
        return (
            "repair it, then restart the program that reports its conditions: the node accepts jobs again once the fault is gone"
        )
    name = instance or node["metadata"]["name"]
    if faults.decide_repair(out.condition, out.reason).eks == "none":
        return f"the autoscaler removes it; if its pool has only `minSize` nodes, terminate {name}"
    return "the autoscaler removes it (pools with `minSize: 0`), or EKS repairs it 10 min after the fault"


def _explain_silent_node(out: TakenOut, *, by_eks: bool) -> str:
    if out.state == "draining" and not out.drains:
        return "its jobs restart on other nodes once Kubernetes reports the node as not ready, about 50 s after the fault"
    if out.state == "draining":
        return "its jobs restart on other nodes"
    replaced = "; otherwise EKS replaces it 30 min after the fault" if by_eks else ""
    return f"it accepts jobs again after its kubelet has returned{replaced}"


def explain_planned_repair(name: str, condition: str, reason: str, stored: Journal | None) -> str:
    """Return the job controller's next action on a broken node that is still in service. Empty if another component
    handles the fault, or if there is no journal.
    """
    if stored is None or faults.decide_repair(condition, reason).owner != "controller":
        return ""
    return HELD if name in stored["held"] else SOON


def list_controller_actions(stored: Journal | None, name: str) -> list[Moment]:
    """Return the controller's actions on a node."""
    rows = []
    for entry in journal.find_entries(stored, name) if stored is not None else ():
        for step in entry["steps"]:
            why = f": {_explain_entry(entry)}" if step["state"] == "draining" else ""
            text = f"{_DONE.get(step['state'], step['state'])}{why}"
            rows.append(Moment(datetime.fromisoformat(step["at"]), "controller", text))
    return rows


def _explain_entry(entry: journal.Entry) -> str:
    if entry["reason"] == faults.SILENT:
        return f"{faults.SILENT}: the kubelet had stopped renewing its lease and could not be reached"
    needs = {"replace": "needs a replacement", "reboot": "needs a reboot"}
    return f"{entry['reason']}, {needs.get(entry['action'], 'a person must look at it')}"
