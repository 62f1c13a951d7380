"""Instance launch: resolve and validate the whole request first, then create the instances.

Launch data has the same format as launch template data and the parameters of RunInstances. Auto Scaling and
RunInstances both launch through this module.
Errors: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from moto.ec2.models.instances import Reservation
from moto.ec2.utils import random_reservation_id

from localcloud.aws import faults, service_linked_roles
from localcloud.aws.call import Call, backend_of
from localcloud.aws.ec2 import image_calls, instance_types, launch_capacity, launch_interfaces, launch_volumes, limits, tagging
from localcloud.aws.ec2.instance_types import TypeFacts
from localcloud.aws.ec2.instances import LaunchedInstance
from localcloud.aws.ec2.launch_plan import Plan
from localcloud.aws.ec2.launch_templates import TAGGABLE, check_user_data, find_specified_version, to_boto_format
from localcloud.aws.ec2.refusals import build_invalid_value_error, build_missing_parameter_error
from localcloud.aws.ec2.zones import find_zone
from localcloud.aws.errors import AwsError

DEFAULT_TYPE = "m1.small"


def merge_template(backend: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """Merge launch data with the data of its launch template.

    Values in the launch data replace the template's values, but tags from both are combined.
    """
    specification = data.get("LaunchTemplate")
    if not specification:
        return dict(data)
    version = find_specified_version(backend, specification)
    own = {key: value for key, value in data.items() if key != "LaunchTemplate"}
    merged = {**to_boto_format(version.data), **own}
    merged["TagSpecifications"] = _merge_tags(version.data.get("TagSpecifications", ()), own.get("TagSpecifications", ()))
    merged["_template"] = version
    return merged


def _merge_tags(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    tags: dict[str, dict[str, str]] = {}
    for specification in (*first, *second):
        kind = tags.setdefault(specification["ResourceType"], {})
        kind.update({tag["Key"]: tag.get("Value", "") for tag in specification.get("Tags", ())})
    return [
        {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in of_kind.items()]}
        for kind, of_kind in tags.items()
        if kind in TAGGABLE
    ]


def plan(backend: Any, data: Mapping[str, Any], count: int) -> Plan:
    """Resolve and validate a launch without creating anything."""
    if not data.get("ImageId"):
        raise build_missing_parameter_error("ImageId")
    image = image_calls.find_launchable_image(backend, data["ImageId"])
    facts = _find_type_facts(backend, data.get("InstanceType") or DEFAULT_TYPE, image)
    _check_options(backend, data)
    subnet = _choose_subnet(backend, data, facts.name)
    zone = subnet.availability_zone
    requested_zone = (data.get("Placement") or {}).get("AvailabilityZone")
    if requested_zone and requested_zone != zone:
        raise AwsError(
            "InvalidParameterValue", f"The subnet '{subnet.id}' is in {zone}, not in the Availability Zone {requested_zone}."
        )
    launch_capacity.check_type_is_offered(backend.region_name, facts.name, zone)
    market = launch_capacity.read_market(data, facts)
    group = launch_capacity.find_placement_group(backend, data, facts, zone, count)
    reservation = launch_capacity.find_reservation(backend, data, facts, zone, group, market, count)
    interfaces = launch_interfaces.plan(backend, data, subnet, facts, count)
    limits.check_vcpu_quota(backend, facts, market, reservation, count)
    launch_capacity.check_free_capacity(backend.region_name, facts.name, zone, market, reservation)
    limits.check_interface_quota(backend, len(interfaces) * count)
    volumes = launch_volumes.plan(backend, data, image)
    limits.check_gp3_storage_quota(backend, sum(volume.size for volume in volumes if volume.type == "gp3") * count)
    return Plan(
        data=data,
        count=count,
        facts=facts,
        image=image,
        zone=zone,
        interfaces=interfaces,
        volumes=volumes,
        profile=_find_profile(backend, data.get("IamInstanceProfile") or {}),
        placement_group=group,
        market=market,
        reservation=reservation,
        tags=tagging.read_requested_tags(data.get("TagSpecifications"), *TAGGABLE),
    )


def _find_type_facts(backend: Any, name: str, image: Any) -> TypeFacts:
    facts = instance_types.find_type_facts(name)
    if facts is None or not instance_types.is_offered_in(backend.region_name, name):
        raise AwsError("InvalidParameterValue", f"Invalid value '{name}' for InstanceType.")
    if image.architecture not in facts.architectures:
        raise AwsError(
            "InvalidParameterValue",
            f"The architecture '{','.join(sorted(facts.architectures))}' of the specified instance type does not match "
            f"the architecture '{image.architecture}' of the specified AMI. Specify an instance type and an AMI that have "
            "matching architectures, and try again.",
        )
    return facts


def _check_options(backend: Any, data: Mapping[str, Any]) -> None:
    key = data.get("KeyName")
    if key and key not in backend.key_pairs:
        raise AwsError("InvalidKeyPair.NotFound", f"The key pair '{key}' does not exist")
    if data.get("UserData"):
        check_user_data(str(data["UserData"]))
    shutdown = data.get("InstanceInitiatedShutdownBehavior")
    if shutdown not in (None, "stop", "terminate"):
        raise build_invalid_value_error(shutdown, "instanceInitiatedShutdownBehavior", "It must be stop or terminate.")
    metadata = data.get("MetadataOptions") or {}
    if metadata.get("HttpTokens") not in (None, "optional", "required"):
        raise build_invalid_value_error(metadata["HttpTokens"], "httpTokens", "It must be optional or required.")
    if not 1 <= int(metadata.get("HttpPutResponseHopLimit", 1)) <= 64:
        raise build_invalid_value_error(
            metadata["HttpPutResponseHopLimit"], "httpPutResponseHopLimit", "It must be between 1 and 64."
        )


def _choose_subnet(backend: Any, data: Mapping[str, Any], name: str) -> Any:
    """Return the primary interface's subnet: the requested subnet, or a default subnet in a zone that offers the
    type."""
    specifications = data.get("NetworkInterfaces") or ()
    if specifications and data.get("SubnetId"):
        raise AwsError(
            "InvalidParameterCombination",
            "Network interfaces and an instance-level subnet ID may not be specified on the same request",
        )
    for item in specifications:
        if item.get("NetworkInterfaceId"):
            return backend.get_network_interface(item["NetworkInterfaceId"]).subnet
    subnet_id = next((item["SubnetId"] for item in specifications if item.get("SubnetId")), data.get("SubnetId"))
    if subnet_id:
        return backend.get_subnet(subnet_id)
    vpc = backend.get_default_vpc()
    if vpc is None:
        raise AwsError("VPCIdNotSpecified", "No default VPC for this user")
    requested = (data.get("Placement") or {}).get("AvailabilityZone")
    zone_name = find_zone(backend, requested).name if requested else None
    defaults = backend.get_default_subnets()
    offered = instance_types.find_offered_zones(backend.region_name).get(name, ())
    for zone in sorted(defaults, key=lambda zone: (zone not in offered, zone)):
        if zone_name in (None, zone):
            return defaults[zone]
    raise AwsError("MissingInput", f"No subnets found for the default VPC '{vpc.id}'. Please specify a subnet.")


def _find_profile(backend: Any, requested: Mapping[str, str]) -> Any:
    """Return moto's object for the requested instance profile, if any."""
    if not requested:
        return None
    parameter = "arn" if requested.get("Arn") else "name"
    value = requested.get("Arn") or requested.get("Name")
    for profile in backend_of("iam", backend.account_id, backend.region_name).instance_profiles.values():
        if value in (profile.arn if parameter == "arn" else profile.name,):
            if not profile.roles:
                raise build_invalid_value_error(
                    value, f"iamInstanceProfile.{parameter}", f'IAM Instance Profile "{profile.arn}" has no associated IAM Roles'
                )
            return profile
    raise build_invalid_value_error(value, f"iamInstanceProfile.{parameter}", f"Invalid IAM Instance Profile {parameter}")


