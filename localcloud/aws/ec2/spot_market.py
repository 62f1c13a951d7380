"""Spot prices and placement scores.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_GetSpotPlacementScores.html

It is not known how AWS sets prices and scores. In the local cloud, a zone's price is the Spot price in the price snapshot.
If the snapshot contains none, the price is 30% to 45% of the On-Demand price, depending on the zone. Scores also depend on
the zone. Prices and scores are the same in every run.
"""

import hashlib
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

from infra.cost import prices
from localcloud.aws import clock, scarcity
from localcloud.aws.call import Call
from localcloud.aws.ec2 import instance_types
from localcloud.aws.ec2.filters import filter_items, select_page
from localcloud.aws.ec2.refusals import build_invalid_value_error, build_missing_parameter_error, stop_dry_run
from localcloud.aws.ec2.zones import find_zone, list_zones
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

PRODUCT = "Linux/UNIX"
_PRODUCTS = (PRODUCT, "Linux/UNIX (Amazon VPC)")
_UNITS = ("units", "vcpu", "memory-mib")
FEW_TYPES = 3
"""If a request lists fewer instance types than this, placement scores are always low."""
_BEST = 10


@operation("ec2", "DescribeSpotPriceHistory")
def describe_spot_price_history(call: Call) -> dict[str, Any]:
    """Return only the current prices: the local AWS keeps no history, because prices never change."""
    params = call.params
    names = params.get("InstanceTypes") or sorted(prices.read_snapshot(call.region).instances)
    zone = params.get("AvailabilityZone") or params.get("AvailabilityZoneId")
    zone_name = find_zone(call.backend, zone).name if zone else None
    start, end = params.get("StartTime"), params.get("EndTime")
    if start is not None and end is not None and start > end:
        raise build_invalid_value_error(start.isoformat(), "StartTime", "It must be before EndTime.")
    is_sold = any(product in _PRODUCTS for product in params.get("ProductDescriptions") or _PRODUCTS)
    current_prices = [
        {
            "AvailabilityZone": place,
            "InstanceType": name,
            "ProductDescription": PRODUCT,
            "SpotPrice": f"{price:.6f}",
            "Timestamp": _round_down_to_hour(clock.now()),
        }
        for name in names
        for place, price in _list_prices(call.region, name)
        if is_sold and zone_name in (None, place)
    ]
    matching = filter_items(
        current_prices,
        params.get("Filters"),
        {
            "availability-zone": lambda row: row["AvailabilityZone"],
            "instance-type": lambda row: row["InstanceType"],
            "product-description": lambda row: row["ProductDescription"],
            "spot-price": lambda row: row["SpotPrice"],
        },
        lambda _: {},
    )
    stop_dry_run(call)
    matching, token = select_page(matching, {"MaxResults": 1000, **params})
    return {"SpotPriceHistory": matching, **token}


def _list_prices(region: str, name: str) -> Iterator[tuple[str, Decimal]]:
    instance_facts, offered = instance_types.find_type_facts(name), instance_types.find_offered_zones(region).get(name, ())
    if instance_facts is None or "spot" not in instance_facts.usage_classes:
        return
    snapshot = prices.read_snapshot(region)
    reported, on_demand = snapshot.spot_price(name, None), snapshot.on_demand(name)
    for zone in offered:
        if reported is not None:
            yield zone, reported.usd
        elif on_demand is not None:
            yield zone, on_demand.usd * (30 + _draw_number(zone, name) % 16) / 100


def compute_spot_price(region: str, name: str, zone: str) -> Decimal | None:
    """Return the spot price per hour of an instance type in a zone; None if it is unknown."""
    return dict(_list_prices(region, name)).get(zone)


def _round_down_to_hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


@operation("ec2", "GetSpotPlacementScores")
def get_spot_placement_scores(call: Call) -> dict[str, Any]:
    params, names = call.params, call.params.get("InstanceTypes", [])
    if "InstanceRequirementsWithMetadata" in params:
        raise AwsError("NotImplementedInLocalCloud", "The local cloud scores only InstanceTypes, not InstanceRequirements.")
    if not names:
        raise build_missing_parameter_error("InstanceTypes")
    if unknown := [name for name in names if instance_types.find_type_facts(name) is None]:
        raise build_invalid_value_error(unknown[0], "InstanceTypes", "The instance type does not exist")
    if params["TargetCapacity"] < 1:
        raise build_invalid_value_error(params["TargetCapacity"], "TargetCapacity", "It must be 1 or more.")
    if params.get("TargetCapacityUnitType", "units") not in _UNITS:
        raise build_invalid_value_error(
            params["TargetCapacityUnitType"], "TargetCapacityUnitType", f"Use one of {', '.join(_UNITS)}."
        )
    regions = params.get("RegionNames") or [call.region]
    if len(regions) > _BEST:
        raise build_invalid_value_error(len(regions), "RegionNames", "At most 10 Regions are allowed.")
    stop_dry_run(call)
    by_zone = bool(params.get("SingleAvailabilityZone"))
    scores = [score for region in regions for score in _compute_scores(region, names, by_zone)]
    best_scores, token = select_page(sorted(scores, key=lambda score: -score["Score"])[:_BEST], params)
    return {"SpotPlacementScores": best_scores, **token}


def _compute_scores(region: str, names: list[str], by_zone: bool) -> Iterator[dict[str, Any]]:
    offered = instance_types.find_offered_zones(region)
    scores: dict[str, int] = {}
    for zone in list_zones(region):
        here = [name for name in names if zone.name in offered.get(name, ()) and not scarcity.is_scarce(name, zone.name)]
        most = 9 if len(names) >= FEW_TYPES else 3
        if here:
            scores[zone.zone_id] = 1 + _draw_number(zone.name, *here) % most
        elif any(zone.name in offered.get(name, ()) for name in names):
            scores[zone.zone_id] = 1
    if by_zone:
        yield from ({"Region": region, "AvailabilityZoneId": zone, "Score": score} for zone, score in scores.items())
    elif scores:
        yield {"Region": region, "Score": max(scores.values())}


def _draw_number(*parts: str) -> int:
    return int(hashlib.sha256(" ".join(parts).encode()).hexdigest()[:8], 16)
