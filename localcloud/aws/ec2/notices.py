"""Events that EC2 announces for an instance: Spot interruptions, rebalance recommendations and retirements.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/rebalance-recommendations.html
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-instances-status-check_sched.html
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from moto.backends import get_backend
from moto.ec2.models.instances import StateReason
from moto.ec2.utils import random_id

from localcloud.aws import clock, control_actions
from localcloud.aws.autoscaling import capacity
from localcloud.aws.call import Call, backend_of
from localcloud.aws.ec2 import filters, instance_calls, instance_events
from localcloud.aws.ec2.refusals import stop_dry_run
from localcloud.aws.patching import on_reset, operation

INTERRUPTION: Final = timedelta(minutes=2)
RETIREMENT: Final = timedelta(days=14)
"""Time between the announcement and the retirement of an instance. AWS announces retirements about two weeks ahead."""
RETIREMENT_TEXT: Final = "The instance is running on degraded hardware"
REASON: Final = "Server.SpotInstanceTermination"

Listener = Callable[[Any], None]
_listeners: list[Listener] = []
_rebalance_listeners: list[Listener] = []


@dataclass
class Notices:
    """Events that EC2 has announced for one instance."""

    interruption: datetime | None = None
    """Time at which EC2 terminates the Spot Instance."""
    rebalance: datetime | None = None
    """Time at which EC2 recommended replacing the Spot Instance."""
    event: dict[str, Any] | None = None
    """Scheduled event, in the format of DescribeInstanceStatus."""


_given: dict[str, tuple[Any, Notices]] = {}
"""Maps an instance ID to the instance and its notices."""


def find_notices(instance: Any) -> Notices:
    return _given[instance.id][1] if instance.id in _given else Notices()


def _get_or_create_notices(instance: Any) -> Notices:
    """Return the notices of an instance, and create an empty record if there is none. Callers may change the record."""
    return _given.setdefault(instance.id, (instance, Notices()))[1]


def on_interruption(listener: Listener) -> Listener:
    """Register a function that is called with each Spot Instance that receives an interruption notice."""
    _listeners.append(listener)
    return listener


def on_rebalance(listener: Listener) -> Listener:
    """Register a function that is called with each Spot Instance that receives a rebalance recommendation."""
    _rebalance_listeners.append(listener)
    return listener


def list_metadata_paths(instance: Any) -> dict[str, str]:
    """Return a mapping from IMDS paths to content, for the paths that report the instance's notices."""
    scheduled, texts = find_notices(instance), {}
    if scheduled.interruption is not None:
        at = _format_time(scheduled.interruption)
        texts["meta-data/spot/instance-action"] = json.dumps({"action": "terminate", "time": at})
        texts["meta-data/spot/termination-time"] = at
    if scheduled.rebalance is not None:
        texts["meta-data/events/recommendations/rebalance"] = json.dumps({"noticeTime": _format_time(scheduled.rebalance)})
    if scheduled.event is not None:
        event = {key: scheduled.event[key] for key in ("Code", "Description", "InstanceEventId")}
        before = f"{scheduled.event['NotBefore']:%-d %b %Y %H:%M:%S} GMT"
        texts["meta-data/events/maintenance/scheduled"] = json.dumps([{**event, "NotBefore": before, "State": "active"}])
    return texts


@control_actions.action("POST", "instances/{name}/interruption")
def send_interruption_notice(_: Any, name: str) -> dict[str, str]:
    """Send a Spot Instance its interruption notice. EC2 terminates the instance two minutes later."""
    instance = _find_running_spot_instance(name)
    notices = _get_or_create_notices(instance)
    if notices.interruption is None:
        notices.interruption = clock.now() + INTERRUPTION
        for listener in _listeners:
            listener(instance)
    return {"instance": name, "time": _format_time(notices.interruption)}


@control_actions.action("POST", "instances/{name}/rebalance")
def recommend_rebalance(_: Any, name: str) -> dict[str, str]:
    """Recommend replacing a Spot Instance, which has an elevated risk of interruption. EC2 itself terminates nothing."""
    instance = _find_running_spot_instance(name)
    notices = _get_or_create_notices(instance)
    if notices.rebalance is None:
        notices.rebalance = clock.now()
        for listener in _rebalance_listeners:
            listener(instance)
    return {"instance": name, "time": _format_time(notices.rebalance)}


