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
from infra.facts import regions
from infra.facts.clients import Clients, Denied, query
from infra.facts.model import FactsError
from infra.facts.regions import UnknownRegion
from infra.settings.pools import Spot
from infra.settings.stack import Settings

PRICE_LIST: Final = "AWS Price List"
SPOT: Final = "EC2 spot price history"
KEPT: Final = timedelta(hours=24)
PARALLEL: Final = 16

PriceListRegion = Literal["us-east-1", "eu-central-1", "ap-south-1"]


def price_list_region(region: str) -> PriceListRegion:
    """Return the Region of the Price List endpoint to query. Each of the three endpoints serves the prices of all
    Regions.

    >>> price_list_region("eu-west-1"), price_list_region("us-west-2")
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
    def of(cls, settings: Settings) -> "Wanted":
        names = {settings.target.head_type, *(pool.instance_type for pool in settings.pools)} - {""}
        spot = {pool.instance_type for pool in settings.pools if isinstance(pool.capacity, Spot)}
        return cls(settings.region, frozenset(names), frozenset(spot))


def read(request: Wanted, *, cached: bool = True) -> Prices:
    """Query AWS for prices. If `cached`, use cached prices that are at most a day old. The result omits prices that AWS
    does not report; its `missing` gives the reason.
    """
    region, now = request.region, datetime.now(UTC)
    reasons: list[str] = []
    try:
        clients = query(region, lambda: Clients(region))
        pricing, ec2 = clients.pricing(price_list_region(region)), clients.ec2
        cache = _Kept(region, pricing.meta.endpoint_url, now)
    except FactsError as error:
        return Prices(region, "Price List", now.date().isoformat(), missing=_reason(error))

    def asked(name: str, row: Callable[[], Price | None]) -> Price | None:
        price = cache.get(name) if cached else None
        if price is None:
            price = _tried(region, row, reasons)
            cache.put(name, price)
        return price

    with ThreadPoolExecutor(PARALLEL) as threads:
        instances = {
            name: threads.submit(asked, f"instance {name}", partial(_instance, pricing, region, name, now))
            for name in sorted(request.instances)
        }
        items = {name: threads.submit(asked, name, partial(_item, pricing, region, row, now)) for name, row in ITEMS.items()}
        spot = threads.submit(_tried, region, lambda: _spot(ec2, request.spot, now), reasons)
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


def _tried(region: str, call: Callable[[], Any], reasons: list[str]) -> Any:
    try:
        return query(region, call)
    except Denied as denied:
        reasons.append(f"you are not allowed to call {denied}")
    except FactsError as error:
        reasons.append(_reason(error))
    return None


def _reason(error: FactsError) -> str:
    return regions.WRONG if isinstance(error, UnknownRegion) else str(error)


# --- queries ------------------------------------------------------------------------------------------------------------


def _instance(pricing: Any, region: str, name: str, now: datetime) -> Price | None:
    filters = {"regionCode": region, "instanceType": name, **INSTANCE_FILTERS}
    prices = [
        usd for row in _rows(pricing, INSTANCE_SERVICE, _terms(filters)) for unit, usd in _rates(row) if unit == "Hrs" and usd > 0
    ]
    return _price(prices, now)


def _item(pricing: Any, region: str, item: PriceRow, now: datetime) -> Price | None:
    contains = [{"Type": "CONTAINS", "Field": "usagetype", "Value": item.usage_type}] if item.usage_type else []
    rows = _rows(pricing, item.service, [*_terms({"regionCode": region, **item.attributes}), *contains])
    fitting = [row for row in rows if item.has_usage_type(row["product"]["attributes"].get("usagetype", ""))]
    return _price([usd for row in fitting for _, usd in _rates(row) if usd > 0], now)


def _price(prices: list[Decimal], now: datetime) -> Price | None:
    """Return the highest price, which is the price of the first tier; None if the Price List has no matching row."""
    return Price(max(prices), PRICE_LIST, now.date().isoformat()) if prices else None


def _terms(filters: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in filters.items()]


def _rows(pricing: Any, service: str, filters: list[dict[str, str]]) -> list[dict[str, Any]]:
    pages = pricing.get_paginator("get_products").paginate(ServiceCode=service, Filters=filters)
    return [json.loads(row) for page in pages for row in page["PriceList"]]


def _rates(row: Mapping[str, Any]) -> Iterable[tuple[str, Decimal]]:
    for term in row.get("terms", {}).get("OnDemand", {}).values():
        for rate in term["priceDimensions"].values():
            if "USD" in rate["pricePerUnit"]:
                yield rate["unit"], Decimal(rate["pricePerUnit"]["USD"])


def _spot(ec2: Any, types: frozenset[str], now: datetime) -> dict[tuple[str, str], Price]:
    """Return the current spot price of each type and zone."""
    if not types:
        return {}
    pages = ec2.get_paginator("describe_spot_price_history").paginate(
        InstanceTypes=sorted(types), ProductDescriptions=["Linux/UNIX"], StartTime=now
    )
    rows = sorted((row for page in pages for row in page["SpotPriceHistory"]), key=lambda row: row["Timestamp"])
    return {
        (row["InstanceType"], row["AvailabilityZone"]): Price(Decimal(row["SpotPrice"]), SPOT, now.date().isoformat())
        for row in rows
    }


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
