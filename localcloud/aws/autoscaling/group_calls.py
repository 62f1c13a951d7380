"""Operations on groups.

https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_CreateAutoScalingGroup.html
"""

from collections.abc import Mapping
from typing import Any

from localcloud.aws import durations
from localcloud.aws.autoscaling import activities, capacity, group_events, hook_calls, hooks, refresh_log
from localcloud.aws.autoscaling.errors import build_validation_error, find_group
from localcloud.aws.autoscaling.group_checks import check_launch, check_launch_template, check_name, check_settings, check_sizes
from localcloud.aws.autoscaling.group_view import describe_group, describe_instance
from localcloud.aws.call import Call
from localcloud.aws.ec2.filters import filter_items, select_page
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

_EXTRA = {
    "MaxInstanceLifetime": "max_instance_lifetime",
    "DefaultInstanceWarmup": "default_instance_warmup",
    "Context": "context",
    "DesiredCapacityType": "desired_capacity_type",
    "InstanceMaintenancePolicy": "instance_maintenance_policy",
    "AvailabilityZoneDistribution": "zone_distribution",
    "CapacityReservationSpecification": "capacity_reservation_specification",
}
"""Maps a parameter that moto drops to the attribute of moto's group object in which this module stores the value."""


@operation("autoscaling", "CreateAutoScalingGroup")
def create_auto_scaling_group(call: Call) -> None:
    create_group(call.backend, call.params)


def create_group(backend: Any, params: Mapping[str, Any]) -> Any:
    """Create a group as CreateAutoScalingGroup does, and return moto's object for it."""
    name = params.get("AutoScalingGroupName")
    check_name(backend, name)
    if name in backend.autoscaling_groups:
        raise AwsError(
            "AlreadyExists", f"AutoScalingGroup by this name already exists - A group with the name {name} already exists"
        )
    for size in ("MinSize", "MaxSize"):
        if size not in params:
            raise build_validation_error(f"{size} must be specified")
    check_sizes(params["MinSize"], params.get("DesiredCapacity"), params["MaxSize"])
    ec2 = backend.ec2_backend
    check_settings(ec2, params)
    check_launch_template(ec2, params)
    configuration = params.get("LaunchConfigurationName")
    if configuration and configuration not in backend.launch_configurations:
        raise _build_missing_configuration_error(configuration)
    group = _create_group_object(backend, params)
    try:
        check_launch(group)
        for hook in params.get("LifecycleHookSpecificationList", ()):
            hooks.put_hook(backend, group.name, dict(hook))
    except Exception:
        hooks.delete_hooks(backend, group.name)
        del backend.autoscaling_groups[group.name]
        raise
    _store_extra_settings(group, params)
    group_events.publish_group_event("created", group)
    moment = activities.format_current_time()
    text = (
        f"in response to a user request at {moment}, which created an AutoScalingGroup changing the desired capacity "
        f"from 0 to {group.desired_capacity}"
    )
    capacity.adjust_instances(group, text)
    return group


def _create_group_object(backend: Any, params: Mapping[str, Any]) -> Any:
    """Create moto's object for the group, without instances yet."""
    return backend.create_auto_scaling_group(
        name=params["AutoScalingGroupName"],
        availability_zones=params.get("AvailabilityZones", []),
        desired_capacity=params.get("DesiredCapacity"),
        max_size=params["MaxSize"],
        min_size=params["MinSize"],
        instance_id=params.get("InstanceId"),
        launch_config_name=params.get("LaunchConfigurationName"),
        launch_template=params.get("LaunchTemplate", {}),
        mixed_instances_policy=params.get("MixedInstancesPolicy"),
        vpc_zone_identifier=params.get("VPCZoneIdentifier"),
        default_cooldown=params.get("DefaultCooldown"),
        health_check_period=params.get("HealthCheckGracePeriod"),
        health_check_type=params.get("HealthCheckType"),
        load_balancers=params.get("LoadBalancerNames", []),
        target_group_arns=params.get("TargetGroupARNs", []),
        placement_group=params.get("PlacementGroup"),
        termination_policies=params.get("TerminationPolicies", []),
        tags=[dict(tag) for tag in params.get("Tags", [])],
        capacity_rebalance=params.get("CapacityRebalance", False),
        new_instances_protected_from_scale_in=params.get("NewInstancesProtectedFromScaleIn", False),
    )


def _build_missing_configuration_error(name: str) -> AwsError:
    return build_validation_error(
        f"Launch configuration name not found - A launch configuration with the name: {name} does not exist"
    )


