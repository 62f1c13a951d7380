"""Capacity Blocks for ML: offerings and purchase.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeCapacityBlockOfferings.html
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_PurchaseCapacityBlock.html
"""

from datetime import UTC, datetime
from typing import Any

from moto.ec2.utils import random_id

from localcloud.aws import clock, durations
from localcloud.aws.call import Call
from localcloud.aws.ec2 import capacity_block_offerings as sold
from localcloud.aws.ec2 import instance_types, tagging
from localcloud.aws.ec2.capacity_block_offerings import Offering
from localcloud.aws.ec2.capacity_reservation_calls import PLATFORMS
from localcloud.aws.ec2.capacity_reservation_calls import describe_reservation as reservation_shown
from localcloud.aws.ec2.capacity_reservations import CapacityReservation, add_reservation, list_reservations
from localcloud.aws.ec2.filters import filter_items, select_page
from localcloud.aws.ec2.refusals import build_invalid_value_error, build_missing_parameter_error, stop_dry_run
from localcloud.aws.ec2.zones import find_zone
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import get_state, operation

PAYMENT = "ec2-capacity-block-payment"


class Shown:
    """Offerings that DescribeCapacityBlockOfferings has returned, keyed by ID: the account can buy only these offerings."""

    def __init__(self) -> None:
        self.by_id: dict[str, Offering] = {}


def check_region(call: Call) -> None:
    if call.region in sold.WITHOUT_BLOCKS:
        raise AwsError("InvalidAction", f"The action {call.operation} is not valid for this web service.")


@operation("ec2", "DescribeCapacityBlockOfferings")
def describe_capacity_block_offerings(call: Call) -> dict[str, Any]:
    params = call.params
    check_region(call)
    if "UltraserverType" in params or "InstanceTypePreferences" in params:
        raise AwsError("NotImplementedInLocalCloud", "The local cloud does not support UltraServers or InstanceTypePreferences.")
    for name in ("InstanceType", "InstanceCount"):
        if name not in params:
            raise build_missing_parameter_error(name)
    name, count, hours = params["InstanceType"], params["InstanceCount"], params["CapacityDurationHours"]
    _check_offering_query(call, name, count, hours)
    moment = clock.now()
    earliest, latest = _to_utc(params.get("StartDateRange")), _to_utc(params.get("EndDateRange"))
    if latest is not None and latest <= (earliest or moment):
        raise build_invalid_value_error(latest.isoformat(), "EndDateRange", "It must be after the start of the range.")
    stop_dry_run(call)
    offerings = sold.find_offerings(call.backend, name, count, hours, moment, earliest, latest)
    get_state(call.backend, Shown).by_id.update({offering.id: offering for offering in offerings})
    shown_offerings, token = select_page(offerings, params)
    return {"CapacityBlockOfferings": [_describe_offering(offering) for offering in shown_offerings], **token}


def _check_offering_query(call: Call, name: str, count: int, hours: int) -> None:
    if not instance_types.is_offered_in(call.region, name):
        raise build_invalid_value_error(name, "InstanceType", "The instance type does not exist")
    instance_facts = instance_types.find_type_facts(name)
    if (
        instance_facts is None
        or "capacity-block" not in instance_facts.usage_classes
        or not sold.list_selling_zones(call.region, name)
    ):
        raise AwsError("Unsupported", f"Capacity Blocks are not supported for the instance type {name} in this Region.")
    if not 1 <= count <= sold.MAXIMUM_INSTANCES:
        raise build_invalid_value_error(count, "InstanceCount", f"It must be between 1 and {sold.MAXIMUM_INSTANCES}.")
    if hours not in sold.DURATIONS:
        raise build_invalid_value_error(hours, "CapacityDurationHours", "It must be 1 to 14 days or 3 to 26 weeks, in hours.")


