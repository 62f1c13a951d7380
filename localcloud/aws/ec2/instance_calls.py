"""Operations on instances.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RunInstances.html
"""

import json
from typing import Any

from localcloud.aws.autoscaling import capacity
from localcloud.aws.call import Call
from localcloud.aws.ec2 import launch, tagging
from localcloud.aws.ec2.filters import filter_items, select_page
from localcloud.aws.ec2.instance_events import publish_instance_event, terminate
from localcloud.aws.ec2.instance_view import describe_instance
from localcloud.aws.ec2.launch_plan import Plan
from localcloud.aws.ec2.refusals import stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

_CAPACITY = ("InsufficientFreeAddressesInSubnet", "InsufficientInstanceCapacity", "ReservationCapacityExceeded")


@operation("ec2", "RunInstances")
def run_instances(call: Call) -> dict[str, Any]:
    params, backend = call.params, call.backend
    token = params.get("ClientToken")
    request = json.dumps(params, default=str, sort_keys=True)
    for previous in backend.reservations.values():
        if token and getattr(previous, "client_token", None) == token:
            if previous.request != request:
                raise AwsError(
                    "IdempotentParameterMismatch",
                    f"The request uses the same client token '{token}' as a previous, but non-identical request.",
                )
            return _describe_reservation(previous)
    least, most = int(params.get("MinCount", 1)), int(params.get("MaxCount", 1))
    if not 1 <= least <= most:
        raise AwsError("InvalidParameterValue", f"The minimum count {least} must be between 1 and the maximum count {most}.")
    data = launch.merge_template(backend, params)
    planned = _plan_largest_launch(backend, data, least, most)
    stop_dry_run(call)
    reservation: Any = launch.create_planned_instances(backend, planned)
    reservation.client_token, reservation.request = token, request
    for instance in reservation.instances:
        publish_instance_event("created", instance)
    return _describe_reservation(reservation)


def _plan_largest_launch(backend: Any, data: dict[str, Any], least: int, most: int) -> Plan:
    """Plan the launch of as many instances as possible between the minimum and maximum count."""
    for count in range(most, least, -1):
        try:
            return launch.plan(backend, data, count)
        except AwsError as error:
            if error.code not in _CAPACITY:
                raise
    return launch.plan(backend, data, least)


def _describe_reservation(reservation: Any) -> dict[str, Any]:
    return {
        "ReservationId": reservation.id,
        "OwnerId": reservation.owner_id,
        "Groups": [],
        "Instances": [describe_instance(instance) for instance in reservation.instances],
    }


def extend_moto() -> None:
    """Replace moto's instance lookup, which copies all reservations on each call. This is slow, because Auto Scaling
    groups create one reservation per instance."""
    from moto.ec2.exceptions import InvalidInstanceIdError
    from moto.ec2.models.instances import InstanceBackend

    def find_instance(self: Any, instance_id: str) -> Any:
        for reservation in self.reservations.values():
            for instance in reservation.instances:
                if instance.id == instance_id:
                    return instance
        raise InvalidInstanceIdError(instance_id)

    InstanceBackend.get_instance = find_instance  # type: ignore[method-assign]


def list_instances(backend: Any) -> list[Any]:
    """Return all instances, including terminated ones. Safe to call while another thread launches instances."""
    return [instance for reservation in list(backend.reservations.values()) for instance in reservation.instances]


def find_instances(backend: Any, ids: list[str]) -> list[Any]:
    """Return the instances with these ids, in the given order."""
    instances_by_id = {instance.id: instance for instance in list_instances(backend)}
    malformed = [instance_id for instance_id in ids if not instance_id.startswith("i-")]
    if malformed:
        raise AwsError("InvalidInstanceID.Malformed", f'Invalid id: "{malformed[0]}"')
    unknown = [instance_id for instance_id in ids if instance_id not in instances_by_id]
    if unknown:
        many = len(unknown) > 1
        raise AwsError(
            "InvalidInstanceID.NotFound",
            f"The instance ID{'s' if many else ''} '{', '.join(unknown)}' do{'' if many else 'es'} not exist",
        )
    return [instances_by_id[instance_id] for instance_id in ids]


