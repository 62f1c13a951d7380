"""Capacity Reservation operations.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateCapacityReservation.html
"""

from datetime import UTC, datetime
from typing import Any

from moto.ec2.utils import random_id

from localcloud.aws import clock
from localcloud.aws.call import Call
from localcloud.aws.ec2 import instance_types, launch_capacity, limits, placement_groups, tagging
from localcloud.aws.ec2.capacity_reservations import CapacityReservation, add_reservation, find, list_reservations
from localcloud.aws.ec2.filters import filter_items, select_page
from localcloud.aws.ec2.refusals import build_invalid_value_error, build_missing_parameter_error, stop_dry_run
from localcloud.aws.ec2.zones import find_zone
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

PLATFORMS = ("Linux/UNIX", "Red Hat Enterprise Linux", "SUSE Linux", "Windows")


@operation("ec2", "CreateCapacityReservation")
def create_capacity_reservation(call: Call) -> dict[str, Any]:
    params, backend = call.params, call.backend
    for existing in list_reservations(backend):
        if existing.client_token and existing.client_token == params.get("ClientToken"):
            return {"CapacityReservation": describe_reservation(backend, existing)}
    for name in ("InstanceType", "InstancePlatform", "InstanceCount"):
        if name not in params:
            raise build_missing_parameter_error(name[0].lower() + name[1:])
    zone = _check_zone(call)
    _check_params(call, zone)
    tags = tagging.read_requested_tags(params.get("TagSpecifications"), "capacity-reservation").get("capacity-reservation", {})
    stop_dry_run(call)
    instance_facts = instance_types.find_type_facts(params["InstanceType"])
    if instance_facts is not None:
        # NOT VERIFIED (2026-11-23): EC2 reports this error for reservations, too.
        limits.check_vcpu_quota(backend, instance_facts, "on-demand", None, params["InstanceCount"])
    launch_capacity.check_free_capacity(call.region, params["InstanceType"], zone, "on-demand", None)
    reservation = CapacityReservation(
        id=random_id("cr"),
        instance_type=params["InstanceType"],
        zone=zone,
        total=params["InstanceCount"],
        match=params.get("InstanceMatchCriteria", "open"),
        platform=params["InstancePlatform"],
        tenancy=params.get("Tenancy", "default"),
        ebs_optimized=params.get("EbsOptimized", False),
        placement_group_arn=params.get("PlacementGroupArn"),
        end=params.get("EndDate"),
        client_token=params.get("ClientToken"),
    )
    add_reservation(backend, reservation)
    backend.create_tags([reservation.id], tags)
    return {"CapacityReservation": describe_reservation(backend, reservation)}


def _check_zone(call: Call) -> str:
    zone = call.params.get("AvailabilityZone") or call.params.get("AvailabilityZoneId")
    if zone is None:
        raise build_missing_parameter_error("availabilityZone")
    return find_zone(call.backend, zone).name


def _check_params(call: Call, zone: str) -> None:
    params = call.params
    name = params["InstanceType"]
    if not instance_types.is_offered_in(call.region, name):
        raise build_invalid_value_error(name, "instanceType", "The instance type does not exist")
    if zone not in instance_types.find_offered_zones(call.region).get(name, ()):
        raise AwsError("Unsupported", f"The instance type {name} is not supported in the Availability Zone {zone}.")
    if params["InstancePlatform"] not in PLATFORMS and not params["InstancePlatform"].startswith(PLATFORMS):
        raise build_invalid_value_error(params["InstancePlatform"], "instancePlatform", "The platform is not supported")
    if params["InstanceCount"] < 1:
        raise build_invalid_value_error(params["InstanceCount"], "instanceCount", "It must be 1 or more.")
    if params.get("InstanceMatchCriteria", "open") not in ("open", "targeted"):
        raise build_invalid_value_error(params["InstanceMatchCriteria"], "instanceMatchCriteria", "It must be open or targeted.")
    _check_end_date(params.get("EndDateType", "limited" if "EndDate" in params else "unlimited"), params.get("EndDate"))
    if "PlacementGroupArn" in params:
        placement_groups.find_by_arn(call.backend, params["PlacementGroupArn"])


def _check_end_date(kind: str, end: datetime | None) -> None:
    if kind not in ("limited", "unlimited"):
        raise build_invalid_value_error(kind, "endDateType", "It must be limited or unlimited.")
    if (kind == "limited") != (end is not None):
        raise AwsError(
            "InvalidParameterCombination", "An end date is required if the end date type is limited, and not allowed otherwise."
        )
    if end is not None and end.astimezone(UTC) <= clock.now():
        raise build_invalid_value_error(end.isoformat(), "endDate", "The end date must be in the future.")