def _store_extra_settings(group: Any, params: Mapping[str, Any]) -> None:
    for parameter, attribute in _EXTRA.items():
        if parameter in params:
            setattr(group, attribute, params[parameter])


@operation("autoscaling", "UpdateAutoScalingGroup")
def update_auto_scaling_group(call: Call) -> None:
    update_group(find_group(call.backend, call.params.get("AutoScalingGroupName")), call.params)


_BY_USER = "in response to a user request, which updated the AutoScalingGroup"


def update_group(group: Any, params: Mapping[str, Any], cause: str = _BY_USER) -> None:
    """Update a group as UpdateAutoScalingGroup does. Omitted settings stay unchanged."""
    least, most = params.get("MinSize", group.min_size), params.get("MaxSize", group.max_size)
    desired = params.get("DesiredCapacity")
    check_sizes(least, desired, most)
    check_settings(group.ec2_backend, params)
    check_launch_template(group.ec2_backend, params)
    sources = [name for name in ("LaunchTemplate", "LaunchConfigurationName", "MixedInstancesPolicy") if params.get(name)]
    if len(sources) > 1:
        raise build_validation_error(
            "Valid requests must contain either LaunchTemplate, LaunchConfigurationName or MixedInstancesPolicy parameter."
        )
    before = dict(vars(group))
    try:
        if params.get("AvailabilityZones") or params.get("VPCZoneIdentifier"):
            group._set_azs_and_vpcs(params.get("AvailabilityZones", []), params.get("VPCZoneIdentifier"), update=True)
        if sources:
            _change_launch_source(group, sources[0], params)
            check_launch(group)
    except Exception:
        vars(group).clear()
        vars(group).update(before)
        raise
    group.min_size, group.max_size = least, most
    for parameter, attribute in _SIMPLE.items():
        if parameter in params:
            setattr(group, attribute, params[parameter])
    _store_extra_settings(group, params)
    group.desired_capacity = desired if desired is not None else min(max(group.desired_capacity, least), most)
    capacity.adjust_instances(group, cause)
    group_events.publish_group_event("changed", group)


_SIMPLE = {
    "DefaultCooldown": "default_cooldown",
    "HealthCheckGracePeriod": "health_check_grace_period",
    "HealthCheckType": "health_check_type",
    "NewInstancesProtectedFromScaleIn": "new_instances_protected_from_scale_in",
    "PlacementGroup": "placement_group",
    "TerminationPolicies": "termination_policies",
    "CapacityRebalance": "capacity_rebalance",
}


def _change_launch_source(group: Any, source: str, params: Mapping[str, Any]) -> None:
    if source == "LaunchConfigurationName":
        if params[source] not in group.autoscaling_backend.launch_configurations:
            raise _build_missing_configuration_error(params[source])
        group.ec2_launch_template = None
    else:
        group.launch_config = None
    group.mixed_instances_policy = params.get("MixedInstancesPolicy")
    group._set_launch_configuration(
        params.get("LaunchConfigurationName"), params.get("LaunchTemplate", {}), params.get("MixedInstancesPolicy")
    )


@operation("autoscaling", "DeleteAutoScalingGroup")
def delete_auto_scaling_group(call: Call) -> None:
    group = find_group(call.backend, call.params.get("AutoScalingGroupName"))
    delete_group(group, bool(call.params.get("ForceDelete")))


def delete_group(group: Any, force: bool) -> None:
    """Delete a group. With `force`, terminate its instances too."""
    if group.instance_states and not force:
        raise AwsError(
            "ResourceInUse",
            "You cannot delete an AutoScalingGroup while there are instances or pending Spot instance request(s) "
            "still in the group.",
        )
    group.min_size = group.max_size = group.desired_capacity = 0
    hooks.delete_hooks(group.autoscaling_backend, group.name)
    if not group.instance_states:
        _remove_group(group)
        return
    for state in list(group.instance_states):
        if state.lifecycle_state != "Terminating":
            hooks.cancel_waiting(state)
            capacity.start_termination(group, state, f"At {activities.format_current_time()} the AutoScalingGroup was deleted.")
    failed = durations.make_failure_handler(group, "status", None)
    durations.schedule(
        group, "status", "Delete in progress", None, "autoscaling-group-delete", then=lambda: _remove_group(group), fail=failed
    )


def _remove_group(group: Any) -> None:
    backend = group.autoscaling_backend
    backend.autoscaling_groups.pop(group.name, None)
    activities.delete_activities(backend, group.name)
    refresh_log.delete_refreshes(backend, group.name)
    group_events.publish_group_event("gone", group)