def _to_utc(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


@operation("ec2", "PurchaseCapacityBlock")
def purchase_capacity_block(call: Call) -> dict[str, Any]:
    """NOT VERIFIED (2026-11-23): the error codes for an unknown or outdated offering."""
    params, backend = call.params, call.backend
    check_region(call)
    offering_id = params["CapacityBlockOfferingId"]
    offering = get_state(backend, Shown).by_id.get(offering_id)
    if offering is None:
        raise AwsError("InvalidCapacityBlockOfferingId.NotFound", f"The Capacity Block offering '{offering_id}' does not exist.")
    if params["InstancePlatform"] not in PLATFORMS:
        raise build_invalid_value_error(params["InstancePlatform"], "InstancePlatform", "The platform is not supported")
    free = sold.count_free_instances(backend, offering.instance_type, offering.zone, offering.start, offering.end)
    if clock.now() >= offering.end or free < offering.count:
        raise AwsError("CapacityBlockOfferingExpired", f"The Capacity Block offering '{offering_id}' is no longer available.")
    if sold.count_owned_instances(backend) + offering.count > sold.MAXIMUM_IN_ALL_BLOCKS:
        raise AwsError(
            "InstanceLimitExceeded", f"You can have at most {sold.MAXIMUM_IN_ALL_BLOCKS} instances in Capacity Blocks."
        )
    tags = tagging.read_requested_tags(params.get("TagSpecifications"), "capacity-reservation")
    stop_dry_run(call)
    reservation = _purchase_offering(backend, offering, params["InstancePlatform"])
    backend.create_tags([reservation.id], tags.get("capacity-reservation", {}))
    return {
        "CapacityReservation": reservation_shown(backend, reservation),
        "CapacityReservations": [reservation_shown(backend, reservation)],
        "CapacityBlocks": [_describe_block(backend, reservation)],
    }


def _purchase_offering(backend: Any, offering: Offering, platform: str) -> CapacityReservation:
    """Create the reservation in state `payment-pending`. After the payment, it is `scheduled` until its start."""
    reservation = CapacityReservation(
        id=random_id("cr"),
        instance_type=offering.instance_type,
        zone=offering.zone,
        total=offering.count,
        kind="capacity-block",
        match="targeted",
        platform=platform,
        start=offering.start,
        end=offering.end,
        block_id=offering.id,
    )
    add_reservation(backend, reservation)
    durations.schedule(reservation, "state", "payment-pending", "scheduled", PAYMENT)
    return reservation


@operation("ec2", "DescribeCapacityBlocks")
def describe_capacity_blocks(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeCapacityBlocks.html"""
    check_region(call)
    backend, ids = call.backend, call.params.get("CapacityBlockIds", [])
    blocks = [item for item in list_reservations(backend) if item.block_id is not None]
    if absent := [block_id for block_id in ids if block_id not in {item.block_id for item in blocks}]:
        raise AwsError("InvalidCapacityBlockId.NotFound", f"The Capacity Block '{absent[0]}' does not exist.")
    matching = filter_items(
        [item for item in blocks if not ids or item.block_id in ids],
        call.params.get("Filters"),
        {
            "capacity-block-id": lambda item: item.block_id,
            "availability-zone": lambda item: item.zone,
            "state": lambda item: item.state,
        },
        lambda item: tagging.read_tags(backend, item.id),
    )
    stop_dry_run(call)
    matching, token = select_page(matching, call.params)
    return {"CapacityBlocks": [_describe_block(backend, item) for item in matching], **token}


def _describe_offering(offering: Offering) -> dict[str, Any]:
    """Return the offering in the format of DescribeCapacityBlockOfferings."""
    return {
        "CapacityBlockOfferingId": offering.id,
        "InstanceType": offering.instance_type,
        "AvailabilityZone": offering.zone,
        "InstanceCount": offering.count,
        "StartDate": offering.start,
        "EndDate": offering.end,
        "CapacityBlockDurationHours": offering.minutes // 60,
        "CapacityBlockDurationMinutes": offering.minutes,
        "UpfrontFee": offering.fee,
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }


def _describe_block(backend: Any, reservation: CapacityReservation) -> dict[str, Any]:
    return {
        "CapacityBlockId": reservation.block_id,
        "AvailabilityZone": reservation.zone,
        "AvailabilityZoneId": find_zone(backend, reservation.zone).zone_id,
        "CapacityReservationIds": [reservation.id],
        "StartDate": reservation.start,
        "EndDate": reservation.end,
        "CreateDate": reservation.created,
        "State": reservation.state,
        "Tags": tagging.describe_tags(backend, reservation.id),
    }
