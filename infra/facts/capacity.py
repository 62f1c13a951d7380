"""Find GPU capacity in many Regions: the account's reservations, Capacity Blocks, Spot, and offerings by zone.

Several threads query the Regions in parallel. If a Region rejects a query, the result contains the reason.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from botocore.exceptions import ClientError

from infra.cost import prices as known_prices
from infra.cost.items import INSTANCE_FILTERS, INSTANCE_SERVICE
from infra.facts import ec2
from infra.facts.clients import Clients, Denied, Result, build_filter, is_error, query, read_pages, try_query
from infra.facts.model import CapacityReservation, FactsError
from infra.facts.price_list import PRICE_LIST, read_rates, read_rows, read_spot_prices

THREADS: Final = 12
NO_BLOCKS: Final = (
    *("InvalidAction", "Unsupported", "UnsupportedOperation", "InvalidParameterValue"),
    *("InvalidParameterCombination", "OperationNotPermitted"),
)
"""Error codes returned by Regions that sell no Capacity Blocks of a type."""
MAXIMUM_IN_BLOCK: Final = 64
DURATIONS: Final = (*(24 * days for days in range(1, 15)), *(24 * days for days in range(21, 183, 7)))
"""Durations of Capacity Blocks in hours:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-how-it-works.html
"""
_OPEN: Final = ("active", "pending", "scheduled", "payment-pending", "assessing", "delayed")
_REGIONS_PER_SCORE: Final = 10


@dataclass(frozen=True)
class Wanted:
    """Search criteria of `capacity find`."""

    instance_type: str
    nodes: int
    hours: int
    start: datetime | None = None
    end: datetime | None = None
    """Latest end of a Capacity Block."""
    spot: bool = False

    @property
    def block_durations(self) -> tuple[int, ...]:
        """Durations of Capacity Blocks to query: the requested one, or else the next longer and the next shorter one."""
        longer = [hours for hours in DURATIONS if hours >= self.hours][:1]
        shorter = [hours for hours in DURATIONS if hours < self.hours][-1:] if longer != [self.hours] else []
        return (*longer, *shorter)


@dataclass(frozen=True)
class BlockOffering:
    """A Capacity Block that can be bought."""

    id: str
    region: str
    zone: str
    instance_type: str
    count: int
    start: datetime
    end: datetime
    hours: Decimal
    fee: Decimal | None
    """Price of the whole block; None if AWS reports no price."""
    asked_hours: int
    """Duration, in hours, in the query that returned this offering."""
    currency: str = "USD"


@dataclass(frozen=True)
class RegionCapacity:
    """Results from one Region."""

    region: str
    zones: tuple[str, ...] = ()
    """Zones that offer the type."""
    zone_names: Mapping[str, str] = field(default_factory=dict)
    """Maps each zone ID to the name of the zone; read only for Spot."""
    reservations: tuple[CapacityReservation, ...] = ()
    blocks: tuple[BlockOffering, ...] = ()
    largest_block: int | None = None
    """Number of nodes in the largest block on offer, if all blocks have fewer nodes than requested."""
    spot_prices: Mapping[str, Decimal] = field(default_factory=dict)
    """Maps each zone to the price per instance-hour."""
    spot_scores: Mapping[str, int] = field(default_factory=dict)
    """Maps each zone to its placement score, 1 to 10."""
    refusals: tuple[str, ...] = ()
    """Queries that the Region rejected, with the reason."""


@dataclass(frozen=True)
class Found:
    wanted: Wanted
    regions: tuple[RegionCapacity, ...]
    gpus: int
    """Number of GPUs of the instance type; 0 if it is unknown."""
    on_demand: Mapping[str, Decimal]
    """Maps each Region to the on-demand price per hour."""
    price_source: str


Progress = Callable[[int, int], None]
"""Called with the number of Regions that have answered, and with the total number of Regions."""


def list_enabled_regions(home: str) -> tuple[str, ...]:
    """Return the Regions that the account can use. Raises FactsError."""
    try:
        regions = query(home, lambda: Clients(home).ec2.describe_regions()["Regions"])
    except Denied as denied:
        raise FactsError(f"the Regions of the account are unknown: you may not call {denied}") from None
    return tuple(sorted(region["RegionName"] for region in regions))


def find_capacity(request: Wanted, regions: Sequence[str], home: str, progress: Progress = lambda done, of: None) -> Found:
    """Query all Regions in parallel. Raises FactsError only if nothing at all can be queried."""
    first = Clients(home)
    clients = {region: Clients(region, first) for region in regions}
    pricing, scorer = first.create_pricing_client("us-east-1"), first.ec2
    with ThreadPoolExecutor(THREADS) as threads:
        asked = {threads.submit(_query_region, region_clients, request): region for region, region_clients in clients.items()}
        prices = threads.submit(_read_on_demand_prices, pricing, request.instance_type)
        capacities: dict[str, RegionCapacity] = {}
        for done in as_completed(asked):
            capacities[asked[done]] = done.result()
            progress(len(capacities), len(asked))
        offering = [region for region in regions if capacities[region].zones]
        scores = _read_placement_scores(scorer, request, offering, home, threads) if request.spot else {}
        gpus = _count_gpus(clients[offering[0]], request.instance_type) if offering else 0
        on_demand, source = prices.result()
    scored = tuple(_add_scores(capacities[region], scores.get(region, ({}, ""))) for region in regions)
    return Found(request, scored, gpus, on_demand, source)


# --- one Region ---------------------------------------------------------------------------------------------------------


def _query_region(clients: Clients, request: Wanted) -> RegionCapacity:
    refusals: list[str] = []

    def try_call(subject: str, call: Callable[[], Result]) -> Result | None:
        answer, reason = try_query(clients.region, call)
        if reason:
            refusals.append(f"{subject}: {reason}")
        return answer

    name, region = request.instance_type, clients.region
    zones = try_call("offerings", lambda: sorted(ec2.list_zone_offerings(clients, [name])[name])) or []
    result = RegionCapacity(region, tuple(zones))
    if zones:
        reservations = try_call("reservations", lambda: _list_reservations(clients, name)) or ()
        blocks, largest = try_call("Capacity Blocks", lambda: _find_capacity_blocks(clients, request)) or ((), None)
        result = replace(result, reservations=reservations, blocks=blocks, largest_block=largest)
    if zones and request.spot:
        prices = try_call("Spot prices", lambda: read_spot_prices(clients.ec2, [name], datetime.now(UTC))) or {}
        names = try_call("zones", lambda: _read_zone_names(clients.ec2)) or {}
        result = replace(result, spot_prices={zone: usd for (_, zone), usd in prices.items()}, zone_names=names)
    return replace(result, refusals=tuple(refusals))


def _read_zone_names(ec2: Any) -> dict[str, str]:
    return {zone["ZoneId"]: zone["ZoneName"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]}


def _list_reservations(clients: Clients, name: str) -> tuple[CapacityReservation, ...]:
    filters = [build_filter("instance-type", [name]), build_filter("state", _OPEN)]
    reservations = read_pages(clients.ec2, "describe_capacity_reservations", "CapacityReservations", Filters=filters)
    return tuple(ec2.convert_reservation(reservation, clients.now()) for reservation in reservations)


def _find_capacity_blocks(clients: Clients, request: Wanted) -> tuple[tuple[BlockOffering, ...], int | None]:
    """Return the offerings with the requested number of nodes and, if there are none, the largest number on offer."""
    nodes = min(request.nodes, MAXIMUM_IN_BLOCK)
    try:
        blocks = {
            block.id: block for hours in request.block_durations for block in list_block_offerings(clients, request, nodes, hours)
        }
        if blocks or nodes == 1:
            return tuple(blocks.values()), None
        return (), _find_largest_block(clients, request, nodes)
    except ClientError as error:
        if is_error(error, *NO_BLOCKS):
            return (), None
        raise


def _find_largest_block(clients: Clients, request: Wanted, too_many: int) -> int | None:
    """Find the largest number of nodes on offer by bisection."""
    least, most = 0, too_many
    while most - least > 1:
        middle = (least + most) // 2
        if any(list_block_offerings(clients, request, middle, hours) for hours in request.block_durations):
            least = middle
        else:
            most = middle
    return least or None


def list_block_offerings(clients: Clients, request: Wanted, nodes: int, hours: int) -> list[BlockOffering]:
    """Return the Capacity Blocks with this number of nodes and this duration that AWS offers."""
    dates = {"StartDateRange": request.start, "EndDateRange": request.end}  # EndDateRange limits a block's end, not its start
    blocks = read_pages(
        clients.ec2,
        "describe_capacity_block_offerings",
        "CapacityBlockOfferings",
        InstanceType=request.instance_type,
        InstanceCount=nodes,
        CapacityDurationHours=hours,
        **{name: moment for name, moment in dates.items() if moment is not None},
    )
    return [_convert_offering(clients.region, block, hours) for block in blocks]


def _convert_offering(region: str, described: Mapping[str, Any], asked_hours: int) -> BlockOffering:
    minutes = described.get("CapacityBlockDurationMinutes") or 60 * described["CapacityBlockDurationHours"]
    return BlockOffering(
        id=described["CapacityBlockOfferingId"],
        region=region,
        zone=described["AvailabilityZone"],
        instance_type=described["InstanceType"],
        count=described["InstanceCount"],
        start=described["StartDate"],
        end=described["EndDate"],
        hours=Decimal(minutes) / 60,
        fee=Decimal(described["UpfrontFee"]) if described.get("UpfrontFee") else None,
        asked_hours=asked_hours,
        currency=described.get("CurrencyCode", "USD"),
    )


# --- all Regions --------------------------------------------------------------------------------------------------------


Scores = tuple[Mapping[str, int], str]
"""Maps each zone ID to the placement score in one Region, and the reason why the Region has none."""


def _read_placement_scores(
    ec2: Any, request: Wanted, regions: Sequence[str], home: str, threads: ThreadPoolExecutor
) -> dict[str, Scores]:
    """Return the placement scores of each Region. AWS returns only the ten best zones per query, and limits the number of
    different queries per day (`MaxConfigLimitExceeded`).
    """

    def query_scores(part: Sequence[str]) -> tuple[Any, str]:
        question = {"InstanceTypes": [request.instance_type], "TargetCapacity": request.nodes, "SingleAvailabilityZone": True}
        return try_query(home, lambda: ec2.get_spot_placement_scores(**question, RegionNames=list(part))["SpotPlacementScores"])

    parts = [regions[start : start + _REGIONS_PER_SCORE] for start in range(0, len(regions), _REGIONS_PER_SCORE)]
    return {
        region: ({row["AvailabilityZoneId"]: row["Score"] for row in rows or () if row["Region"] == region}, reason)
        for part, (rows, reason) in zip(parts, threads.map(query_scores, parts), strict=True)
        for region in part
    }


def _add_scores(capacity: RegionCapacity, scores: Scores) -> RegionCapacity:
    names, (by_id, reason) = capacity.zone_names, scores
    by_zone = {names[zone_id]: score for zone_id, score in by_id.items() if zone_id in names}
    refusals = [f"placement scores: {reason}"] if reason else []
    return replace(capacity, spot_scores=by_zone, refusals=(*capacity.refusals, *refusals))


def _count_gpus(clients: Clients, name: str) -> int:
    types, _ = try_query(clients.region, lambda: ec2.read_instance_types(clients, [name]))
    return types[name].gpus if types and name in types else 0


def _read_on_demand_prices(pricing: Any, name: str) -> tuple[dict[str, Decimal], str]:
    """Return the on-demand prices, keyed by Region, and their source: the Price List or, if it fails, the snapshot."""

    def query_prices() -> dict[str, Decimal]:
        rows = read_rows(pricing, INSTANCE_SERVICE, {"instanceType": name, **INSTANCE_FILTERS})
        rates = {row["product"]["attributes"]["regionCode"]: read_rates(row) for row in rows}
        return {region: max((usd for unit, usd in pairs if unit == "Hrs"), default=Decimal()) for region, pairs in rates.items()}

    prices, reason = try_query("us-east-1", query_prices)
    if prices is not None:
        return {region: usd for region, usd in prices.items() if usd}, PRICE_LIST
    content = known_prices.SNAPSHOT
    snapshot = {
        region: known_prices.read_snapshot(region).on_demand(name) for region in json.loads(content.read_text())["instances"]
    }
    return {region: price.usd for region, price in snapshot.items() if price}, f"snapshot in infra/cost ({reason})"
