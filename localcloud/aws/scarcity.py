"""Zones that have neither On-Demand nor Spot capacity for an instance type.

Reserved capacity is not affected: AWS keeps reserved capacity for its owner.
"""

from datetime import datetime, timedelta
from typing import Any

from localcloud.aws import clock, control_actions, patching
from localcloud.aws.ec2.instance_types import find_offered_zones

_until: dict[tuple[str, str], datetime | None] = {}
"""Maps an instance type and zone to the time when the scarcity ends; None if it lasts until the next reset."""


def is_scarce(name: str, zone: str) -> bool:
    if (name, zone) not in _until:
        return False
    end = _until[(name, zone)]
    return end is None or clock.now() < end


def find_free_zones(name: str, region: str) -> list[str]:
    """Return the zones of the Region that have capacity for the type."""
    return [zone for zone in find_offered_zones(region).get(name, ()) if not is_scarce(name, zone)]


def add_scarcity(name: str, zone: str, seconds: float | None = None) -> None:
    """Remove all free capacity of a type from a zone, for the given time or until the next reset."""
    offered = find_offered_zones(zone[:-1])
    if name not in offered:
        raise ValueError(f"{name} is not offered in {zone[:-1]}")
    if zone not in offered[name]:
        raise ValueError(f"{name} is not offered in {zone}. Use {', '.join(offered[name])}")
    if seconds is not None and seconds <= 0:
        raise ValueError(f"the time must be positive (got {seconds:g} s)")
    _until[(name, zone)] = None if seconds is None else clock.now() + timedelta(seconds=seconds)


def remove_scarcity(name: str, zone: str) -> None:
    if (name, zone) not in _until:
        raise ValueError(f"{name} is not scarce in {zone}")
    del _until[(name, zone)]


def list_scarcities() -> list[dict[str, str | None]]:
    """Return the types and zones without capacity, as JSON."""
    scarce = [(*place, moment) for place, moment in _until.items() if is_scarce(*place)]
    return [{"type": name, "zone": zone, "until": moment.isoformat() if moment else None} for name, zone, moment in scarce]


@control_actions.action("GET", "scarcity")
def _handle_list(_: Any) -> list[dict[str, str | None]]:
    return list_scarcities()


@control_actions.action("POST", "scarcity")
def _handle_add(body: dict[str, Any]) -> list[dict[str, str | None]]:
    add_scarcity(body["type"], body["zone"], body.get("seconds"))
    return list_scarcities()


@control_actions.action("DELETE", "scarcity")
def _handle_remove(body: dict[str, Any] | None) -> list[dict[str, str | None]]:
    if body is None:
        _reset_scarcity()
    else:
        remove_scarcity(body["type"], body["zone"])
    return list_scarcities()


@patching.on_reset
def _reset_scarcity() -> None:
    _until.clear()