@operation("ec2", "DescribeCapacityReservations")
def describe_capacity_reservations(call: Call) -> dict[str, Any]:
    backend, ids = call.backend, call.params.get("CapacityReservationIds", [])
    matching = filter_items(
        [find(backend, reservation_id) for reservation_id in ids] if ids else list_reservations(backend),
        call.params.get("Filters"),
        {
            "instance-type": lambda item: item.instance_type,
            "owner-id": lambda item: call.account,
            "instance-platform": lambda item: item.platform,
            "availability-zone": lambda item: item.zone,
            "tenancy": lambda item: item.tenancy,
            "state": lambda item: item.state,
            "end-date-type": lambda item: "limited" if item.end else "unlimited",
            "instance-match-criteria": lambda item: item.match,
            "placement-group-arn": lambda item: item.placement_group_arn,
            "reservation-type": lambda item: item.kind,
            "start-date": lambda item: item.start.isoformat(),
        },
        lambda item: tagging.read_tags(backend, item.id),
    )
    stop_dry_run(call)
    matching, token = select_page(matching, call.params)
    return {"CapacityReservations": [describe_reservation(backend, reservation) for reservation in matching], **token}


@operation("ec2", "ModifyCapacityReservation")
def modify_capacity_reservation(call: Call) -> dict[str, Any]:
    params, reservation = call.params, find(call.backend, call.params["CapacityReservationId"])
    _check_can_change(reservation)
    if params.get("InstanceCount", 1) < 1:
        raise build_invalid_value_error(params["InstanceCount"], "instanceCount", "It must be 1 or more.")
    kind = params.get("EndDateType", "limited" if params.get("EndDate") or reservation.end else "unlimited")
    end = params.get("EndDate") or (reservation.end if kind == "limited" else None)
    _check_end_date(kind, end)
    match = params.get("InstanceMatchCriteria", reservation.match)
    if match not in ("open", "targeted"):
        raise build_invalid_value_error(match, "instanceMatchCriteria", "It must be open or targeted.")
    stop_dry_run(call)
    reservation.total, reservation.end, reservation.match = params.get("InstanceCount", reservation.total), end, match
    return {"Return": True}


@operation("ec2", "CancelCapacityReservation")
def cancel_capacity_reservation(call: Call) -> dict[str, Any]:
    reservation = find(call.backend, call.params["CapacityReservationId"])
    _check_can_change(reservation)
    stop_dry_run(call)
    reservation.state = "cancelled"
    reservation.users.clear()  # instances in the reservation keep running outside it
    return {"Return": True}


def _check_can_change(reservation: CapacityReservation) -> None:
    if reservation.kind == "capacity-block":
        raise AwsError(
            "OperationNotPermitted",
            f"The capacity reservation '{reservation.id}' is a Capacity Block: it cannot be changed or cancelled.",
        )
    if reservation.state not in ("active", "pending", "scheduled"):
        raise AwsError("InvalidState", f"The capacity reservation '{reservation.id}' is in the {reservation.state} state.")


def describe_reservation(backend: Any, reservation: CapacityReservation) -> dict[str, Any]:
    """Return the reservation in the format of DescribeCapacityReservations."""
    return {
        "CapacityReservationId": reservation.id,
        "CapacityReservationArn": (
            f"arn:{backend.partition}:ec2:{backend.region_name}:{backend.account_id}:capacity-reservation/{reservation.id}"
        ),
        "OwnerId": backend.account_id,
        "InstanceType": reservation.instance_type,
        "InstancePlatform": reservation.platform,
        "AvailabilityZone": reservation.zone,
        "AvailabilityZoneId": find_zone(backend, reservation.zone).zone_id,
        "Tenancy": reservation.tenancy,
        "TotalInstanceCount": reservation.total,
        "AvailableInstanceCount": reservation.available,
        "EbsOptimized": reservation.ebs_optimized,
        "EphemeralStorage": False,
        "State": reservation.state,
        "StartDate": reservation.start,
        "EndDate": reservation.end,
        "EndDateType": "limited" if reservation.end else "unlimited",
        "InstanceMatchCriteria": reservation.match,
        "CreateDate": reservation.created,
        "PlacementGroupArn": reservation.placement_group_arn,
        "ReservationType": reservation.kind,
        **({"CapacityBlockId": reservation.block_id} if reservation.block_id else {}),
        "Tags": tagging.describe_tags(backend, reservation.id),
    }
