"""Zones of the VPC, the control plane and the pools; sizes and placement groups of the pools. Performs no I/O.

Explicit settings take precedence, then come the values that the stack already uses, then those that AWS offers now.
"""

from infra.facts.instance_types import InstanceType
from infra.facts.model import Facts
from infra.plan.specs import Sizes
from infra.settings.pools import Pool
from infra.settings.stack import Settings
from infra.settings.targets import SystemPool

MAXIMUM_ZONES = 4
GROUP, APART = "group", "apart"
"""Values to which `placementGroup: auto` can resolve, as recorded in tags of node groups."""


def list_vpc_zones(settings: Settings, facts: Facts) -> tuple[str, ...]:
    """Return the zones of the VPC, sorted by name: those of the given subnets, those in the settings, or zones chosen
    here."""
    network = settings.network
    if network.is_existing:
        return tuple(sorted({facts.subnets[subnet_id].zone for subnet_id in network.subnet_ids if subnet_id in facts.subnets}))
    return tuple(sorted(network.zone_names)) or _choose_zones(settings, facts)


def _choose_zones(settings: Settings, facts: Facts) -> tuple[str, ...]:
    """Choose existing zones first, then zones to which pools are bound, then zones that offer the most of the stack's
    instance types.

    Among existing zones, those of the control plane come first, because the control plane cannot move to other zones.
    """
    count = settings.network.zone_count
    limit = count or MAXIMUM_ZONES
    usable = [zone.name for zone in facts.zones]
    bound = [zone for pool in settings.pools if (zone := find_bound_zone(pool, facts)) in usable]
    fixed = facts.existing.cluster_zones
    chosen = sorted(facts.existing.zones, key=lambda zone: (zone not in fixed, zone not in bound, zone))
    chosen += [zone for zone in dict.fromkeys(bound) if zone not in chosen]
    for pool in settings.pools:
        offered = facts.offerings.get(pool.instance_type, frozenset())
        if find_bound_zone(pool, facts) is None and not offered & set(chosen):
            chosen += _rank_zones(settings, facts, [zone for zone in usable if zone in offered])[:1]
    for zone in _rank_zones(settings, facts, usable):
        if (
            len(chosen) < (count or (len(chosen) if facts.existing.zones else settings.target.default_zones))
            and zone not in chosen
        ):
            chosen.append(zone)
    return tuple(sorted(chosen[:limit]))


def _rank_zones(settings: Settings, facts: Facts, zones: list[str]) -> list[str]:
    """Sort zones: zones that offer more of the stack's instance types first, then by name."""
    names = [pool.instance_type for pool in settings.pools] + [settings.target.head_type]
    return sorted(zones, key=lambda zone: (-sum(zone in facts.offerings.get(name, ()) for name in names), zone))


def list_control_plane_zones(settings: Settings, facts: Facts) -> tuple[str, ...]:
    """Return the zones in which the cluster was created. EKS can neither add nor remove zones later.

    https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
    """
    zones = list_vpc_zones(settings, facts)
    return tuple(zone for zone in zones if zone in facts.existing.cluster_zones) or zones


def list_system_zones(settings: Settings, facts: Facts) -> tuple[str, ...]:
    """Return the zones of the VPC, except zones added after the system pool was created: a change of subnets would
    replace the pool's node group."""
    zones, existing = list_vpc_zones(settings, facts), facts.existing.pools.get(settings.eks.system.name)
    return tuple(zone for zone in zones if existing and zone in existing.zones) or zones


def group_subnets_by_zone(settings: Settings, facts: Facts) -> dict[str, list[str]]:
    """Return the subnets of an existing VPC. In each zone, subnets in use come first, so that reordering or adding
    subnets does not move nodes."""
    used = frozenset[str]().union(*(pool.subnet_ids for pool in facts.existing.pools.values()))
    subnets = sorted((facts.subnets[key] for key in settings.network.subnet_ids), key=lambda subnet: subnet.id not in used)
    zones = list_vpc_zones(settings, facts)
    return {zone: [subnet.id for subnet in subnets if subnet.zone == zone] for zone in zones}


