"""Ledger of the local AWS's instance costs, recorded from events.

The ledger does not use API responses, so tests can compare the output of `scripts/cluster cost` with it. Like AWS, it
bills each second from the launch to the end of an instance, at the On-Demand price or the zone's spot price. Instances
in a Capacity Block cost nothing here, because the block was paid for in advance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from infra.cost import prices
from localcloud.aws import clock, events, patching
from localcloud.aws.control_actions import action
from localcloud.aws.ec2 import spot_market

HOUR = Decimal(3600)


@dataclass
class Entry:
    """One period in which an instance ran."""

    instance: str
    instance_type: str
    region: str
    zone: str
    market: str
    started: datetime
    ended: datetime | None = None

    def usd(self, moment: datetime) -> Decimal | None:
        """Return the cost up to this time; None if the price is unknown."""
        hourly = self._find_hourly_price()
        return None if hourly is None else hourly * Decimal(str(self.seconds(moment))) / HOUR

    def seconds(self, moment: datetime) -> float:
        return ((self.ended or moment) - self.started).total_seconds()

    def _find_hourly_price(self) -> Decimal | None:
        if self.market == "capacity-block":
            return Decimal(0)
        if self.market == "spot":
            return spot_market.compute_spot_price(self.region, self.instance_type, self.zone)
        price = prices.read_snapshot(self.region).on_demand(self.instance_type)
        return price.usd if price else None


_entries: list[Entry] = []


def extend_moto() -> None:
    """Start recording when instances start and end."""
    events.register_realizer(_record_instance_event)


def list_entries() -> tuple[Entry, ...]:
    return tuple(_entries)


def _record_instance_event(event: events.Event) -> None:
    if event.kind != "instance":
        return
    if event.action in ("created", "starting"):
        shown = event.details
        market = shown.get("InstanceLifecycle") or "on-demand"
        zone = shown["Placement"]["AvailabilityZone"]
        _entries.append(Entry(event.name, shown["InstanceType"], event.region, zone, market, clock.now()))
    elif event.action in ("stopping", "gone"):
        for entry in _find_running_entries(event.name):
            entry.ended = clock.now()


def _find_running_entries(instance: str) -> Iterator[Entry]:
    return (entry for entry in _entries if entry.instance == instance and entry.ended is None)


@patching.on_reset
def _reset_ledger() -> None:
    _entries.clear()


@action("GET", "ledger")
def _get_ledger(_: Any) -> Any:
    """Return every entry with its cost in USD, which is null if the price is unknown."""
    moment = clock.now()
    return {"now": moment.isoformat(), "entries": [_describe(entry, moment) for entry in _entries]}


def _describe(entry: Entry, moment: datetime) -> dict[str, Any]:
    usd = entry.usd(moment)
    return {
        "instance": entry.instance,
        "type": entry.instance_type,
        "zone": entry.zone,
        "market": entry.market,
        "started": entry.started.isoformat(),
        "ended": entry.ended.isoformat() if entry.ended else None,
        "usd": None if usd is None else float(usd),
    }
