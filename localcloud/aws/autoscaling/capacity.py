"""Reconcile a group's instances with its desired capacity: launch instances across zones, scale in, and replace lost
instances."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from moto.autoscaling.models import ASG_NAME_TAG, FakeAutoScalingGroup, InstanceState

from localcloud.aws import durations
from localcloud.aws.autoscaling import activities, group_events, hooks, launch_data, volume_keys
from localcloud.aws.autoscaling.activities import Activity
from localcloud.aws.autoscaling.spreading import Member, Place, choose_instances_to_terminate, order_places
from localcloud.aws.ec2 import instance_events, launch
from localcloud.aws.ec2.instances import LaunchedInstance
from localcloud.aws.errors import AwsError

LAUNCHING = hooks.LAUNCHING
TERMINATING = hooks.TERMINATING
COUNTED = ("Pending", "Pending:Wait", "Pending:Proceed", "InService", "Quarantined")
"""Lifecycle states of instances that count toward a group's capacity."""
LEAVING = ("Terminating", "Terminating:Wait", "Terminating:Proceed", "Terminated")


def extend_moto() -> None:
    """Replace moto's scaling methods for Auto Scaling groups with the functions of this module."""
    group: Any = FakeAutoScalingGroup
    group.set_desired_capacity = _set_desired_capacity
    group.replace_autoscaling_group_instances = lambda self, count, tags: adjust_instances(self, _format_default_cause())


def _set_desired_capacity(group: Any, capacity: int | None) -> None:
    """Set the desired capacity, and adjust the instances if the group is already registered with moto."""
    group.desired_capacity = group.min_size if capacity is None else capacity
    if group.name in group.autoscaling_backend.autoscaling_groups:
        adjust_instances(group, _format_default_cause())


def _format_default_cause() -> str:
    return "in response to a difference between desired and actual capacity"


def list_members(group: Any, states: Sequence[str] = COUNTED) -> list[Any]:
    return [state for state in group.instance_states if state.lifecycle_state in states]


def adjust_instances(group: Any, cause: str) -> list[Activity]:
    """Launch missing instances or terminate surplus ones, and return the resulting activities.

    AWS retries a failed launch at growing intervals; the local AWS retries it the next time the group changes.
    """
    suspended = {process["ProcessName"] for process in group.suspended_processes}
    before, target = (
        len(list_members(group)),
        launch_data.compute_target_instance_count(group) + getattr(group, "launched_first", 0),
    )
    done: list[Activity] = []
    if before < target and "Launch" not in suspended:
        done = _launch_missing_instances(group, target, cause)
    elif before > target and "Terminate" not in suspended:
        done = _terminate_surplus_instances(group, before - target, cause)
    _update_load_balancer_targets(group)
    if done:
        group_events.publish_group_event("changed", group)
    return done


def _launch_missing_instances(group: Any, target: int, cause: str) -> list[Activity]:
    done: list[Activity] = []
    failed: set[Place] = set()
    while (present := len(list_members(group))) < target:
        counted = [state.instance for state in list_members(group)]
        order = order_places(
            [place for place in launch_data.list_launch_places(group) if place not in failed],
            [instance.placement.zone for instance in counted],
            [instance.subnet_id for instance in counted],
        )
        if not order:
            break
        now = activities.format_current_time()
        text = f"At {now} an instance was started {cause}, increasing the capacity from {present} to {target}."
        activity = _launch_instance(group, order[0], text)
        done.append(activity)
        if activity.status == "Failed":
            failed.add(order[0])
    return done


def _launch_instance(group: Any, place: Place, cause: str) -> Activity:
    """Launch one instance in the subnet or zone, with the first instance type that EC2 can launch there."""
    instances = [state.instance for state in list_members(group)]
    spots = sum(instance.lifecycle == "spot" for instance in instances)
    spot = launch_data.must_launch_spot(group, len(instances) - spots, spots)
    tags = {**group.get_propagated_tags(), ASG_NAME_TAG: group.name}
    refusal: Any = None
    for override in launch_data.read_overrides(group):
        try:
            data = launch_data.build_launch_data(group, place, override, spot)
            volume_keys.check_key_access(group.ec2_backend, data)
            return _record_launch(group, launch.launch(group.ec2_backend, data, 1, tags)[0], place, cause)
        except Exception as error:
            if not hasattr(error, "code") or not hasattr(error, "message"):
                raise
            refusal = error
    return _record_failed_launch(group, place, cause, refusal, spot)


def _record_launch(group: Any, instance: LaunchedInstance, place: Place, cause: str) -> Activity:
    activity = _create_activity(group, place, f"Launching a new EC2 instance: {instance.id}", cause)
    instance.autoscaling_group = group  # type: ignore[attr-defined]
    state: Any = InstanceState(instance, "Pending", protected_from_scale_in=group.new_instances_protected_from_scale_in)
    state.template_version = instance.launch_template_version
    state.activity = activity
    group.instance_states.append(state)
    instance_events.publish_instance_event("created", instance)
    running, failed = partial(_handle_running, group, state), partial(_record_failure, state)
    durations.schedule(state, "is_running", False, True, "ec2-instance", then=running, fail=failed)
    return activity


def _record_failed_launch(group: Any, place: Place, cause: str, refusal: Any, spot: bool) -> Activity:
    message = str(refusal.message)
    if group.mixed_instances_policy:
        message = f"Could not launch {'Spot' if spot else 'On-Demand'} Instances. {refusal.code} - {message}"
    message = f"{message.rstrip('.')}. Launching EC2 instance failed."
    activity = _create_activity(group, place, f"Launching a new EC2 instance.  Status Reason: {message}", cause)
    activity.message, activity.error_code = message, refusal.code
    activity.end("Failed")
    return activity


