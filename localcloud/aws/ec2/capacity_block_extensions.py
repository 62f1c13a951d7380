"""Extensions of Capacity Blocks: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-extend.html"""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from localcloud.aws import clock, durations
from localcloud.aws.autoscaling import scheduled_actions
from localcloud.aws.call import Call
from localcloud.aws.ec2 import capacity_block_offerings as sold
from localcloud.aws.ec2.capacity_block_calls import PAYMENT, check_region
from localcloud.aws.ec2.capacity_reservations import CapacityReservation, find
from localcloud.aws.ec2.filters import select_page
from localcloud.aws.ec2.refusals import build_invalid_value_error, stop_dry_run
from localcloud.aws.ec2.zones import find_zone
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import get_state, operation

EARLIEST, LATEST = timedelta(days=56), timedelta(hours=1)
"""Earliest and latest time before the end of the block at which an extension can be bought."""
LONGEST = timedelta(days=182)


@dataclass
class Extension:
    id: str
    reservation: CapacityReservation
    start: datetime
    hours: int
    status: str = "payment-pending"
    bought: datetime | None = None

    @property
    def end(self) -> datetime:
        return self.start + timedelta(hours=self.hours)


class Extensions:
    """Extensions of the account's Capacity Blocks, keyed by offering ID."""

    def __init__(self) -> None:
        self.by_id: dict[str, Extension] = {}


@operation("ec2", "DescribeCapacityBlockExtensionOfferings")
def describe_capacity_block_extension_offerings(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeCapacityBlockExtensionOfferings.html"""
    check_region(call)
    backend, hours = call.backend, call.params["CapacityBlockExtensionDurationHours"]
    reservation, end = _find_extensible_block(backend, call.params["CapacityReservationId"])
    if hours not in sold.DURATIONS or end + timedelta(hours=hours) - reservation.start > LONGEST:
        raise build_invalid_value_error(
            hours,
            "CapacityBlockExtensionDurationHours",
            "It must be 1 to 14 days or 3 to 26 weeks, in hours. The block can last at most 182 days in total.",
        )
    stop_dry_run(call)
    identifier = hashlib.sha256(f"{reservation.id} {end} {hours}".encode()).hexdigest()[:16]
    extension = Extension(f"cbe-0{identifier}", reservation, end, hours)
    offered = get_state(backend, Extensions).by_id.setdefault(extension.id, extension)
    is_sold = reservation.instance_type in sold.RATES
    is_free = (
        sold.count_free_instances(backend, reservation.instance_type, reservation.zone, end, extension.end) >= reservation.total
    )
    offered_page, token = select_page([offered] if is_sold and is_free else [], call.params)
    return {"CapacityBlockExtensionOfferings": [_describe_offering(backend, offer) for offer in offered_page], **token}


@operation("ec2", "PurchaseCapacityBlockExtension")
def purchase_capacity_block_extension(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_PurchaseCapacityBlockExtension.html

    NOT VERIFIED (2026-11-23): the error code for an unknown offering.
    """
    check_region(call)
    backend, id = call.backend, call.params["CapacityBlockExtensionOfferingId"]
    reservation, end = _find_extensible_block(backend, call.params["CapacityReservationId"])
    extension = get_state(backend, Extensions).by_id.get(id)
    if extension is None or extension.reservation is not reservation or extension.start != end:
        raise AwsError("InvalidCapacityBlockExtensionOfferingId.NotFound", f"The extension offering '{id}' does not exist.")
    stop_dry_run(call)
    extension.bought = clock.now()
    failed = durations.make_failure_handler(extension, "status", "payment-failed")
    extend = partial(_extend_block, extension)
    durations.schedule(extension, "status", "payment-pending", "payment-succeeded", PAYMENT, then=extend, fail=failed)
    return {"CapacityBlockExtensions": [_describe_purchase(backend, extension)]}


def _find_extensible_block(backend: Any, reservation_id: str) -> tuple[CapacityReservation, datetime]:
    """Return the block and its end. Raise AWS's error if the block cannot be extended now."""
    reservation = find(backend, reservation_id)
    if reservation.kind != "capacity-block" or reservation.end is None:
        raise AwsError("InvalidParameterValue", f"The capacity reservation '{reservation_id}' is not a Capacity Block.")
    if reservation.state not in ("active", "scheduled"):
        raise AwsError("InvalidState", f"The capacity reservation '{reservation_id}' is in the {reservation.state} state.")
    left = reservation.end - clock.now()
    if not LATEST <= left <= EARLIEST:
        raise AwsError("InvalidState", "A Capacity Block can be extended between 56 days and 1 hour before it ends.")
    pending = get_state(backend, Extensions).by_id.values()
    if any(other.reservation is reservation and other.bought and other.status == "payment-pending" for other in pending):
        raise AwsError("InvalidState", f"The capacity reservation '{reservation_id}' has an extension that is payment-pending.")
    return reservation, reservation.end


def _extend_block(extension: Extension) -> None:
    reservation = extension.reservation
    reservation.end = extension.end
    scheduled_actions.reschedule_block_end(reservation.id, extension.end)


def _describe_offering(backend: Any, extension: Extension) -> dict[str, Any]:
    return {**_describe_common_fields(backend, extension), "StartDate": extension.reservation.start, "Tenancy": "default"}


def _describe_purchase(backend: Any, extension: Extension) -> dict[str, Any]:
    return {
        **_describe_common_fields(backend, extension),
        "CapacityReservationId": extension.reservation.id,
        "CapacityBlockExtensionStatus": extension.status,
        "CapacityBlockExtensionPurchaseDate": extension.bought,
    }


def _describe_common_fields(backend: Any, extension: Extension) -> dict[str, Any]:
    reservation = extension.reservation
    fee = sold.RATES[reservation.instance_type].usd * reservation.total * extension.hours
    return {
        "CapacityBlockExtensionOfferingId": extension.id,
        "InstanceType": reservation.instance_type,
        "InstanceCount": reservation.total,
        "AvailabilityZone": reservation.zone,
        "AvailabilityZoneId": find_zone(backend, reservation.zone).zone_id,
        "CapacityBlockExtensionStartDate": extension.start,
        "CapacityBlockExtensionEndDate": extension.end,
        "CapacityBlockExtensionDurationHours": extension.hours,
        "UpfrontFee": f"{fee:.4f}",
        "CurrencyCode": "USD",
    }
