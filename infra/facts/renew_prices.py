"""Renew the dated snapshot of prices: `python -m infra.facts.renew_prices REGION...`. Queries AWS's Price List."""

import json
import sys
from collections.abc import Mapping

from infra.cost.prices import SNAPSHOT, Price
from infra.facts import price_list
from infra.facts.price_list import PRICE_LIST, Wanted


def renew_region_prices(region: str) -> int:
    """Query and store the Region's prices of all instance types that the snapshot lists in any Region, and of all
    items. Return the number of prices found. Cached prices are ignored, because the snapshot is stored with today's
    date.
    """
    content = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    names = {name for by_source in content["instances"].values() for types in by_source.values() for name in types}
    prices = price_list.read(Wanted(region, frozenset(names), frozenset()), cached=False)
    if not prices.items:
        raise SystemExit(f"renew_prices: {region}: {prices.missing or 'the Price List has no prices'}; nothing was written")
    date = prices.date
    source = f"price-list-{date}"
    content["sources"][source] = {"title": PRICE_LIST, "date": date, "verified": True}
    content["instances"][region] = {
        source: _format_prices(prices.instances),
        **_keep_unrenewed_prices(content["instances"], region, prices.instances),
    }
    items = {str(name): price for name, price in prices.items.items()}
    content["items"][region] = {source: _format_prices(items), **_keep_unrenewed_prices(content["items"], region, items)}
    SNAPSHOT.write_text(f"{json.dumps(content, indent=1)}\n", encoding="utf-8")
    return len(prices.instances) + len(prices.items)


def _format_prices(prices: Mapping[str, Price]) -> dict[str, str]:
    return {name: str(price.usd) for name, price in sorted(prices.items())}


def _keep_unrenewed_prices(
    table: Mapping[str, Mapping[str, Mapping[str, str]]], region: str, renewed: Mapping[str, Price]
) -> dict[str, dict[str, str]]:
    """Return the Region's prices that were not renewed, keyed by source."""
    remaining = {
        source: {name: usd for name, usd in prices.items() if name not in renewed}
        for source, prices in table.get(region, {}).items()
    }
    return {source: prices for source, prices in remaining.items() if prices}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{name}: {renew_region_prices(name)} prices")
