"""On-Demand Capacity Reservations and Capacity Blocks: data model, lookup and seeding.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservation-overview.html
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from moto.ec2.utils import random_id

from localcloud.aws import clock
from localcloud.aws.account import ACCOUNT
from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import instance_types
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import get_state

Kind = Literal["default", "capacity-block"]
Match = Literal["open", "targeted"]


@dataclass
class CapacityReservation:
    """Reserved capacity for one instance type in one zone."""

    id: str
    instance_type: str
    zone: str
    total: int
    kind: Kind = "default"
    match: Match = "open"
    state: str = "active"
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    ebs_optimized: bool = False
    placement_group_arn: str | None = None
    resource_group_arn: str | None = None
    """ARN of the resource group that contains the reservation, if any. A launch can target the group."""
    created: datetime = field(default_factory=lambda: clock.now())
    start: datetime = field(default_factory=lambda: clock.now())
    end: datetime | None = None
    block_id: str | None = None
    """ID of the Capacity Block (cb-...) to which the reservation belongs."""
    is_ending: bool = False
    """Whether EC2 has started to terminate the instances of a Capacity Block."""
    client_token: str | None = None
    users: set[str] = field(default_factory=set)
    """Ids of the instances running in the reservation."""

    @property
    def available(self) -> int:
        is_open = self.state == "active" and not self.is_ending
        return max(self.total - len(self.users), 0) if is_open else 0


class CapacityReservations:
    """Capacity Reservations of one account and region, keyed by ID."""

    def __init__(self) -> None:
        self.by_id: dict[str, CapacityReservation] = {}


def list_reservations(backend: Any) -> list[CapacityReservation]:
    return list(get_state(backend, CapacityReservations).by_id.values())


def find(backend: Any, reservation_id: str) -> CapacityReservation:
    if not reservation_id.startswith("cr-"):
        raise AwsError("InvalidCapacityReservationId.Malformed", f'Invalid id: "{reservation_id}" (expecting "cr-...")')
    reservation = get_state(backend, CapacityReservations).by_id.get(reservation_id)
    if reservation is None:
        raise AwsError("InvalidCapacityReservationId.NotFound", f"The capacity reservation '{reservation_id}' does not exist")
    return reservation


def add_reservation(backend: Any, reservation: CapacityReservation) -> CapacityReservation:
    get_state(backend, CapacityReservations).by_id[reservation.id] = reservation
    return reservation


def release_instance(backend: Any, instance_id: str) -> None:
    """Remove the instance from its reservation."""
    for reservation in list_reservations(backend):
        reservation.users.discard(instance_id)


def seed_reservation(
    instance_type: str,
    zone: str,
    count: int = 1,
    *,
    reservation_id: str | None = None,
    kind: Kind = "default",
    match: Match | None = None,
    state: str = "active",
    placement_group_arn: str | None = None,
    resource_group_arn: str | None = None,
    days: float = 1,
    starts_in_hours: float | None = None,
    account: str = ACCOUNT,
) -> str:
    """Add a reservation to the account, as if it had been bought earlier, and return its id.

    Capacity Blocks are always targeted. A reservation that starts later is in state `scheduled` until then. With state
    `scheduled` but without `starts_in_hours`, the reservation starts in a day.
    """
    region = zone[:-1]
    if zone not in instance_types.find_offered_zones(region).get(instance_type, ()):
        raise ValueError(f"{instance_type} is not offered in {zone}")
    if count < 1:
        raise ValueError(f"a reservation needs at least 1 instance (got {count})")
    if starts_in_hours is None:
        starts_in_hours = 24 if state == "scheduled" else 0
    start = clock.now() + timedelta(hours=starts_in_hours)
    reservation = CapacityReservation(
        id=reservation_id or random_id("cr"),
        instance_type=instance_type,
        zone=zone,
        total=count,
        kind=kind,
        match=match or ("targeted" if kind == "capacity-block" else "open"),
        state="scheduled" if starts_in_hours > 0 else state,
        placement_group_arn=placement_group_arn,
        resource_group_arn=resource_group_arn,
        start=start,
        end=start + timedelta(days=days) if kind == "capacity-block" else None,
    )
    return add_reservation(backend_of("ec2", account, region), reservation).id