def create_planned_instances(backend: Any, planned: Plan, more_tags: Mapping[str, str] | None = None) -> Reservation:
    """Create the planned instances. `more_tags`: tags that AWS itself adds."""
    template = planned.data.get("_template")
    own_tags = dict(more_tags or {})
    if template is not None:
        own_tags |= {"aws:ec2launchtemplate:id": template.template.id, "aws:ec2launchtemplate:version": str(template.number)}
    reservation = Reservation(random_reservation_id(), backend.account_id)
    backend.reservations[reservation.id] = reservation
    for index in range(planned.count):
        instance = cast(Any, LaunchedInstance)(backend, planned, index)
        reservation.instances.append(instance)
        instance.add_tags({**planned.tags.get("instance", {}), **own_tags})
        for volume in planned.volumes:
            launch_volumes.create(backend, instance, volume, planned.tags.get("volume", {}))
        if planned.profile is not None:
            backend.associate_iam_instance_profile(instance.id, iam_instance_profile_arn=planned.profile.arn)
        instance.start_running()
    return reservation


def launch(
    backend: Any, data: Mapping[str, Any], count: int, more_tags: Mapping[str, str] | None = None
) -> list[LaunchedInstance]:
    """Launch instances for another AWS service as RunInstances would. Faults injected into RunInstances apply too."""
    own = {key: value for key, value in data.items() if not key.startswith("_")}
    faults.raise_matching_fault(_build_call(backend, {**own, "MinCount": count, "MaxCount": count}))
    planned = plan(backend, data, count)
    if planned.market == "spot":  # AutoScalingServiceRolePolicy allows Auto Scaling to create the role
        service_linked_roles.ensure_role_exists(backend.account_id, service_linked_roles.SPOT)
    return cast(list[LaunchedInstance], create_planned_instances(backend, planned, more_tags).instances)


def _build_call(backend: Any, params: dict[str, Any]) -> Call:
    nothing = cast(Any, None)
    return Call("ec2", "RunInstances", backend.region_name, backend.account_id, "", params, nothing, nothing, nothing, nothing)
