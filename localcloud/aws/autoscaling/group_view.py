"""Auto Scaling groups and their instances in the format of the Describe operations."""

from typing import Any

from localcloud.aws.autoscaling import launch_data


def describe_group(group: Any) -> dict[str, Any]:
    """Return the group in the format of DescribeAutoScalingGroups."""
    template = group.ec2_launch_template
    mixed = group.mixed_instances_policy
    return {
        "AutoScalingGroupName": group.name,
        "AutoScalingGroupARN": group.arn,
        "LaunchConfigurationName": group.launch_config.name if group.launch_config else None,
        "LaunchTemplate": _describe_launch_template(group) if template and not mixed else None,
        "MixedInstancesPolicy": mixed or None,
        "MinSize": group.min_size,
        "MaxSize": group.max_size,
        "DesiredCapacity": group.desired_capacity,
        "DefaultCooldown": group.default_cooldown,
        "AvailabilityZones": sorted(set(group.availability_zones)),
        "LoadBalancerNames": group.load_balancer_names,
        "TargetGroupARNs": group.target_group_arns,
        "HealthCheckType": group.health_check_type,
        "HealthCheckGracePeriod": group.health_check_grace_period,
        "Instances": [_describe_member(state) for state in group.instance_states],
        "CreatedTime": group.created_time,
        "SuspendedProcesses": [
            {"ProcessName": process["ProcessName"], "SuspensionReason": "User suspended"} for process in group.suspended_processes
        ],
        "PlacementGroup": group.placement_group,
        "VPCZoneIdentifier": group.vpc_zone_identifier or "",
        "EnabledMetrics": group.enabled_metrics,
        "Status": getattr(group, "status", None),
        "Tags": group.tags,
        "TerminationPolicies": group.termination_policies,
        "NewInstancesProtectedFromScaleIn": bool(group.new_instances_protected_from_scale_in),
        "ServiceLinkedRoleARN": group.service_linked_role_arn,
        "CapacityRebalance": group.capacity_rebalance or None,
        "MaxInstanceLifetime": getattr(group, "max_instance_lifetime", None),
        "DefaultInstanceWarmup": getattr(group, "default_instance_warmup", None),
        "Context": getattr(group, "context", None),
        "DesiredCapacityType": getattr(group, "desired_capacity_type", None),
        "InstanceMaintenancePolicy": getattr(group, "instance_maintenance_policy", None),
        "AvailabilityZoneDistribution": getattr(group, "zone_distribution", None)
        or {"CapacityDistributionStrategy": "balanced-best-effort"},
        "CapacityReservationSpecification": getattr(group, "capacity_reservation_specification", None)
        or {"CapacityReservationPreference": "default"},
        "WarmPoolConfiguration": _describe_warm_pool(group.warm_pool),
        "TrafficSources": describe_traffic_sources(group),
    }


def describe_traffic_sources(group: Any) -> list[dict[str, str]]:
    balancers = [{"Identifier": name, "Type": "elb"} for name in group.load_balancer_names]
    return balancers + [{"Identifier": arn, "Type": "elbv2"} for arn in group.target_group_arns]


def _describe_warm_pool(pool: Any) -> dict[str, Any] | None:
    if pool is None:
        return None
    return {
        "MaxGroupPreparedCapacity": pool.max_group_prepared_capacity,
        "MinSize": pool.min_size,
        "PoolState": pool.pool_state,
        "InstanceReusePolicy": pool.instance_reuse_policy,
    }


def _describe_launch_template(group: Any) -> dict[str, Any]:
    template = group.ec2_launch_template
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "Version": group.provided_launch_template_version,
    }


def describe_used_launch_template(state: Any) -> dict[str, str] | None:
    """Return the launch template version with which the instance was launched, if any."""
    version = getattr(state, "template_version", None)
    if version is None:
        return None
    return {"LaunchTemplateId": version.template.id, "LaunchTemplateName": version.template.name, "Version": str(version.number)}


def _describe_member(state: Any) -> dict[str, Any]:
    configuration = state.auto_scaling_group.launch_config
    return {
        "InstanceId": state.instance_id,
        "InstanceType": state.instance_type,
        "ImageId": state.instance.image_id,
        "AvailabilityZone": state.availability_zone,
        "LifecycleState": state.lifecycle_state,
        "HealthStatus": state.health_status,
        "LaunchTemplate": describe_used_launch_template(state),
        "LaunchConfigurationName": configuration.name if configuration else None,
        "ProtectedFromScaleIn": bool(state.protected_from_scale_in),
    }


def describe_instance(state: Any) -> dict[str, Any]:
    """Return the instance in the format of DescribeAutoScalingInstances."""
    return {
        **_describe_member(state),
        "AutoScalingGroupName": state.auto_scaling_group.name,
        "HealthStatus": state.health_status.upper(),
    }


def get_current_template_version(group: Any) -> int:
    version = launch_data.get_template_version(group)
    return int(version.number) if version is not None else 0
