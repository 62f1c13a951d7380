"""Derive the health of a node from its Node object, its events and the records of jobs. All functions are pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cli.jobs.records import JobRecord
from cli.nodes.health import repair_rows
from cli.nodes.health.node_health import Fault, Moment, NodeHealth, State
from infra.health import annotation, faults, xids
from infra.health.annotation import TakenOut
from infra.health.journal import Journal
from infra.health.repairs import parse_quantity
from infra.naming import EMULATED_LABEL, GPU_RESOURCE, POOL_LABEL
from infra.platform.job_controller.in_pod.moments import parse_time

Object = Mapping[str, Any]

NODE_GROUP_LABEL: Final = "eks.amazonaws.com/nodegroup"
TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
WITHDRAWN: Final = "DevicePluginWithdrewGpus"
NOTICED_LATER: Final = timedelta(minutes=2)
"""Maximum time from the end of a worker to the end of its attempt. Within this time, the worker's node may have caused
the end of the attempt.
"""
_DOES: Final = {"replace": "replaces", "reboot": "reboots"}


def assess_node_health(
    node: Object, events: Sequence[Object], records: Sequence[JobRecord], now: datetime, journal: Journal | None = None
) -> NodeHealth:
    """Return the health of a node. `events` and `records` may include those of other nodes. `journal`: the job
    controller's journal; None if the controller has never acted on a node.
    """
    labels, name = node["metadata"].get("labels", {}), node["metadata"]["name"]
    faults, warnings = tuple(_find_faults(node)), tuple(_find_warnings(name, events))
    out = annotation.read_annotation(node)
    return NodeHealth(
        name=name,
        state=out.state if out is not None else _derive_state(node, faults),
        pool=labels.get(POOL_LABEL, ""),
        instance=_get_instance_id(node),
        instance_type=labels.get(TYPE_LABEL, ""),
        is_cordoned=bool(node["spec"].get("unschedulable")),
        gpus=(_count_gpus(node, "allocatable"), _count_gpus(node, "capacity")),
        faults=faults,
        warnings=warnings,
        taken_out=out,
        next=_explain_next_step(node, faults, out, journal, now) or _explain_last_warning(warnings),
        jobs=tuple(
            sorted(
                {
                    _format_job_name(record)
                    for record in records
                    for worker in _list_workers_on_node(record, name)
                    if worker["to"] is None
                }
            )
        ),
    )


def has_name_or_id(node: Object, name: str) -> bool:
    """Return whether a node has this name or instance ID."""
    return name in (node["metadata"]["name"], _get_instance_id(node) or None)


def assess_deleted_node(
    name: str, events: Sequence[Object], records: Sequence[JobRecord], journal: Journal | None = None
) -> NodeHealth | None:
    """Return the health of a node that no longer exists; None if no event, record or journal mentions it."""
    is_known = any(_is_node_event(event, name) for event in events) or any(
        _list_workers_on_node(record, name) for record in records
    )
    is_known = is_known or bool(repair_rows.list_controller_actions(journal, name))
    return NodeHealth(name, "gone", warnings=tuple(_find_warnings(name, events))) if is_known else None


# --- faults -------------------------------------------------------------------------------------------------------------


def _find_faults(node: Object) -> list[Fault]:
    conditions = {condition["type"]: condition for condition in node["status"].get("conditions", ())}
    current = []
    if (ready := conditions.get(faults.READY, {})).get("status") != "True":
        reason, message = ready.get("reason", "NoStatus"), ready.get("message", "the kubelet has not reported yet")
        current.append(Fault(faults.READY, reason, message, _parse_optional_time(ready.get("lastTransitionTime"))))
    for name in faults.AGENT_CONDITIONS:
        condition = conditions.get(name)
        if condition is not None and condition["status"] == "False":
            since = _parse_optional_time(condition.get("lastTransitionTime"))
            current.append(Fault(name, condition.get("reason", ""), condition.get("message", ""), since))
    usable, whole = _count_gpus(node, "allocatable"), _count_gpus(node, "capacity")
    if usable < whole:
        current.append(Fault(GPU_RESOURCE, WITHDRAWN, f"{usable} of {whole} GPUs can be used"))
    return current


def _derive_state(node: Object, faults_of_node: Sequence[Fault]) -> State:
    if faults_of_node:
        return "not ready" if faults_of_node[0].condition == faults.READY else "broken"
    return "cordoned" if node["spec"].get("unschedulable") else "healthy"


def _find_warnings(name: str, events: Sequence[Object]) -> list[Fault]:
    """Return the faults that EKS's node monitoring agent reported as events, newest first. The event's reason is the
    condition, and its message starts with the fault's reason.
    """
    warnings = []
    for event in events:
        if _is_node_event(event, name) and event.get("type") == "Warning" and event.get("reason") in faults.AGENT_CONDITIONS:
            reason, _, message = event.get("message", "").partition(": ")
            warnings.append(Fault(event["reason"], reason, message, _get_last_time(event)))
    return sorted(warnings, key=lambda fault: fault.since or datetime.min.replace(tzinfo=UTC), reverse=True)


def _explain_next_step(
    node: Object, current: Sequence[Fault], out: TakenOut | None, journal: Journal | None, now: datetime
) -> str:
    """Return a sentence about the next step: what the job controller will do or, if it does nothing, what EKS or an
    administrator must do.
    """
    if out is not None:
        return repair_rows.explain_next_step(
            node, out, _get_instance_id(node), by_eks=NODE_GROUP_LABEL in node["metadata"].get("labels", {})
        )
    by_controller = ""
    if current and not node["spec"].get("unschedulable"):
        by_controller = repair_rows.explain_planned_repair(
            node["metadata"]["name"], current[0].condition, current[0].reason, journal
        )
    return by_controller or _explain_fault_repair(node, current, now)


def _explain_fault_repair(node: Object, current: Sequence[Fault], now: datetime) -> str:
    """Return the next step for the most serious fault."""
    name = node["metadata"]["name"]
    if not current:
        return f"accepts jobs again after `kubectl uncordon {name}`" if node["spec"].get("unschedulable") else ""
    fault, labels = current[0], node["metadata"].get("labels", {})
    if fault.reason == WITHDRAWN:
        return "see the log of the node's device plugin; a new node will have all GPUs"
    decision = faults.decide_repair(fault.condition, fault.reason)
    if not decision.takes_node_out:
        return "see the log of the node monitoring agent: this does not mean that a GPU is broken"
    if NODE_GROUP_LABEL in labels and decision.eks != "none" and fault.since:
        wait = faults.find_repair_wait(fault.condition)
        due, minutes = fault.since + wait, int(wait.total_seconds() // 60)
        if EMULATED_LABEL in labels:
            return f"EKS {_DOES[decision.eks]} it {minutes} min after the fault, or after `local clock --advance {minutes}m`"
        if now < due:
            return f"EKS {_DOES[decision.eks]} it at {due:%H:%M} UTC, {minutes} min after the fault"
        return f"EKS {_DOES[decision.eks]} it (due since {due:%H:%M} UTC); EKS repairs one node at a time"
    drain = f"`kubectl drain {name} --ignore-daemonsets --delete-emptydir-data`"
    instance = _get_instance_id(node)
    return f"nothing repairs it: {drain}, then {f'terminate {instance}' if instance else 'repair or replace it'}"


def _explain_last_warning(warnings: Sequence[Fault]) -> str:
    number = faults.parse_xid(warnings[0].reason) if warnings else None
    return "the node is fine: the application caused it" if number in xids.APPLICATION else ""


# --- history ------------------------------------------------------------------------------------------------------------


def list_history(
    name: str,
    node: Object | None,
    events: Sequence[Object],
    records: Sequence[JobRecord],
    journal: Journal | None = None,
) -> list[Moment]:
    """Return the history of a node, oldest entry first."""
    moments = [*(_list_node_moments(node) if node is not None else []), *repair_rows.list_controller_actions(journal, name)]
    for event in events:
        at = _get_last_time(event)
        if _is_node_event(event, name) and at is not None:
            times = f" ({event['count']} times)" if (event.get("count") or 1) > 1 else ""
            text = f"{event.get('reason', '')}: {' '.join(event.get('message', '').split())}".rstrip(": ")
            moments.append(Moment(at, "event", f"{text}{times}"))
    for record in records:
        moments += _list_job_moments(name, record)
    return sorted(moments, key=lambda moment: moment.at)


def _list_node_moments(node: Object) -> list[Moment]:
    moments = []
    if joined := _parse_optional_time(node["metadata"].get("creationTimestamp")):
        moments.append(Moment(joined, "node", "joined the cluster"))
    for condition in node["status"].get("conditions", ()):
        at, is_agents = _parse_optional_time(condition.get("lastTransitionTime")), condition["type"] in faults.AGENT_CONDITIONS
        if at and (condition["type"] == faults.READY or (is_agents and condition["status"] != "True")):
            message = f": {condition['message']}" if condition.get("message") and condition["status"] != "True" else ""
            moments.append(
                Moment(at, "condition", f"{condition['type']} is {condition['status']}: {condition.get('reason', '')}{message}")
            )
    return moments


def _list_job_moments(name: str, record: JobRecord) -> list[Moment]:
    moments, job = [], _format_job_name(record)
    workers = _list_workers_on_node(record, name)
    for worker in workers:
        started, ended = _parse_optional_time(worker["from"]), _parse_optional_time(worker["to"])
        if started:
            moments.append(Moment(started, "job", f"{job}: {worker['pod']} starts"))
        if ended:
            moments.append(Moment(ended, "job", f"{job}: {worker['pod']} ends"))
    for attempt in record.content.get("attempts", ()):
        at = _parse_optional_time(attempt.get("to"))
        if at and attempt.get("outcome") in ("Failed", "Disrupted") and any(_was_on_node(worker, at) for worker in workers):
            outcome = str(attempt["outcome"]).lower()
            moments.append(Moment(at, "job", f"{job}: attempt {attempt['number']} {outcome}: {attempt.get('cause', '')}"))
    return moments


def _was_on_node(worker: Mapping[str, Any], at: datetime) -> bool:
    """Return whether a worker was on the node when an attempt ended, or shortly before."""
    started, ended = _parse_optional_time(worker["from"]), _parse_optional_time(worker["to"])
    return started is not None and started <= at and (ended is None or at <= ended + NOTICED_LATER)


# --- objects ------------------------------------------------------------------------------------------------------------


def _list_workers_on_node(record: JobRecord, node: str) -> list[Mapping[str, Any]]:
    return [worker for worker in record.content.get("workers", ()) if worker["node"] == node]


def _format_job_name(record: JobRecord) -> str:
    return f"{record.content['namespace']}/{record.content['name']}"


def _is_node_event(event: Object, name: str) -> bool:
    about: Mapping[str, str] = event.get("involvedObject", {})
    return about.get("kind") == "Node" and about.get("name") == name


def _get_last_time(event: Object) -> datetime | None:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next(
        (when for text in times if (when := _parse_optional_time(text))),
        _parse_optional_time(event["metadata"].get("creationTimestamp")),
    )


def _count_gpus(node: Object, amount: str) -> int:
    return parse_quantity(node["status"].get(amount, {}).get(GPU_RESOURCE, 0))


def _get_instance_id(node: Object) -> str:
    """Return the ID of the EC2 instance: `i-0a` for `aws:///us-west-2a/i-0a`."""
    provider = str(node["spec"].get("providerID", ""))
    return provider.rpartition("/")[2] if provider.startswith("aws:") else ""


def _parse_optional_time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None
