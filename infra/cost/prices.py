"""Prices of one Region: from AWS's Price List, or from the dated snapshot next to this file.

An unknown price is None, never zero.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from infra.cost.items import ITEMS, Item

SNAPSHOT: Final = Path(__file__).with_name("prices.json")
HOURS_PER_MONTH: Final = 730
"""AWS's own convention for monthly prices: https://calculator.aws"""

Kind = Literal["Price List", "snapshot"]


@dataclass(frozen=True)
class Price:
    """A price in USD for one unit."""

    usd: Decimal
    source: str
    date: str
    verified: bool = True
    """False if the price has not been compared with an AWS price list."""


@dataclass(frozen=True)
class Prices:
    """Prices of a Region. Spot prices depend on the zone, but a snapshot has one Spot price per type and Region."""

    region: str
    kind: Kind
    date: str
    """Date of the query or, for a snapshot, of the newest source of its instance prices."""
    instances: Mapping[str, Price] = field(default_factory=dict)
    """Maps each instance type to the on-demand price per hour for Linux."""
    items: Mapping[Item, Price] = field(default_factory=dict)
    spot: Mapping[tuple[str, str], Price] = field(default_factory=dict)
    """(Instance type, zone) -> current spot price per hour. The zone is empty in a snapshot."""
    missing: str | None = None
    """Reason why some prices could not be read."""

    def item_price(self, name: Item) -> Price | None:
        """Return the price of an item; None if it is unknown. Raises KeyError for a name that is not in `ITEMS`."""
        if name not in ITEMS:
            raise KeyError(name)
        return self.items.get(name)

    def on_demand(self, instance_type: str) -> Price | None:
        return self.instances.get(instance_type)

    def spot_price(self, instance_type: str, zone: str | None) -> Price | None:
        """Return the Spot price in a zone or, if it is unknown, the Spot price for the whole Region (snapshots)."""
        return self.spot.get((instance_type, zone or "")) or self.spot.get((instance_type, ""))


def read_snapshot(region: str) -> Prices:
    """Return a Region's prices from the dated snapshot; no prices if the snapshot lacks the Region."""
    content = _load_snapshot()
    instances = _read_region_prices(content["instances"], region)
    items = _read_region_prices(content["items"], region)
    spot = {(name, ""): price for name, price in _read_region_prices(content["spot"], region).items()}
    used = instances or items  # instances account for most of a bill
    newest = max((price.date for price in used.values()), default=max(source["date"] for source in content["sources"].values()))
    return Prices(region, "snapshot", newest, instances, items, spot)


def read_capacity_block_rates() -> dict[str, Price]:
    """Return the prices per instance-hour of Capacity Blocks that users have reported, keyed by instance type."""
    return _add_sources(_load_snapshot()["capacityBlocks"])


@cache
def _load_snapshot() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    return content


def _read_region_prices(table: Mapping[str, Mapping[str, Mapping[str, str]]], region: str) -> dict[str, Price]:
    return _add_sources(table.get(region, {}))


def _add_sources(by_source: Mapping[str, Mapping[str, str]]) -> dict[str, Price]:
    sources = _load_snapshot()["sources"]
    return {
        name: Price(Decimal(usd), sources[source]["title"], sources[source]["date"], sources[source]["verified"])
        for source, prices in by_source.items()
        for name, usd in prices.items()
    }