@control_actions.action("POST", "instances/{name}/retirement")
def schedule_retirement(_: Any, name: str) -> dict[str, str]:
    """Schedule the retirement of an instance."""
    notices = _get_or_create_notices(_find_running_instance(name))
    if notices.event is None:
        notices.event = {
            "InstanceEventId": random_id("instance-event", 8),
            "Code": "instance-retirement",
            "Description": RETIREMENT_TEXT,
            "NotBefore": (clock.now() + RETIREMENT).replace(microsecond=0),
        }
    return {"instance": name, "time": _format_time(notices.event["NotBefore"])}


@clock.on_tick
def terminate_due_instances(moment: datetime) -> None:
    """Terminate the Spot Instances whose interruption is due and the instances whose retirement is due."""
    for instance, notices in list(_given.values()):
        if not instance.is_live:
            del _given[instance.id]
        elif notices.interruption is not None and moment >= notices.interruption:
            _terminate_instance(instance, StateReason(f"{REASON}: Spot instance termination", REASON))
        elif notices.event is not None and moment >= notices.event["NotBefore"]:
            _terminate_instance(instance)


def _terminate_instance(instance: Any, reason: Any = None) -> None:
    backend = instance.ec2_backend
    instance_events.terminate([instance])
    if reason is not None:
        instance.state_reason = reason
    capacity.replace_terminated_instances(backend_of("autoscaling", backend.account_id, backend.region_name), [instance.id])


@operation("ec2", "DescribeInstanceStatus")
def describe_instance_status(call: Call) -> dict[str, Any]:
    backend, ids = call.backend, call.params.get("InstanceIds")
    matching = filters.filter_items(
        instance_calls.find_instances(backend, ids) if ids else instance_calls.list_instances(backend),
        call.params.get("Filters"),
        _FILTERS,
        lambda item: {},
    )
    stop_dry_run(call)
    everything = call.params.get("IncludeAllInstances")
    listed = [instance for instance in matching if instance.state == "running" or (everything and instance.is_live)]
    shown, token = filters.select_page(listed, call.params)
    return {"InstanceStatuses": [_describe_status(instance) for instance in shown], **token}


def _describe_status(instance: Any) -> dict[str, Any]:
    event = find_notices(instance).event
    word = "ok" if instance.state == "running" else "not-applicable"
    passed = {"Status": word, "Details": [{"Name": "reachability", "Status": "passed"}] if word == "ok" else []}
    return {
        "InstanceId": instance.id,
        "AvailabilityZone": instance.placement.zone,
        "InstanceState": {"Code": instance.state_code, "Name": instance.state},
        "InstanceStatus": passed,
        "SystemStatus": passed,
        "Events": [event] if event else [],
    }


_FILTERS: dict[str, Any] = {
    "availability-zone": lambda item: item.placement.zone,
    "event.code": lambda item: (find_notices(item).event or {}).get("Code"),
    "event.instance-event-id": lambda item: (find_notices(item).event or {}).get("InstanceEventId"),
    "instance-state-name": lambda item: item.state,
    "instance-status.status": lambda item: "ok" if item.state == "running" else "not-applicable",
    "system-status.status": lambda item: "ok" if item.state == "running" else "not-applicable",
}


def _find_running_instance(name: str) -> Any:
    backends = [backend for regions in list(get_backend("ec2").values()) for backend in list(regions.values())]
    everything = (instance for backend in backends for instance in instance_calls.list_instances(backend))
    running = next((instance for instance in everything if instance.id == name and instance.is_live), None)
    if running is None:
        raise ValueError(f"no instance {name} is running")
    return running


def _find_running_spot_instance(name: str) -> Any:
    instance = _find_running_instance(name)
    if instance.lifecycle != "spot":
        raise ValueError(f"{name} is not a Spot Instance, so EC2 does not interrupt it")
    return instance


@on_reset
def _reset_notices() -> None:
    _given.clear()


def _format_time(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
