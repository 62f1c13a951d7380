"""Scheduled actions, which change the sizes of an Auto Scaling group at a given time.

https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-scheduled-scaling.html. moto never runs scheduled
actions. It stores them by name alone, although names are unique only within a group.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.backends import get_backend

from localcloud.aws import clock
from localcloud.aws.autoscaling import group_calls
from localcloud.aws.autoscaling.errors import build_validation_error, find_group
from localcloud.aws.call import Call
from localcloud.aws.ec2.filters import select_page
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import get_state, operation

BEFORE_END = timedelta(minutes=40)
END_OF_BLOCK = "Amazon EKS Node Group Capacity Scaledown Before Reservation End"
"""Name of the scheduled action that EKS adds to Auto Scaling groups in a Capacity Block:
https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html"""
_SIZES = ("MinSize", "MaxSize", "DesiredCapacity")


@dataclass
class Action:
    name: str
    start: datetime
    sizes: dict[str, int]
    reservation_id: str | None = None
    """Reservation ID of the Capacity Block for which EKS added the action."""


class Actions:
    """Scheduled actions of one account and Region, keyed by group and name. Actions that have run are removed."""

    def __init__(self) -> None:
        self.of_group: dict[str, dict[str, Action]] = {}


@operation("autoscaling", "PutScheduledUpdateGroupAction")
def put_scheduled_update_group_action(call: Call) -> None:
    """https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_PutScheduledUpdateGroupAction.html

    The last two error messages are NOT VERIFIED (2026-11-23).
    """
    params, backend = call.params, call.backend
    group = find_group(backend, params.get("AutoScalingGroupName"))
    if {"Recurrence", "EndTime", "TimeZone"} & params.keys():
        raise AwsError(
            "NotImplementedInLocalCloud", "The local cloud supports only one-time scheduled actions: set only StartTime."
        )
    start = _to_utc(params.get("StartTime") or params.get("Time"))
    if start is not None and start <= clock.now():
        raise build_validation_error("Given start time is in the past")
    sizes = {name: int(params[name]) for name in _SIZES if name in params}
    if start is None:
        raise build_validation_error("Either a start time or a recurrence must be specified")
    if not sizes:
        raise build_validation_error("At least one of MinSize, MaxSize and DesiredCapacity must be specified")
    put_action(backend, group.name, Action(params["ScheduledActionName"], start, sizes))


def put_action(backend: Any, group: str, action: Action) -> None:
    get_state(backend, Actions).of_group.setdefault(group, {})[action.name] = action


def schedule_block_end(backend: Any, group: str, reservation_id: str, end: datetime) -> None:
    """Add the scheduled scale-down with which EKS empties a node group before its Capacity Block ends."""
    sizes = {"MinSize": 0, "DesiredCapacity": 0}
    put_action(backend, group, Action(END_OF_BLOCK, end - BEFORE_END, sizes, reservation_id))


def reschedule_block_end(reservation_id: str, end: datetime) -> None:
    """Reschedule EKS's scale-downs after a Capacity Block has been extended."""
    for backend in _list_backends():
        for actions in get_state(backend, Actions).of_group.values():
            for action in actions.values():
                if action.reservation_id == reservation_id:
                    action.start = end - BEFORE_END


@operation("autoscaling", "DescribeScheduledActions")
def describe_scheduled_actions(call: Call) -> dict[str, Any]:
    params, names = call.params, call.params.get("ScheduledActionNames", [])
    group_filter = params.get("AutoScalingGroupName")
    actions = [
        _describe(call, group, action)
        for group, action in _list_actions(call.backend)
        if group_filter in (None, group) and (not names or action.name in names)
    ]
    shown_actions, token = select_page(actions, params)
    return {"ScheduledUpdateGroupActions": shown_actions, **token}


@operation("autoscaling", "DeleteScheduledAction")
def delete_scheduled_action(call: Call) -> None:
    group = find_group(call.backend, call.params.get("AutoScalingGroupName"))
    actions = get_state(call.backend, Actions).of_group.get(group.name, {})
    if actions.pop(call.params["ScheduledActionName"], None) is None:
        raise build_validation_error("Scheduled action name not found")


@operation("autoscaling", "BatchPutScheduledUpdateGroupAction")
def batch_put_scheduled_update_group_action(_: Call) -> None:
    raise AwsError("NotImplementedInLocalCloud", "The local cloud does not support batches of scheduled actions.")


@operation("autoscaling", "BatchDeleteScheduledAction")
def batch_delete_scheduled_action(_: Call) -> None:
    raise AwsError("NotImplementedInLocalCloud", "The local cloud does not support batches of scheduled actions.")


@clock.on_tick
def run_due_actions(moment: datetime) -> None:
    """Run the actions that are due, oldest first."""
    for backend in _list_backends():
        due = [(action.start, group, action) for group, action in _list_actions(backend) if action.start <= moment]
        for start, group, action in sorted(due, key=lambda due_action: due_action[0]):
            get_state(backend, Actions).of_group[group].pop(action.name)
            cause = f"in response to the scheduled action {action.name} at {start:%Y-%m-%dT%H:%M:%SZ}"
            group_calls.update_group(backend.autoscaling_groups[group], action.sizes, cause)


def _list_backends() -> Iterator[Any]:
    for regions in list(get_backend("autoscaling").values()):
        yield from list(regions.values())


def _list_actions(backend: Any) -> list[tuple[str, Action]]:
    """Return the actions of existing groups, and drop the actions of deleted groups."""
    of_group = get_state(backend, Actions).of_group
    for name in [name for name in of_group if name not in backend.autoscaling_groups]:
        del of_group[name]
    return [(group, action) for group, actions in of_group.items() for action in actions.values()]


def _describe(call: Call, group: str, action: Action) -> dict[str, Any]:
    place = f"autoScalingGroupName/{group}:scheduledActionName/{action.name}"
    return {
        "AutoScalingGroupName": group,
        "ScheduledActionName": action.name,
        "ScheduledActionARN": f"arn:aws:autoscaling:{call.region}:{call.account}:scheduledUpdateGroupAction:*:{place}",
        "StartTime": action.start,
        "Time": action.start,
        **action.sizes,
    }


def _to_utc(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