def _record_failure(state: Any, reason: str) -> None:
    """Record that the instance's launch or termination failed."""
    state.activity.message, state.activity.error_code = reason, "InternalError"
    state.activity.end("Failed")


def _create_activity(group: Any, place: Place, description: str, cause: str) -> Activity:
    activity = Activity(group.name, group.arn, description, cause, zone=place.zone, subnet_id=place.subnet_id)
    return activities.record_activity(group.autoscaling_backend, activity)


def _handle_running(group: Any, state: Any) -> None:
    """Make a newly running instance wait for the group's launch hooks, or put it in service if there are none."""
    if state.lifecycle_state != "Pending":
        return  # already terminating
    instance_events.publish_instance_event("changed", state.instance)
    if hooks.start_waiting(group, state, LAUNCHING):
        state.lifecycle_state, state.activity.status = "Pending:Wait", "MidLifecycleAction"
    else:
        put_in_service(group, state)


def put_in_service(group: Any, state: Any) -> None:
    state.lifecycle_state = "InService"
    state.activity.end()
    _update_load_balancer_targets(group)
    group_events.publish_group_event("changed", group)


def _terminate_surplus_instances(group: Any, count: int, cause: str) -> list[Activity]:
    states = {
        state.instance_id: state
        for state in list_members(group)
        if state.lifecycle_state in ("Pending", "Pending:Wait", "InService")
    }
    chosen = choose_instances_to_terminate([_to_member(state) for state in states.values()], count, group.termination_policies)
    left = len(list_members(group))
    done = []
    for instance_id in chosen:
        left -= 1
        text = f"At {activities.format_current_time()} an instance was taken out of service {cause}"
        done.append(start_termination(group, states[instance_id], f"{text}, shrinking the capacity from {left + 1} to {left}."))
    return done


def _to_member(state: Any) -> Member:
    instance, version = state.instance, getattr(state, "template_version", None)
    return Member(
        id=instance.id,
        zone=instance.placement.zone,
        launched=instance.launch_time,
        template_version=version.number if version is not None else 0,
        protected=bool(state.protected_from_scale_in),
    )


def start_termination(group: Any, state: Any, cause: str) -> Activity:
    """Start terminating an instance of the group. The group's termination hooks delay the termination."""
    place = Place(state.instance.placement.zone, state.instance.subnet_id)
    activity = _create_activity(group, place, f"Terminating EC2 instance: {state.instance_id}", cause)
    hooks.cancel_waiting(state)
    state.activity = activity
    if state.instance.state in ("running", "pending") and hooks.start_waiting(group, state, TERMINATING):
        state.lifecycle_state, activity.status = "Terminating:Wait", "MidLifecycleAction"
    else:
        terminate_instance(group, state)
    return activity


def terminate_instance(group: Any, state: Any) -> None:
    state.lifecycle_state = "Terminating"
    instance_events.terminate([state.instance])
    _mark_terminating(group, state)


def _mark_terminating(group: Any, state: Any) -> None:
    gone, failed = partial(_mark_terminated, group, state), partial(_record_failure, state)
    durations.schedule(state, "is_running", False, False, "ec2-instance-terminate", then=gone, fail=failed)


def _mark_terminated(group: Any, state: Any) -> None:
    state.lifecycle_state = "Terminated"
    if state in group.instance_states:
        group.instance_states.remove(state)
    state.activity.end()


def replace_unhealthy_instances(backend: Any, ids: Sequence[str]) -> None:
    """Replace instances that stopped running or were reported unhealthy.

    https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-health-checks.html
    """
    for group in list(backend.autoscaling_groups.values()):
        if "ReplaceUnhealthy" in {process["ProcessName"] for process in group.suspended_processes}:
            continue
        lost = [state for state in group.instance_states if state.instance_id in ids and state.lifecycle_state not in LEAVING]
        for state in lost:
            state.health_status = "Unhealthy"
            now = activities.format_current_time()
            text = f"At {now} an instance was taken out of service in response to an EC2 instance health check"
            start_termination(group, state, f"{text} failure.")
        if lost:
            adjust_instances(group, "in response to an EC2 instance health check failure")


def replace_terminated_instances(backend: Any, ids: Sequence[str]) -> None:
    """Replace instances that were terminated directly in EC2."""
    for group in list(backend.autoscaling_groups.values()):
        lost = [state for state in group.instance_states if state.instance_id in ids and state.lifecycle_state not in LEAVING]
        for state in lost:
            text = (
                f"At {activities.format_current_time()} an instance was taken out of service in response to an EC2 health check "
                "indicating it has been terminated or stopped."
            )
            place = Place(state.instance.placement.zone, state.instance.subnet_id)
            hooks.cancel_waiting(state)
            state.activity = _create_activity(group, place, f"Terminating EC2 instance: {state.instance_id}", text)
            state.health_status, state.lifecycle_state = "Unhealthy", "Terminating"
            _mark_terminating(group, state)
        if lost:
            adjust_instances(group, "in response to an EC2 instance health check failure")


def _update_load_balancer_targets(group: Any) -> None:
    """Update the targets of the attached load balancers, as moto does."""
    backend = group.autoscaling_backend
    if group.name in backend.autoscaling_groups:
        backend.update_attached_elbs(group.name)
        backend.update_attached_target_groups(group.name)


def list_recent_errors(group: Any) -> list[AwsError]:
    """Return the errors of the group's activities since its last activity without an error, newest first."""
    errors = []
    for activity in activities.find_activities(group.autoscaling_backend, group.name):
        if activity.error_code is None:
            break
        errors.append(AwsError(activity.error_code, str(activity.message)))
    return errors
