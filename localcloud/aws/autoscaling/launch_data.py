"""Launch data of a group in EC2's format, built from its launch template, overrides or launch configuration."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from localcloud.aws.autoscaling.spreading import Place
from localcloud.aws.ec2 import launch


def list_launch_places(group: Any) -> list[Place]:
    """Return the group's subnets in listed order or, if it has no subnets, its zones."""
    if group.vpc_zone_identifier:
        subnets = [group.ec2_backend.get_subnet(subnet_id.strip()) for subnet_id in group.vpc_zone_identifier.split(",")]
        return [Place(subnet.availability_zone, subnet.id) for subnet in subnets]
    return [Place(zone, None) for zone in group.availability_zones]


def read_overrides(group: Any) -> Sequence[Mapping[str, Any]]:
    """Return the overrides (instance types) of a mixed instances group, preferred type first.

    Other groups have one empty override.
    """
    mixed = group.mixed_instances_policy or {}
    return mixed.get("LaunchTemplate", {}).get("Overrides") or ({},)


def compute_target_instance_count(group: Any) -> int:
    """Return the number of instances that make up the desired capacity.

    An instance refresh may need extra instances (`launched_first`), which the module `capacity` launches in addition.
    """
    weight = int(read_overrides(group)[0].get("WeightedCapacity", "1") or 1)
    return math.ceil((group.desired_capacity or 0) / max(weight, 1))


def must_launch_spot(group: Any, on_demand: int, spot: int) -> bool:
    """Return whether the next instance must be a Spot Instance, given the current numbers of both kinds."""
    mixed = group.mixed_instances_policy
    if not mixed:
        return False
    distribution = mixed.get("InstancesDistribution") or {}
    base = int(distribution.get("OnDemandBaseCapacity", 0) or 0)
    percent = int(distribution.get("OnDemandPercentageAboveBaseCapacity", 100))
    if on_demand < base:
        return False
    above = on_demand - base + spot + 1
    return on_demand - base >= math.ceil(above * percent / 100)


def get_template_version(group: Any) -> Any:
    """Return the launch template version for new instances, or None for a launch configuration."""
    template = group.ec2_launch_template
    return template.get_version(group.launch_template_version) if template else None


def build_launch_data(group: Any, place: Place, override: Mapping[str, Any], spot: bool) -> dict[str, Any]:
    """Return the launch data for one instance in one subnet or zone."""
    version = get_template_version(group)
    if version is None:
        data = _read_configuration(group.launch_config)
    else:
        specification = override.get("LaunchTemplateSpecification") or {
            "LaunchTemplateId": version.template.id,
            "Version": str(version.number),
        }
        data = launch.merge_template(group.ec2_backend, {"LaunchTemplate": specification})
    if override.get("InstanceType"):
        data["InstanceType"] = override["InstanceType"]
    if spot:
        data["InstanceMarketOptions"] = {"MarketType": "spot"}
    placement = dict(data.get("Placement") or {})
    if group.placement_group:
        placement["GroupName"] = group.placement_group
    if place.subnet_id is None:
        placement["AvailabilityZone"] = place.zone
    else:
        placement.pop("AvailabilityZone", None)
        data = _set_subnet(data, place.subnet_id)
    return {**data, "Placement": placement}


def _set_subnet(data: Mapping[str, Any], subnet_id: str) -> dict[str, Any]:
    """Return the launch data with the group's subnet.

    If the data contains network interfaces, the subnet is set on each of them, because EC2 then rejects an
    instance-level subnet.
    """
    interfaces = data.get("NetworkInterfaces")
    if not interfaces:
        return {**data, "SubnetId": subnet_id}
    return {**data, "NetworkInterfaces": [{**item, "SubnetId": subnet_id} for item in interfaces]}


def _read_configuration(configuration: Any) -> dict[str, Any]:
    data: dict[str, Any] = {
        "ImageId": configuration.image_id,
        "InstanceType": configuration.instance_type,
        "KeyName": configuration.key_name,
        "UserData": str(configuration.user_data) if configuration.user_data else None,
        "EbsOptimized": configuration.ebs_optimized,
        "Monitoring": {"Enabled": bool(configuration.instance_monitoring_enabled)},
        "MetadataOptions": configuration.metadata_options,
        "BlockDeviceMappings": configuration.block_device_mapping_dict or [],
    }
    groups = [str(group) for group in configuration.security_groups]
    if configuration.associate_public_ip_address:
        data["NetworkInterfaces"] = [{"DeviceIndex": 0, "AssociatePublicIpAddress": True, "Groups": groups}]
    else:
        data["SecurityGroupIds"] = [group for group in groups if group.startswith("sg-")]
        data["SecurityGroups"] = [group for group in groups if not group.startswith("sg-")]
    profile = configuration.iam_instance_profile
    if profile:
        data["IamInstanceProfile"] = {"Arn" if str(profile).startswith("arn:") else "Name": profile}
    if configuration.spot_price:
        data["InstanceMarketOptions"] = {"MarketType": "spot"}
    return {key: value for key, value in data.items() if value is not None}
