"""Capacity Blocks that the local AWS sells: dates, zones, prices.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-how-it-works.html. AWS's actual supply of Capacity Blocks
is unknown. In the local cloud, every zone that offers a type can sell up to 64 instances at a time, and the zone of the
offered block changes every day.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any

from infra.cost.prices import read_capacity_block_rates
from localcloud.aws.ec2.capacity_reservations import list_reservations
from localcloud.aws.ec2.instance_types import find_offered_zones

RATES = read_capacity_block_rates()
"""Maps an instance type to the price per instance-hour, which is the same in every Region. Types without a known
price are not sold."""

WITHOUT_BLOCKS = ("eu-west-1",)
"""Regions that reject the operations with InvalidAction, as seen in public logs (2026-11-22)."""

MAXIMUM_INSTANCES = 64
MAXIMUM_IN_ALL_BLOCKS = 256
MAXIMUM_OFFERINGS = 6
NOTICE = timedelta(minutes=30)
"""Shortest time between the purchase and the start."""
HORIZON = timedelta(weeks=8)
END_OF_DAY = time(11, 30)
"""Time in UTC at which every block ends."""
DAY = timedelta(days=1)
DURATIONS = (*(24 * days for days in range(1, 15)), *(24 * days for days in range(21, 183, 7)))
"""Durations, in hours, that can be requested."""


@dataclass(frozen=True)
class Offering:
    id: str
    instance_type: str
    zone: str
    count: int
    start: datetime
    end: datetime

    @property
    def minutes(self) -> int:
        return int((self.end - self.start).total_seconds() // 60)

    @property
    def fee(self) -> str:
        """Price of the whole block in USD, in EC2's format."""
        return f"{RATES[self.instance_type].usd * self.count * self.minutes / 60:.4f}"


def list_selling_zones(region: str, name: str) -> tuple[str, ...]:
    """Return the zones in which the Region sells blocks of the type."""
    if region in WITHOUT_BLOCKS or name not in RATES:
        return ()
    return find_offered_zones(region).get(name, ())


def find_offerings(
    backend: Any, name: str, count: int, hours: int, moment: datetime, earliest: datetime | None, latest_end: datetime | None
) -> list[Offering]:
    """Return the earliest offerings (at most six), with durations as close as possible to the requested duration."""
    offerings: list[Offering] = []
    first = _round_up_to_half_hour(max(moment + NOTICE, earliest or moment))
    for zone, start, end in _list_possible_blocks(
        list_selling_zones(backend.region_name, name), first, moment + HORIZON, timedelta(hours=hours)
    ):
        too_late = latest_end is not None and end > latest_end
        if not too_late and count <= count_free_instances(backend, name, zone, start, end):
            offerings.append(Offering(_generate_offering_id(name, zone, count, start, end), name, zone, count, start, end))
    return offerings[:MAXIMUM_OFFERINGS]


def _list_possible_blocks(
    places: tuple[str, ...], first: datetime, last: datetime, duration: timedelta
) -> Iterator[tuple[str, datetime, datetime]]:
    """Yield the zone, start and end of a block that starts immediately, then of one block per day. All blocks end at
    11:30 UTC."""
    if not places:
        return
    boundary = first.replace(hour=END_OF_DAY.hour, minute=END_OF_DAY.minute)
    boundary += DAY if boundary < first else timedelta()
    days = round((first + duration - boundary) / DAY)
    if first != boundary and boundary + days * DAY > first:
        yield places[boundary.toordinal() % len(places)], first, boundary + days * DAY
    while boundary <= last:
        yield places[(boundary.toordinal() + 1) % len(places)], boundary, boundary + duration
        boundary += DAY


def count_free_instances(backend: Any, name: str, zone: str, start: datetime, end: datetime) -> int:
    """Return how many instances the zone can still sell for that period."""
    taken = [
        item.total
        for item in list_reservations(backend)
        if item.kind == "capacity-block" and (item.instance_type, item.zone) == (name, zone) and _is_sold(item.state)
        if item.end is not None and item.start < end and start < item.end
    ]
    return MAXIMUM_INSTANCES - sum(taken)


def _is_sold(state: str) -> bool:
    return state in ("payment-pending", "scheduled", "active")


def count_owned_instances(backend: Any) -> int:
    """Return the number of instances in the account's blocks that have not ended."""
    blocks = [item for item in list_reservations(backend) if item.kind == "capacity-block" and _is_sold(item.state)]
    return sum(item.total for item in blocks)


def _round_up_to_half_hour(moment: datetime) -> datetime:
    """Round the time up to the next full or half hour."""
    start = moment.replace(minute=0, second=0, microsecond=0)
    while start < moment:
        start += timedelta(minutes=30)
    return start


def _generate_offering_id(*parts: object) -> str:
    return f"cb-0{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}"
