"""Derive the health of a node from its Node object, its events and the records of jobs. All functions are pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cli.jobs.records import JobRecord
from cli.jobs.times import moment
from cli.nodes.health import repair_rows
from cli.nodes.health.node_health import Fault, Moment, NodeHealth, State
from infra.health import annotation, faults, xids
from infra.health.annotation import TakenOut
from infra.health.journal import Journal
from infra.health.repairs import whole
from infra.naming import EMULATED_LABEL, GPU_RESOURCE, POOL_LABEL

Object = Mapping[str, Any]

NODE_GROUP_LABEL: Final = "eks.amazonaws.com/nodegroup"
TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
WITHDRAWN: Final = "DevicePluginWithdrewGpus"
NOTICED_LATER: Final = timedelta(minutes=2)
"""Maximum time from the end of a worker to the end of its attempt. Within this time, the worker's node may have caused
the end of the attempt.
"""
_DOES: Final = {"replace": "replaces", "reboot": "reboots"}


def health(
    node: Object, events: Sequence[Object], records: Sequence[JobRecord], now: datetime, journal: Journal | None = None
) -> NodeHealth:
    """Return the health of a node. `events` and `records` may include those of other nodes. `journal`: the job
    controller's journal; None if the controller has never acted on a node.
    """
    labels, name = node["metadata"].get("labels", {}), node["metadata"]["name"]
    found, warnings = tuple(_faults(node)), tuple(_warnings(name, events))
    out = annotation.read(node)
    return NodeHealth(
        name=name,
        state=out.state if out is not None else _state(node, found),
        pool=labels.get(POOL_LABEL, ""),
        instance=_instance(node),
        instance_type=labels.get(TYPE_LABEL, ""),
        is_cordoned=bool(node["spec"].get("unschedulable")),
        gpus=(_gpus(node, "allocatable"), _gpus(node, "capacity")),
        faults=found,
        warnings=warnings,
        taken_out=out,
        next=_next_of(node, found, out, journal, now) or _after(warnings),
        jobs=tuple(sorted({_job(one) for one in records for worker in _workers(one, name) if worker["to"] is None})),
    )


def is_called(node: Object, name: str) -> bool:
    """Return whether a node has this name or instance ID."""
    return name in (node["metadata"]["name"], _instance(node) or None)


def gone(name: str, events: Sequence[Object], records: Sequence[JobRecord], journal: Journal | None = None) -> NodeHealth | None:
    """Return the health of a node that no longer exists; None if no event, record or journal mentions it."""
    known = any(_is_about(one, name) for one in events) or any(_workers(one, name) for one in records)
    known = known or bool(repair_rows.moments(journal, name))
    return NodeHealth(name, "gone", warnings=tuple(_warnings(name, events))) if known else None


# --- faults -------------------------------------------------------------------------------------------------------------


def _faults(node: Object) -> list[Fault]:
    conditions = {one["type"]: one for one in node["status"].get("conditions", ())}
    found = []
    if (ready := conditions.get(faults.READY, {})).get("status") != "True":
        reason, message = ready.get("reason", "NoStatus"), ready.get("message", "the kubelet has not reported yet")
        found.append(Fault(faults.READY, reason, message, _time(ready.get("lastTransitionTime"))))
    for name in faults.AGENT_CONDITIONS:
        one = conditions.get(name)
        if one is not None and one["status"] == "False":
            since = _time(one.get("lastTransitionTime"))
            found.append(Fault(name, one.get("reason", ""), one.get("message", ""), since))
    usable, whole = _gpus(node, "allocatable"), _gpus(node, "capacity")
    if usable < whole:
        found.append(Fault(GPU_RESOURCE, WITHDRAWN, f"{usable} of {whole} GPUs can be used"))
    return found


def _state(node: Object, found: Sequence[Fault]) -> State:
    if found:
        return "not ready" if found[0].condition == faults.READY else "broken"
    return "cordoned" if node["spec"].get("unschedulable") else "healthy"


def _warnings(name: str, events: Sequence[Object]) -> list[Fault]:
    """Return the faults that EKS's node monitoring agent reported as events, newest first. The event's reason is the
    condition, and its message starts with the fault's reason.
    """
    found = []
    for one in events:
        if _is_about(one, name) and one.get("type") == "Warning" and one.get("reason") in faults.AGENT_CONDITIONS:
            reason, _, message = one.get("message", "").partition(": ")
            found.append(Fault(one["reason"], reason, message, _last_time(one)))
    return sorted(found, key=lambda fault: fault.since or datetime.min.replace(tzinfo=UTC), reverse=True)


def _next_of(node: Object, found: Sequence[Fault], out: TakenOut | None, journal: Journal | None, now: datetime) -> str:
    """Return a sentence about the next step: what the job controller will do or, if it does nothing, what EKS or a
    person must do.
    """
    if out is not None:
        return repair_rows.after(node, out, _instance(node), by_eks=NODE_GROUP_LABEL in node["metadata"].get("labels", {}))
    by_controller = ""
    if found and not node["spec"].get("unschedulable"):
        by_controller = repair_rows.of_broken(node["metadata"]["name"], found[0].condition, found[0].reason, journal)
    return by_controller or _next(node, found, now)


def _next(node: Object, found: Sequence[Fault], now: datetime) -> str:
    """Return the next step for the most serious fault."""
    name = node["metadata"]["name"]
    if not found:
        return f"accepts jobs again after `kubectl uncordon {name}`" if node["spec"].get("unschedulable") else ""
    fault, labels = found[0], node["metadata"].get("labels", {})
    if fault.reason == WITHDRAWN:
        return "see the log of the node's device plugin; a new node will have all GPUs"
    decision = faults.decide(fault.condition, fault.reason)
    if not decision.costs_node:
        return "see the log of the node monitoring agent: this does not mean that a GPU is broken"
    if NODE_GROUP_LABEL in labels and decision.eks != "none" and fault.since:
        wait = faults.wait(fault.condition)
        due, minutes = fault.since + wait, int(wait.total_seconds() // 60)
        if EMULATED_LABEL in labels:
            return f"EKS {_DOES[decision.eks]} it {minutes} min after the fault, or after `local clock --advance {minutes}m`"
        if now < due:
            return f"EKS {_DOES[decision.eks]} it at {due:%H:%M} UTC, {minutes} min after the fault"
        return f"EKS {_DOES[decision.eks]} it (due since {due:%H:%M} UTC); EKS repairs one node at a time"
    drain = f"`kubectl drain {name} --ignore-daemonsets --delete-emptydir-data`"
    instance = _instance(node)
    return f"nothing repairs it: {drain}, then {f'terminate {instance}' if instance else 'repair or replace it'}"


def _after(warnings: Sequence[Fault]) -> str:
    number = faults.xid_of(warnings[0].reason) if warnings else None
    return "the node is fine: the application caused it" if number in xids.APPLICATION else ""


# --- history ------------------------------------------------------------------------------------------------------------


def history(
    name: str,
    node: Object | None,
    events: Sequence[Object],
    records: Sequence[JobRecord],
    journal: Journal | None = None,
) -> list[Moment]:
    """Return the history of a node, oldest entry first."""
    found = [*(_of_node(node) if node is not None else []), *repair_rows.moments(journal, name)]
    for one in events:
        at = _last_time(one)
        if _is_about(one, name) and at is not None:
            times = f" ({one['count']} times)" if (one.get("count") or 1) > 1 else ""
            text = f"{one.get('reason', '')}: {' '.join(one.get('message', '').split())}".rstrip(": ")
            found.append(Moment(at, "event", f"{text}{times}"))
    for record in records:
        found += _of_job(name, record)
    return sorted(found, key=lambda one: one.at)


def _of_node(node: Object) -> list[Moment]:
    found = []
    if joined := _time(node["metadata"].get("creationTimestamp")):
        found.append(Moment(joined, "node", "joined the cluster"))
    for one in node["status"].get("conditions", ()):
        at, is_agents = _time(one.get("lastTransitionTime")), one["type"] in faults.AGENT_CONDITIONS
        if at and (one["type"] == faults.READY or (is_agents and one["status"] != "True")):
            message = f": {one['message']}" if one.get("message") and one["status"] != "True" else ""
            found.append(Moment(at, "condition", f"{one['type']} is {one['status']}: {one.get('reason', '')}{message}"))
    return found


def _of_job(name: str, record: JobRecord) -> list[Moment]:
    found, job = [], _job(record)
    workers = _workers(record, name)
    for worker in workers:
        started, ended = _time(worker["from"]), _time(worker["to"])
        if started:
            found.append(Moment(started, "job", f"{job}: {worker['pod']} starts"))
        if ended:
            found.append(Moment(ended, "job", f"{job}: {worker['pod']} ends"))
    for attempt in record.content.get("attempts", ()):
        at = _time(attempt.get("to"))
        if at and attempt.get("outcome") in ("Failed", "Disrupted") and any(_held(worker, at) for worker in workers):
            outcome = str(attempt["outcome"]).lower()
            found.append(Moment(at, "job", f"{job}: attempt {attempt['number']} {outcome}: {attempt.get('cause', '')}"))
    return found


def _held(worker: Mapping[str, Any], at: datetime) -> bool:
    """Return whether a worker was on the node when an attempt ended, or shortly before."""
    started, ended = _time(worker["from"]), _time(worker["to"])
    return started is not None and started <= at and (ended is None or at <= ended + NOTICED_LATER)


# --- objects ------------------------------------------------------------------------------------------------------------


def _workers(record: JobRecord, node: str) -> list[Mapping[str, Any]]:
    return [one for one in record.content.get("workers", ()) if one["node"] == node]


def _job(record: JobRecord) -> str:
    return f"{record.content['namespace']}/{record.content['name']}"


def _is_about(event: Object, name: str) -> bool:
    about: Mapping[str, str] = event.get("involvedObject", {})
    return about.get("kind") == "Node" and about.get("name") == name


def _last_time(event: Object) -> datetime | None:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((found for one in times if (found := _time(one))), _time(event["metadata"].get("creationTimestamp")))


def _gpus(node: Object, amount: str) -> int:
    return whole(node["status"].get(amount, {}).get(GPU_RESOURCE, 0))


def _instance(node: Object) -> str:
    """Return the ID of the EC2 instance: `i-0a` for `aws:///us-west-2a/i-0a`."""
    provider = str(node["spec"].get("providerID", ""))
    return provider.rpartition("/")[2] if provider.startswith("aws:") else ""


def _time(text: str | None) -> datetime | None:
    return moment(text) if text else None
