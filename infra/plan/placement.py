"""Where things go: the zones of the VPC, of the control plane and of each pool, its size at this run, its placement group. Pure.

What was chosen once stays: an explicit setting wins, then what the stack has, and only then what AWS offers today.
"""

from typing import NamedTuple

from infra.facts.instance_types import InstanceType
from infra.facts.model import Facts
from infra.settings.pools import Pool
from infra.settings.stack import Settings
from infra.settings.targets import SystemPool

DEFAULT_ZONES = 3
LEAST_ZONES = 2
"""Of EKS: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html"""
MOST_ZONES = 4
GROUP, APART = "group", "apart"
"""The choices of `placementGroup: auto`, as node groups' tags keep them."""


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
    """Existing zones first, then those that the pools are bound to, then those that offer most of the pools' types.

    Of the existing ones the control plane's come first, since it cannot leave them.
    """
    wanted = settings.network.zone_count
    limit = wanted or MOST_ZONES
    usable = [zone.name for zone in facts.zones]
    bound = [zone for pool in settings.pools if (zone := bound_zone(pool, facts)) in usable]
    fixed = facts.existing.cluster_zones
    chosen = sorted(facts.existing.zones, key=lambda zone: (zone not in fixed, zone not in bound, zone))
    chosen += [zone for zone in dict.fromkeys(bound) if zone not in chosen]
    for pool in settings.pools:
        offered = facts.offerings.get(pool.instance_type, frozenset())
        if bound_zone(pool, facts) is None and not offered & set(chosen):
            chosen += _best(settings, facts, [zone for zone in usable if zone in offered])[:1]
    for zone in _best(settings, facts, usable):
        if len(chosen) < (wanted or (len(chosen) if facts.existing.zones else default_zones(settings))) and zone not in chosen:
            chosen.append(zone)
    return tuple(sorted(chosen[:limit]))


def default_zones(settings: Settings) -> int:
    """A plain EC2 cluster is in one zone, next to its file system."""
    return DEFAULT_ZONES if settings.is_eks else 1


def least_zones(settings: Settings) -> int:
    return LEAST_ZONES if settings.is_eks else 1


def _best(settings: Settings, facts: Facts, zones: list[str]) -> list[str]:
    """Zones that offer more of the stack's types first, then by name."""
    names = [pool.instance_type for pool in settings.pools] + [settings.target.head_type]
    return sorted(zones, key=lambda zone: (-sum(zone in facts.offerings.get(name, ()) for name in names), zone))


def control_plane_zones(settings: Settings, facts: Facts) -> tuple[str, ...]:
    """Those that the cluster was created in: EKS takes subnets of other zones neither from it nor to it.
    https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
    """
    zones = vpc_zones(settings, facts)
    return tuple(zone for zone in zones if zone in facts.existing.cluster_zones) or zones


def system_zones(settings: Settings, facts: Facts) -> tuple[str, ...]:
    """The zones of the VPC, without those that came after the system pool: other subnets would make another node group of it."""
    zones, existing = vpc_zones(settings, facts), facts.existing.pools.get(settings.eks.system.name)
    return tuple(zone for zone in zones if existing and zone in existing.zones) or zones


def subnets_by_zone(settings: Settings, facts: Facts) -> dict[str, list[str]]:
    """The subnets of an existing VPC, in each zone the one in use first: their order moves nothing, nor does a new one."""
    used = frozenset[str]().union(*(pool.subnet_ids for pool in facts.existing.pools.values()))
    given = sorted((facts.subnets[one] for one in settings.network.subnet_ids), key=lambda subnet: subnet.id not in used)
    zones = vpc_zones(settings, facts)
    return {zone: [subnet.id for subnet in given if subnet.zone == zone] for zone in zones}


def nat_zones(settings: Settings, facts: Facts) -> tuple[str, ...]:
    """Zones with a NAT gateway. A single one is where the control plane is, which does not move when zones are added."""
    match settings.network.nat:
        case "none":
            return ()
        case "one" if not settings.is_eks:  # where the nodes are: traffic between zones costs
            zones = vpc_zones(settings, facts)
            return tuple(zone for pool in settings.pools if (zone := pool_zone(pool, settings, facts)))[:1] or zones[:1]
        case "one":
            return control_plane_zones(settings, facts)[:1]
        case "perZone":
            return vpc_zones(settings, facts)


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
    """Whether the stack makes a cluster placement group for the pool."""
    return placement_choice(pool, facts) == GROUP


def placement_choice(pool: Pool, facts: Facts) -> str | None:
    """What `placementGroup: auto` comes to: a group for EFA between nodes. None where there is nothing to choose: another word of
    the user's, no EFA, or capacity that is reserved, of which a group would shrink what one gets.

    What was chosen for a pool stays: a resize must not restart its nodes.
    """
    instance_type = facts.instance_types.get(pool.instance_type)
    if pool.placement_group != "auto" or pool.is_reserved or instance_type is None:
        return None
    if not has_efa(pool, instance_type) or "cluster" not in instance_type.placement_strategies:
        return None
    existing = facts.existing.pools.get(pool.name)
    if existing and existing.placement and existing.instance_type == pool.instance_type:
        return existing.placement
    return GROUP if pool.max_size > 1 else APART