@operation("autoscaling", "SetDesiredCapacity")
def set_desired_capacity(call: Call) -> None:
    group, desired = find_group(call.backend, call.params.get("AutoScalingGroupName")), call.params["DesiredCapacity"]
    if desired > group.max_size:
        raise build_validation_error(
            f"New SetDesiredCapacity value {desired} is above max value {group.max_size} for the AutoScalingGroup."
        )
    if desired < group.min_size:
        raise build_validation_error(
            f"New SetDesiredCapacity value {desired} is below min value {group.min_size} for the AutoScalingGroup."
        )
    before, group.desired_capacity = group.desired_capacity, desired
    text = f"in response to a user request, which changed the desired capacity from {before} to {desired}"
    capacity.adjust_instances(group, text)


@operation("autoscaling", "TerminateInstanceInAutoScalingGroup")
def terminate_instance_in_auto_scaling_group(call: Call) -> dict[str, Any]:
    instance_id, decrement = call.params.get("InstanceId"), call.params.get("ShouldDecrementDesiredCapacity", False)
    for group in call.backend.autoscaling_groups.values():
        for state in group.instance_states:
            if state.instance_id == instance_id:
                return {"Activity": _terminate_member(group, state, decrement)}
    raise build_validation_error(f"Instance Id not found - No managed instance found for instance ID: {instance_id}")


@operation("autoscaling", "SetInstanceHealth")
def set_instance_health(call: Call) -> None:
    """https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_SetInstanceHealth.html"""
    instance_id, health = call.params["InstanceId"], call.params["HealthStatus"]
    if health not in ("Healthy", "Unhealthy"):
        raise build_validation_error(f"Health status must be one of [Healthy, Unhealthy], not {health}")
    states = [state for group in call.backend.autoscaling_groups.values() for state in group.instance_states]
    managed_state = next((state for state in states if state.instance_id == instance_id), None)
    if managed_state is None:
        raise build_validation_error(f"Instance Id not found - No managed instance found for instance ID: {instance_id}")
    managed_state.health_status = health
    if health == "Unhealthy":
        capacity.replace_unhealthy_instances(call.backend, [instance_id])


def _terminate_member(group: Any, state: Any, decrement: bool) -> dict[str, Any]:
    before = group.desired_capacity
    now = activities.format_current_time()
    text = f"At {now} instance {state.instance_id} was taken out of service in response to a user request"
    if decrement:
        if before <= group.min_size:
            raise build_validation_error(
                f"Currently, desiredSize equals minSize ({group.min_size}). Terminating instance without replacement will "
                "violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false "
                "or lower group's min size."
            )
        group.desired_capacity = before - 1
        text += f", shrinking the capacity from {before} to {group.desired_capacity}"
    activity = capacity.start_termination(group, state, f"{text}.")
    capacity.adjust_instances(group, "in response to a difference between desired and actual capacity")
    return activity.describe()


@operation("autoscaling", "DescribeAutoScalingGroups")
def describe_auto_scaling_groups(call: Call) -> dict[str, Any]:
    hook_calls.complete_overdue_actions(call.backend)
    params, all_groups = call.params, call.backend.autoscaling_groups
    names = params.get("AutoScalingGroupNames")
    groups = [group for name, group in all_groups.items() if not names or name in names]
    groups = filter_items(groups, params.get("Filters"), {}, lambda group: {tag["Key"]: tag["Value"] for tag in group.tags})
    groups, token = select_page(groups, {"MaxResults": params.get("MaxRecords", 50), "NextToken": params.get("NextToken")})
    return {"AutoScalingGroups": [describe_group(group) for group in groups], **token}


@operation("autoscaling", "DescribeAutoScalingInstances")
def describe_auto_scaling_instances(call: Call) -> dict[str, Any]:
    hook_calls.complete_overdue_actions(call.backend)
    ids = call.params.get("InstanceIds")
    states = [state for group in call.backend.autoscaling_groups.values() for state in group.instance_states]
    states = [state for state in states if not ids or state.instance_id in ids]
    states, token = select_page(
        states, {"MaxResults": call.params.get("MaxRecords", 50), "NextToken": call.params.get("NextToken")}
    )
    return {"AutoScalingInstances": [describe_instance(state) for state in states], **token}


@operation("autoscaling", "DescribeTrafficSources")
def describe_traffic_sources(call: Call) -> dict[str, Any]:
    group, kind = find_group(call.backend, call.params.get("AutoScalingGroupName")), call.params.get("TrafficSourceType")
    sources = describe_group(group)["TrafficSources"]
    return {"TrafficSources": [{**source, "State": "InService"} for source in sources if kind in (None, source["Type"])]}
