"""Validation of Auto Scaling groups.

https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_CreateAutoScalingGroup.html
"""

from collections.abc import Mapping
from typing import Any

from localcloud.aws.autoscaling import launch_data
from localcloud.aws.autoscaling.errors import build_validation_error
from localcloud.aws.autoscaling.spreading import TERMINATION_POLICIES
from localcloud.aws.autoscaling.tags import check_tags
from localcloud.aws.ec2 import launch, placement_groups
from localcloud.aws.ec2.launch_templates import find_specified_version

LAUNCH_TIME_CODES = frozenset(
    {
        "InsufficientFreeAddressesInSubnet",
        "InsufficientInstanceCapacity",
        "InvalidPlacementGroup.InUse",
        "MaxSpotInstanceCountExceeded",
        "NetworkInterfaceLimitExceeded",
        "ReservationCapacityExceeded",
        "Unsupported",
        "VcpuLimitExceeded",
        "VolumeLimitExceeded",
    }
)
"""EC2 errors that depend on the zone and the time of a launch.

Auto Scaling creates the group despite these errors, but cannot launch its instances.
"""
HEALTH_CHECKS = ("EC2", "ELB", "VPC_LATTICE", "EBS")


def check_name(backend: Any, name: str | None) -> None:
    if not name:
        raise build_validation_error("AutoScalingGroup name must be specified")
    if len(name) > 255 or ":" in name:
        raise build_validation_error(f"AutoScalingGroup name '{name}' is not valid. Use at most 255 characters and no colon.")


def check_sizes(least: int, desired: int | None, most: int) -> None:
    if least < 0 or most < 0:
        raise build_validation_error("Min and max size must not be negative")
    if most < least:
        raise build_validation_error(f"Max bound, {most}, must be greater than or equal to min bound, {least}")
    if desired is not None and not least <= desired <= most:
        raise build_validation_error(
            f"Desired capacity:{desired} must be between the specified min size:{least} and max size:{most}"
        )


def check_settings(ec2: Any, params: Mapping[str, Any]) -> None:
    """Check the settings that both creation and update accept."""
    if params.get("VPCZoneIdentifier"):
        _check_subnets(ec2, [subnet_id.strip() for subnet_id in params["VPCZoneIdentifier"].split(",")])
    for policy in params.get("TerminationPolicies", ()):
        if policy not in TERMINATION_POLICIES and not policy.startswith("arn:"):
            raise build_validation_error(f"The specified TerminationPolicy is not valid: {policy}")
    for check in (params.get("HealthCheckType") or "EC2").split(","):
        if check not in HEALTH_CHECKS:
            raise build_validation_error(f"Valid HealthCheckTypes are: [{', '.join(HEALTH_CHECKS)}], not {check}")
    if params.get("PlacementGroup") and not any(
        group.name == params["PlacementGroup"] for group in placement_groups.list_groups(ec2)
    ):
        raise build_validation_error(f"Placement group '{params['PlacementGroup']}' does not exist")
    check_tags(params.get("Tags", ()))


def _check_subnets(ec2: Any, ids: list[str]) -> None:
    subnets_by_id = {subnet_id: subnet for zone in ec2.subnets.values() for subnet_id, subnet in zone.items()}
    for subnet_id in ids:
        if subnet_id not in subnets_by_id:
            raise build_validation_error(f"The subnet ID '{subnet_id}' does not exist")
    if len({subnets_by_id[subnet_id].vpc_id for subnet_id in ids}) > 1:
        raise build_validation_error("The subnets specified are not in the same VPC")


def check_launch_template(ec2: Any, params: Mapping[str, Any]) -> None:
    """Check that the launch template and its version exist."""
    specification = params.get("LaunchTemplate")
    mixed = params.get("MixedInstancesPolicy")
    if mixed:
        specification = (mixed.get("LaunchTemplate") or {}).get("LaunchTemplateSpecification")
        if not specification:
            raise build_validation_error("A MixedInstancesPolicy must have a launch template")
    if not specification:
        return
    if bool(specification.get("LaunchTemplateId")) == bool(specification.get("LaunchTemplateName")):
        raise build_validation_error("Valid requests must contain either launchTemplateId or LaunchTemplateName")
    try:
        find_specified_version(ec2, specification)
    except Exception as error:
        raise _to_template_error(error) from error


def check_launch(group: Any) -> None:
    """Check that EC2 can launch an instance of the group, as Auto Scaling does before it creates or changes a group."""
    place = launch_data.list_launch_places(group)[0]
    try:
        data = launch_data.build_launch_data(
            group, place, launch_data.read_overrides(group)[0], launch_data.must_launch_spot(group, 0, 0)
        )
        launch.plan(group.ec2_backend, data, 1)
    except Exception as error:
        if getattr(error, "code", None) in LAUNCH_TIME_CODES:
            return
        raise _to_template_error(error) from error


def _to_template_error(error: Exception) -> Exception:
    if not hasattr(error, "code") or not hasattr(error, "message"):
        return error
    return build_validation_error(f"You must use a valid fully-formed launch template. {error.message}")
