"""Results of `capacity find` as comparable rows, with the cost of a run in each place."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final, Literal

from cli.console import to_json
from infra.facts.capacity import MAXIMUM_IN_BLOCK, Found, RegionCapacity, Wanted
from infra.facts.model import CapacityReservation

Kind = Literal["reservation", "block", "spot", "on-demand"]
ORDER: Final[tuple[Kind, ...]] = ("reservation", "block", "spot", "on-demand")


@dataclass(frozen=True)
class Choice:
    """One place where the nodes could run."""

    kind: Kind
    region: str
    zone: str
    nodes: int
    hours: Decimal
    total: Decimal | None
    """USD for all nodes and hours, without costs already paid; None if a price is unknown."""
    gpus: int
    """Total number of GPUs of all nodes."""
    start: datetime | None = None
    end: datetime | None = None
    id: str = ""
    note: str = ""
    fits: bool = True
    """Whether there is room for all nodes."""

    @property
    def price_per_gpu_hour(self) -> Decimal | None:
        if self.total is None or not self.gpus or not self.hours:
            return None
        return self.total / (self.gpus * self.hours)

    def as_json(self) -> dict[str, object]:
        columns = {key: value for key, value in to_json(self).items() if key not in ("gpus", "total")}
        return {
            **columns,
            "hours": float(self.hours),
            "usd": None if self.total is None else float(round(self.total, 2)),
            "usdPerGpuHour": None if self.price_per_gpu_hour is None else float(round(self.price_per_gpu_hour, 4)),
            "id": self.id or None,
        }


def list_choices(search: Found) -> list[Choice]:
    """Return the choices that have room for all nodes, then the others. Both groups are sorted by price, with unknown
    prices last.
    """
    rows = [row for region in search.regions for row in list_region_choices(search, region)]
    return sorted(rows, key=_build_sort_key)


def _build_sort_key(row: Choice) -> tuple[bool, bool, Decimal, int, str, str]:
    start = row.start.isoformat() if row.start else ""
    return (not row.fits, row.total is None, row.total or Decimal(), ORDER.index(row.kind), start, row.zone)


def list_region_choices(search: Found, region: RegionCapacity) -> Iterator[Choice]:
    request, gpus = search.wanted, search.gpus * search.wanted.nodes
    hours = Decimal(request.hours)
    yield from (price_reservation(request, region.region, reservation, gpus) for reservation in region.reservations)
    for block in region.blocks:
        fits = block.count >= request.nodes
        note = "" if fits else f"a block has at most {MAXIMUM_IN_BLOCK} nodes"
        yield Choice(
            *("block", region.region, block.zone, block.count, block.hours, block.fee, search.gpus * block.count),
            *(block.start, block.end, block.id, note, fits),
        )
    price = search.on_demand.get(region.region)
    for zone in region.zones:
        if zone in region.spot_prices or zone in region.spot_scores:
            yield price_spot(region, zone, request, hours, gpus)
        total = None if price is None else price * request.nodes * hours
        note = "AWS does not report whether there is capacity"
        yield Choice("on-demand", region.region, zone, request.nodes, hours, total, gpus, note=note)


def price_reservation(request: Wanted, region: str, reservation: CapacityReservation, gpus: int) -> Choice:
    """Return a choice that uses the account's own reservation. This costs nothing extra, because the reservation is
    already paid for, or billed even if unused.
    """
    room = reservation.total if reservation.state != "active" else reservation.available
    kind = "your Capacity Block" if reservation.kind == "capacity-block" else "your reservation, billed even if unused"
    note = f"{kind}: {reservation.state}, {room} of {reservation.total} free"
    return Choice(
        *("reservation", region, reservation.zone, request.nodes, Decimal(request.hours), Decimal(), gpus),
        *(reservation.start, reservation.end, reservation.id, note, room >= request.nodes),
    )


def price_spot(region: RegionCapacity, zone: str, request: Wanted, hours: Decimal, gpus: int) -> Choice:
    price, score = region.spot_prices.get(zone), region.spot_scores.get(zone)
    total = None if price is None else price * request.nodes * hours
    note = "may be interrupted" if score is None else f"placement score {score} of 10 (scores for a single instance type are low)"
    return Choice("spot", region.region, zone, request.nodes, hours, total, gpus, note=note)