def choose_nat_zones(settings: Settings, facts: Facts) -> tuple[str, ...]:
    """Return the zones with a NAT gateway. A single gateway is in a zone of the control plane, so that it stays there
    when zones are added."""
    match settings.network.nat:
        case "none":
            return ()
        case "one" if not settings.is_eks:  # in the zone of the nodes: AWS charges for traffic between zones
            zones = list_vpc_zones(settings, facts)
            return tuple(zone for pool in settings.pools if (zone := choose_pool_zone(pool, settings, facts)))[:1] or zones[:1]
        case "one":
            return list_control_plane_zones(settings, facts)[:1]
        case "perZone":
            return list_vpc_zones(settings, facts)


def find_bound_zone(pool: Pool, facts: Facts) -> str | None:
    """Return the zone to which a pool is bound: the zone in the settings, the existing pool's zone, or the reservation's
    zone."""
    if pool.zone is not None:
        return pool.zone
    if pool.name in facts.existing.pools:
        return facts.existing.pools[pool.name].zone
    reservation = facts.reservations.get(pool.reservation_id or "")
    return reservation.zone if reservation else None


def choose_pool_zone(pool: Pool, settings: Settings, facts: Facts) -> str | None:
    """Return the pool's zone; None if no zone of the VPC offers its type."""
    zones = list_vpc_zones(settings, facts)
    bound = find_bound_zone(pool, facts)
    if bound is not None:
        return bound if bound in zones else None
    return next(iter(list_offering_zones(pool.instance_type, settings, facts)), None)


def list_offering_zones(type_name: str, settings: Settings, facts: Facts) -> tuple[str, ...]:
    """Return the zones of the VPC that offer an instance type, sorted by name."""
    offered = facts.offerings.get(type_name, frozenset())
    return tuple(zone for zone in list_vpc_zones(settings, facts) if zone in offered)


def plan_sizes(pool: Pool | SystemPool, settings: Settings, facts: Facts) -> Sizes:
    """Return the pool's sizes.

    A new pool starts with its initial size. An existing pool owned by the autoscaler keeps its size. If its minimum or
    maximum changes, the size is clamped to the new bounds, and `up` also sets the size: EKS rejects bounds that exclude
    the desired size."""
    minimum, maximum, existing = pool.min_size, pool.max_size, facts.existing.pools.get(pool.name)
    if existing is None or not settings.platform.autoscaler:
        return Sizes(minimum, pool.initial_size, maximum)
    if (existing.min_size, existing.max_size) == (minimum, maximum):
        return Sizes(minimum, existing.desired_size, maximum, keeps_desired=True)
    return Sizes(minimum, min(max(existing.desired_size, minimum), maximum), maximum)


def has_efa(pool: Pool, instance_type: InstanceType) -> bool:
    """True if the pool's nodes get EFA: their type supports it, and `efa` is not false."""
    return instance_type.efa_maximum > 0 and pool.efa is not False


def needs_placement_group(pool: Pool, facts: Facts) -> bool:
    """True if the stack creates a cluster placement group for the pool."""
    return resolve_placement(pool, facts) == GROUP


def resolve_placement(pool: Pool, facts: Facts) -> str | None:
    """Return the value to which `placementGroup: auto` resolves: `GROUP` if the pool can have several nodes with EFA,
    otherwise `APART`.

    None if there is nothing to choose: another setting, no EFA, no support for cluster placement groups, or reserved
    capacity. With reserved capacity, a placement group would reduce what can be launched. The choice made for an
    existing pool is kept, because a resize must not restart its nodes."""
    instance_type = facts.instance_types.get(pool.instance_type)
    if pool.placement_group != "auto" or pool.is_reserved or instance_type is None:
        return None
    if not has_efa(pool, instance_type) or "cluster" not in instance_type.placement_strategies:
        return None
    existing = facts.existing.pools.get(pool.name)
    if existing and existing.placement and existing.instance_type == pool.instance_type:
        return existing.placement
    return GROUP if pool.max_size > 1 else APART
