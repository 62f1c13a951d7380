"""Current prices: on-demand instances and other billed items from AWS's Price List, spot prices from EC2.

The Price List changes rarely and takes seconds to query, so answers are cached for a day.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from infra.cost.items import INSTANCE_FILTERS, INSTANCE_SERVICE, ITEMS, PriceRow
from infra.cost.prices import Price, Prices
from infra.facts.clients import Clients, Result, read_pages, try_query
from infra.settings.pools import Spot
from infra.settings.stack import Settings

PRICE_LIST: Final = "AWS Price List"
SPOT: Final = "EC2 spot price history"
PLATFORM: Final = "Linux/UNIX"
KEPT: Final = timedelta(hours=24)
PARALLEL: Final = 16

PriceListRegion = Literal["us-east-1", "eu-central-1", "ap-south-1"]


def choose_price_list_region(region: str) -> PriceListRegion:
    """Return the Region of the Price List endpoint to query. Each of the three endpoints serves the prices of all
    Regions.

    >>> choose_price_list_region("eu-west-1"), choose_price_list_region("us-west-2")
    ('eu-central-1', 'us-east-1')
    """
    if region.startswith("ap-"):
        return "ap-south-1"
    return "eu-central-1" if region.startswith("eu-") else "us-east-1"


@dataclass(frozen=True)
class Wanted:
    """Prices that a stack needs."""

    region: str
    instances: frozenset[str]
    spot: frozenset[str]

    @classmethod
    def from_settings(cls, settings: Settings) -> "Wanted":
        spot = frozenset(pool.instance_type for pool in settings.pools if isinstance(pool.capacity, Spot))
        return cls(settings.region, settings.instance_types, spot)


def read(request: Wanted, *, cached: bool = True) -> Prices:
    """Query AWS for prices. If `cached`, use cached prices that are at most a day old. The result omits prices that AWS
    does not report; its `missing` gives the reason.
    """
    region, now = request.region, datetime.now(UTC)
    reasons: list[str] = []
    clients, missing = try_query(region, lambda: Clients(region))
    if clients is None:
        return Prices(region, "Price List", now.date().isoformat(), missing=missing)
    pricing, ec2 = clients.create_pricing_client(choose_price_list_region(region)), clients.ec2
    cache = _Kept(region, pricing.meta.endpoint_url, now)

    def try_read(call: Callable[[], Result]) -> Result | None:
        answer, reason = try_query(region, call)
        reasons.extend([reason] if reason else [])
        return answer

    def read_cached(name: str, row: Callable[[], Price | None]) -> Price | None:
        price = cache.get(name) if cached else None
        if price is None:
            price = try_read(row)
            cache.put(name, price)
        return price

    with ThreadPoolExecutor(PARALLEL) as threads:
        instances = {
            name: threads.submit(read_cached, f"instance {name}", partial(_read_instance_price, pricing, region, name, now))
            for name in sorted(request.instances)
        }
        items = {
            name: threads.submit(read_cached, name, partial(_read_item_price, pricing, region, row, now))
            for name, row in ITEMS.items()
        }
        spot = threads.submit(try_read, lambda: _read_spot_prices(ec2, request.spot, now))
    cache.save()
    return Prices(
        region,
        "Price List",
        cache.oldest.date().isoformat(),
        {name: price for name, future in instances.items() if (price := future.result())},
        {name: price for name, future in items.items() if (price := future.result())},
        spot.result() or {},
        missing=next(iter(dict.fromkeys(reasons)), None),
    )


# --- queries ------------------------------------------------------------------------------------------------------------


def _read_instance_price(pricing: Any, region: str, name: str, now: datetime) -> Price | None:
    rows = read_rows(pricing, INSTANCE_SERVICE, {"regionCode": region, "instanceType": name, **INSTANCE_FILTERS})
    return _select_highest_price([usd for row in rows for unit, usd in read_rates(row) if unit == "Hrs" and usd > 0], now)


def _read_item_price(pricing: Any, region: str, item: PriceRow, now: datetime) -> Price | None:
    rows = read_rows(pricing, item.service, {"regionCode": region, **item.attributes}, item.usage_type)
    fitting = [row for row in rows if item.has_usage_type(row["product"]["attributes"].get("usagetype", ""))]
    return _select_highest_price([usd for row in fitting for _, usd in read_rates(row) if usd > 0], now)


def _select_highest_price(prices: list[Decimal], now: datetime) -> Price | None:
    """Return the highest price, which is the price of the first tier; None if the Price List has no matching row."""
    return Price(max(prices), PRICE_LIST, now.date().isoformat()) if prices else None


def read_rows(pricing: Any, service: str, attributes: Mapping[str, str], usage_type: str = "") -> list[dict[str, Any]]:
    """Return the rows of the Price List with these attributes, and with a usage type that contains this one."""
    filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in attributes.items()]
    filters += [{"Type": "CONTAINS", "Field": "usagetype", "Value": usage_type}] if usage_type else []
    return [json.loads(row) for row in read_pages(pricing, "get_products", "PriceList", ServiceCode=service, Filters=filters)]


def read_rates(row: Mapping[str, Any]) -> Iterable[tuple[str, Decimal]]:
    for term in row.get("terms", {}).get("OnDemand", {}).values():
        for rate in term["priceDimensions"].values():
            if "USD" in rate["pricePerUnit"]:
                yield rate["unit"], Decimal(rate["pricePerUnit"]["USD"])


def _read_spot_prices(ec2: Any, types: frozenset[str], now: datetime) -> dict[tuple[str, str], Price]:
    """Return the current spot price of each type and zone."""
    prices = read_spot_prices(ec2, types, now) if types else {}
    return {key: Price(usd, SPOT, now.date().isoformat()) for key, usd in prices.items()}


def read_spot_prices(ec2: Any, types: Iterable[str], now: datetime) -> dict[tuple[str, str], Decimal]:
    """Return the newest spot price of each type and zone."""
    query = {"InstanceTypes": sorted(types), "ProductDescriptions": [PLATFORM], "StartTime": now}
    rows = read_pages(ec2, "describe_spot_price_history", "SpotPriceHistory", **query)
    rows.sort(key=lambda row: row["Timestamp"])
    return {(row["InstanceType"], row["AvailabilityZone"]): Decimal(row["SpotPrice"]) for row in rows}


# --- cache --------------------------------------------------------------------------------------------------------------


class _Kept:
    """On-disk cache of the prices of one Region, read from one endpoint. An unreadable file counts as an empty
    cache."""

    def __init__(self, region: str, endpoint: str, now: datetime) -> None:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpumpi" / "prices"
        self._path = folder / f"{region}-{hashlib.sha256(endpoint.encode()).hexdigest()[:12]}.json"
        self._now, self.oldest = now, now
        self._found: dict[str, dict[str, str]] = {}
        try:
            self._found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return

    def get(self, name: str) -> Price | None:
        entry = self._found.get(name)
        if entry is None:
            return None
        read = datetime.fromisoformat(entry["read"])
        if self._now - read > KEPT:
            return None
        self.oldest = min(self.oldest, read)
        return Price(Decimal(entry["usd"]), PRICE_LIST, read.date().isoformat())

    def put(self, name: str, price: Price | None) -> None:
        if price is not None:
            self._found[name] = {"usd": str(price.usd), "read": self._now.isoformat()}

    def save(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self._found, indent=1), encoding="utf-8")
        except OSError:
            return  # in a read-only home directory nothing is cached, and queries only take longer