@operation("ec2", "DescribeInstances")
def describe_instances(call: Call) -> dict[str, Any]:
    backend, ids = call.backend, call.params.get("InstanceIds")
    if ids and "MaxResults" in call.params:
        raise AwsError("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
    filters = call.params.get("Filters")
    matching = filter_items(
        find_instances(backend, ids) if ids else list_instances(backend),
        filters,
        _FILTERS,
        lambda item: tagging.read_tags(backend, item.id),
    )
    stop_dry_run(call)
    matching_ids = {instance.id for instance in matching}
    reservations = []
    for reservation in backend.reservations.values():
        instances = [describe_instance(instance) for instance in reservation.instances if instance.id in matching_ids]
        if instances:
            reservations.append({**_describe_empty_reservation(reservation), "Instances": instances})
    reservations, token = select_page(reservations, call.params)
    return {"Reservations": reservations, **token}


def _describe_empty_reservation(reservation: Any) -> dict[str, Any]:
    return {"ReservationId": reservation.id, "OwnerId": reservation.owner_id, "Groups": []}


def _get_profile_arn(instance: Any) -> str | None:
    association = instance.ec2_backend.iam_instance_profile_associations.get(instance.id)
    return association.iam_instance_profile.arn if association else None


_FILTERS: dict[str, Any] = {
    "affinity": lambda item: None,
    "architecture": lambda item: item.architecture,
    "availability-zone": lambda item: item.placement.zone,
    "capacity-reservation-id": lambda item: getattr(item, "capacity_reservation_id", None),
    "client-token": lambda item: item.client_token,
    "dns-name": lambda item: item.public_dns_name if item.nics else None,
    "group-id": lambda item: [group.id for group in item.security_groups],
    "hypervisor": lambda item: item.hypervisor,
    "iam-instance-profile.arn": _get_profile_arn,
    "image-id": lambda item: item.image_id,
    "instance-id": lambda item: item.id,
    "instance-lifecycle": lambda item: item.lifecycle,
    "instance-state-code": lambda item: item.state_code,
    "instance-state-name": lambda item: item.state,
    "instance-type": lambda item: item.instance_type,
    "instance.group-id": lambda item: [group.id for nic in item.nics.values() for group in nic.group_set],
    "instance.group-name": lambda item: [group.name for nic in item.nics.values() for group in nic.group_set],
    "ip-address": lambda item: item.public_ip if item.nics else None,
    "key-name": lambda item: item.key_name,
    "network-interface.network-interface-id": lambda item: [nic.id for nic in item.nics.values()],
    "network-interface.private-dns-name": lambda item: item.private_dns_name if item.nics else None,
    "network-interface.subnet-id": lambda item: [nic.subnet.id for nic in item.nics.values()],
    "network-interface.vpc-id": lambda item: [nic.subnet.vpc_id for nic in item.nics.values()],
    "owner-id": lambda item: item.owner_id,
    "placement-group-name": lambda item: item.placement.group_name or None,
    "private-dns-name": lambda item: item.private_dns_name if item.nics else None,
    "private-ip-address": lambda item: item.private_ip if item.nics else None,
    "root-device-name": lambda item: item.root_device_name,
    "root-device-type": lambda item: item.root_device_type,
    "source-dest-check": lambda item: item.source_dest_check,
    "spot-instance-request-id": lambda item: getattr(item, "spot_instance_request_id", None),
    "state-reason-code": lambda item: item.state_reason.code or None,
    "subnet-id": lambda item: item.subnet_id if item.nics else None,
    "tenancy": lambda item: item.placement.tenancy,
    "virtualization-type": lambda item: item.virtualization_type,
    "vpc-id": lambda item: item.vpc_id if item.nics else None,
}


@operation("ec2", "TerminateInstances")
def terminate_instances(call: Call) -> dict[str, Any]:
    ids = call.params.get("InstanceIds", [])
    if not ids:
        raise AwsError("InvalidParameterCombination", "No instances specified")
    instances = find_instances(call.backend, ids)
    for instance in instances:
        if instance.disable_api_termination:
            raise AwsError(
                "OperationNotPermitted",
                f"The instance '{instance.id}' may not be terminated. "
                "Modify its 'disableApiTermination' instance attribute and try again.",
            )
    stop_dry_run(call)
    changes = terminate(instances)
    capacity.replace_terminated_instances(call.backend_of("autoscaling"), ids)
    return {"TerminatingInstances": changes}
