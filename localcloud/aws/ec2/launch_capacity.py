"""Capacity (On-Demand, Spot, a reservation or a Capacity Block) and placement of a launch.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-launch.html
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-launch.html
"""

from collections.abc import Mapping
from typing import Any

from localcloud.aws import scarcity
from localcloud.aws.ec2 import placement_groups
from localcloud.aws.ec2.capacity_reservations import CapacityReservation, find, list_reservations
from localcloud.aws.ec2.instance_types import TypeFacts, find_offered_zones
from localcloud.aws.ec2.placement_groups import PlacementGroup
from localcloud.aws.ec2.refusals import build_invalid_value_error
from localcloud.aws.errors import AwsError

MARKETS = ("spot", "capacity-block")


def read_market(data: Mapping[str, Any], facts: TypeFacts) -> str:
    """Return the market type: `on-demand`, `spot` or `capacity-block`."""
    options = data.get("InstanceMarketOptions") or {}
    kind: str = options.get("MarketType", "on-demand")
    if kind != "on-demand" and kind not in MARKETS:
        raise build_invalid_value_error(kind, "marketType", f"It must be one of {', '.join(MARKETS)}.")
    if facts.usage_classes and kind not in facts.usage_classes:
        raise AwsError("Unsupported", f"The instance type {facts.name} cannot be launched as {kind}.")
    if kind == "capacity-block" and "SpotOptions" in options:
        raise AwsError("InvalidParameterCombination", "Spot options cannot be specified with the market type capacity-block.")
    return kind


def find_placement_group(backend: Any, data: Mapping[str, Any], facts: TypeFacts, zone: str, count: int) -> PlacementGroup | None:
    placement = data.get("Placement") or {}
    if not placement.get("GroupName") and not placement.get("GroupId"):
        return None
    group = placement_groups.find_group(backend, name=placement.get("GroupName"), group_id=placement.get("GroupId"))
    if group.strategy not in facts.placement_strategies:
        raise AwsError(
            "InvalidParameterCombination",
            f"Placement groups with the strategy {group.strategy} may not be used with instances of type '{facts.name}'.",
        )
    group.check_zone(zone, count)
    return group


def check_type_is_offered(region: str, name: str, zone: str) -> None:
    zones = find_offered_zones(region)
    if zones and zone not in zones.get(name, ()):
        choice = ", ".join(zones.get(name, ()))
        raise AwsError(
            "Unsupported",
            f"Your requested instance type ({name}) is not supported in your requested Availability Zone ({zone}). "
            f"Please retry your request by not specifying an Availability Zone or choosing {choice}.",
        )


def check_free_capacity(region: str, name: str, zone: str, market: str, reserved: CapacityReservation | None) -> None:
    """Raise EC2's error if the zone has no capacity left: https://repost.aws/knowledge-center/ec2-insufficient-capacity-errors"""
    if reserved is not None or not scarcity.is_scarce(name, zone):
        return
    if market == "spot":
        raise AwsError("InsufficientInstanceCapacity", "There is no Spot capacity available that matches your request.", 500)
    zones = ", ".join(scarcity.find_free_zones(name, region))
    fix = f" You can currently get {name} capacity by not specifying an Availability Zone in your request or choosing {zones}."
    raise AwsError(
        "InsufficientInstanceCapacity",
        f"We currently do not have sufficient {name} capacity in the Availability Zone you requested ({zone}). Our system will "
        f"be working on provisioning additional capacity.{fix if zones else ''}",
        500,
    )


def find_reservation(
    backend: Any, data: Mapping[str, Any], facts: TypeFacts, zone: str, group: PlacementGroup | None, kind: str, count: int
) -> CapacityReservation | None:
    """Return the reservation in which the instances will run, if any. Raise AWS's error if the reservation cannot serve
    the launch."""
    specification = data.get("CapacityReservationSpecification") or {}
    target = specification.get("CapacityReservationTarget") or {}
    preference = specification.get("CapacityReservationPreference")
    if kind == "spot":
        if target:
            raise AwsError("InvalidParameterCombination", "A capacity reservation cannot be targeted by a Spot request.")
        return None
    if target and preference not in (None, "capacity-reservations-only"):
        raise AwsError(
            "InvalidParameterCombination",
            "A capacity reservation preference and a target may not be specified on the same request.",
        )
    targets = _list_target_reservations(backend, target)
    if kind == "capacity-block" and not target.get("CapacityReservationId"):
        raise AwsError("InvalidParameterCombination", "A Capacity Block must be targeted by its capacity reservation id.")
    if target:
        _check_reservation_kind(targets, kind)
        return _find_free_reservation(targets, facts.name, zone, group, count)
    if preference == "none":
        return None
    open_ones = [item for item in list_reservations(backend) if item.match == "open" and item.kind == "default"]
    try:
        return _find_free_reservation(open_ones, facts.name, zone, group, count)
    except AwsError:
        if preference == "capacity-reservations-only":
            raise
        return None


def _list_target_reservations(backend: Any, target: Mapping[str, Any]) -> list[CapacityReservation]:
    if "CapacityReservationId" in target:
        return [find(backend, target["CapacityReservationId"])]
    group = target.get("CapacityReservationResourceGroupArn")
    return [item for item in list_reservations(backend) if group is not None and item.resource_group_arn == group]


def _check_reservation_kind(targets: list[CapacityReservation], kind: str) -> None:
    expected_kind = "capacity-block" if kind == "capacity-block" else "default"
    wrong = [item for item in targets if item.kind != expected_kind]
    if wrong and kind == "capacity-block":
        raise AwsError("InvalidParameterCombination", f"The capacity reservation '{wrong[0].id}' is not a Capacity Block.")
    if wrong:
        raise AwsError(
            "InvalidParameterCombination",
            f"The capacity reservation '{wrong[0].id}' is a Capacity Block: the market type capacity-block must be specified.",
        )


def _find_free_reservation(
    candidates: list[CapacityReservation], name: str, zone: str, group: PlacementGroup | None, count: int
) -> CapacityReservation:
    arn = group.arn if group else None
    for item in candidates:
        fits = item.instance_type == name and item.zone == zone and item.placement_group_arn in (None, arn)
        if fits and item.available >= count:
            return item
    raise AwsError(
        "ReservationCapacityExceeded",
        "The requested reservation does not have sufficient compatible and available capacity for this request.",
    )
