"""Where things go: the zones of the VPC, the zone of each pool, its size at this run, its placement group. Pure.

What was chosen once stays: an explicit setting wins, then what the stack has, and only then what AWS offers today.
"""

from typing import NamedTuple

from infra.facts.model import Facts
from infra.instances import InstanceType
from infra.settings import Pool, Settings, SystemPool

DEFAULT_ZONES = 3
LEAST_ZONES = 2
MOST_ZONES = 4


class DesiredSize(NamedTuple):
    """A pool's number of nodes in this run."""

    size: int
    ignore: bool
    """The autoscaler owns it: `size` counts at creation only."""


def vpc_zones(settings: Settings, facts: Facts) -> tuple[str, ...]:
    """The zones of the VPC, by name: those of the given subnets, the named ones, or a choice."""
    network = settings.network
    if network.is_existing:
        return tuple(sorted({facts.subnets[one].zone for one in network.subnet_ids if one in facts.subnets}))
    return tuple(sorted(network.zone_names)) or _chosen_zones(settings, facts)


def _chosen_zones(settings: Settings, facts: Facts) -> tuple[str, ...]:
    """Existing zones first, then those that the pools are bound to, then those that offer most of the pools' types."""
    wanted = settings.network.zone_count
    limit = wanted or MOST_ZONES
    usable = [zone.name for zone in facts.zones]
    bound = [zone for pool in settings.pools if (zone := bound_zone(pool, facts)) in usable]
    chosen = sorted(facts.existing.zones, key=lambda zone: (zone not in bound, zone))
    chosen += [zone for zone in dict.fromkeys(bound) if zone not in chosen]
    for pool in settings.pools:
        offered = facts.offerings.get(pool.instance_type, frozenset())
        if bound_zone(pool, facts) is None and not offered & set(chosen):
            chosen += _best(settings, facts, [zone for zone in usable if zone in offered])[:1]
    for zone in _best(settings, facts, usable):
        if len(chosen) < (wanted or (len(chosen) if facts.existing.zones else DEFAULT_ZONES)) and zone not in chosen:
            chosen.append(zone)
    return tuple(sorted(chosen[:limit]))


def _best(settings: Settings, facts: Facts, zones: list[str]) -> list[str]:
    """Zones that offer more of the stack's types first, then by name."""
    names = [pool.instance_type for pool in settings.pools] + [settings.target.system.instance_type]
    return sorted(zones, key=lambda zone: (-sum(zone in facts.offerings.get(name, ()) for name in names), zone))


def bound_zone(pool: Pool, facts: Facts) -> str | None:
    """The zone that a pool cannot choose: told by the user, taken before, or its reservation's."""
    if pool.zone is not None:
        return pool.zone
    if pool.name in facts.existing.pools:
        return facts.existing.pools[pool.name].zone
    reservation = facts.reservations.get(pool.reservation_id or "")
    return reservation.zone if reservation else None


def pool_zone(pool: Pool, settings: Settings, facts: Facts) -> str | None:
    """The pool's zone; None where no zone of the VPC offers its type."""
    zones = vpc_zones(settings, facts)
    bound = bound_zone(pool, facts)
    if bound is not None:
        return bound if bound in zones else None
    return next(iter(offering_zones(pool.instance_type, settings, facts)), None)


def offering_zones(type_name: str, settings: Settings, facts: Facts) -> tuple[str, ...]:
    """The zones of the VPC that offer a type, by name."""
    offered = facts.offerings.get(type_name, frozenset())
    return tuple(zone for zone in vpc_zones(settings, facts) if zone in offered)


def desired_size(pool: Pool | SystemPool, settings: Settings, facts: Facts) -> DesiredSize:
    """A new pool starts with its initial size. An existing one that the autoscaler owns keeps its size; only where its bounds
    change is the size written too, moved between them, since EKS refuses bounds that do not hold it."""
    if not settings.platform.autoscaler:
        return DesiredSize(pool.initial_size, ignore=False)
    existing = facts.existing.pools.get(pool.name)
    if existing is None:
        return DesiredSize(pool.initial_size, ignore=False)
    if (existing.min_size, existing.max_size) == (pool.min_size, pool.max_size):
        return DesiredSize(existing.desired_size, ignore=True)
    return DesiredSize(min(max(existing.desired_size, pool.min_size), pool.max_size), ignore=False)


def has_efa(pool: Pool, instance_type: InstanceType) -> bool:
    """Whether the pool's nodes get EFA: wherever the type has it, unless the user says no."""
    return instance_type.efa_maximum > 0 and pool.efa is not False


def wants_placement_group(pool: Pool, facts: Facts) -> bool:
    """Whether the stack makes a cluster placement group for the pool: for EFA between nodes, and never for capacity that is
    reserved, since a group would shrink what one gets of it."""
    instance_type = facts.instance_types.get(pool.instance_type)
    return (
        pool.placement_group == "auto"
        and instance_type is not None
        and has_efa(pool, instance_type)
        and pool.max_size > 1
        and not pool.is_reserved
        and "cluster" in instance_type.placement_strategies
    )
