"""Rules for zones: the zone of each pool must offer its instance type."""

from collections.abc import Iterator

from infra.config.messages import all_of, one_of, shown
from infra.config.problems import Problem
from infra.facts.instance_types import InstanceType
from infra.facts.model import CapacityReservation, Facts
from infra.facts.queries import Query
from infra.plan.placement import bound_zone, offering_zones, vpc_zones
from infra.settings.pools import Pool
from infra.settings.stack import Settings
from infra.validation.pool_paths import pools_with_types
from infra.validation.registry import EKS, Topic, rule


@rule(Topic.TYPES, reads=(Query.INSTANCE_TYPES, Query.ZONES))
def check_zones_of_pools(settings: Settings, facts: Facts) -> Iterator[Problem]:
    zones = vpc_zones(settings, facts)
    for path, pool, instance_type in pools_with_types(settings, facts):
        if not zones:
            continue
        reservation = facts.reservations.get(pool.reservation_id or "")
        if pool.zone is not None:
            yield from _check_zone_setting(f"{path}.zone", pool, zones, facts)
        elif pool.name in facts.existing.pools:
            yield from _check_zone_of_existing(f"{path}.instanceType", pool, facts)
        elif reservation:
            yield from _check_zone_of_reservation(f"{path}.capacity.reservationId", reservation, settings, zones)
        elif not offering_zones(pool.instance_type, settings, facts):
            yield from _refuse_type(f"{path}.instanceType", instance_type, settings, zones, facts)


def _check_zone_setting(where: str, pool: Pool, zones: tuple[str, ...], facts: Facts) -> Iterator[Problem]:
    """Check that the zone in the settings is a zone of the VPC and offers the pool's instance type."""
    offered = sorted(facts.offerings.get(pool.instance_type, frozenset()) & set(zones))
    if pool.zone not in zones:
        yield Problem(where, f"{shown(pool.zone)} is not a zone of the VPC. Choose {one_of(offered or zones)}.")
    elif pool.zone not in offered:
        fix = f"Choose {one_of(offered)}." if offered else "Choose another type."
        yield Problem(where, f"{shown(pool.zone)} does not offer {pool.instance_type}. {fix}")


def _check_zone_of_reservation(
    where: str, reservation: CapacityReservation, settings: Settings, zones: tuple[str, ...]
) -> Iterator[Problem]:
    """Check that the VPC has a subnet in the zone of the pool's reservation."""
    zone = reservation.zone
    if zone not in zones:
        fix = f"Add a subnet in {zone}" if settings.network.is_existing else f"Add {zone} to network.zones"
        there = f"{reservation.id} is in {zone}, but the VPC's zones are {all_of(zones)}"
        yield Problem(where, f"{there}. {fix}, or use another reservation.")


def _check_zone_of_existing(where: str, pool: Pool, facts: Facts) -> Iterator[Problem]:
    """If an existing pool's instance type changes, check that the pool's zone offers the new type."""
    zone = bound_zone(pool, facts)
    if facts.existing.pools[pool.name].instance_type == pool.instance_type:
        return
    if zone not in facts.offerings.get(pool.instance_type, frozenset()):
        fix = "To recreate the pool, rename it or set its zone."
        yield Problem(where, f"{shown(pool.instance_type)} is not offered in {zone}, where the pool is. {fix}")


def _refuse_type(
    where: str, instance_type: InstanceType, settings: Settings, zones: tuple[str, ...], facts: Facts
) -> Iterator[Problem]:
    usable = {zone.name for zone in facts.zones}
    offered = sorted(facts.offerings.get(instance_type.name, frozenset()) & usable)
    if not offered:
        nowhere = f"no zone of {facts.region} that EKS can use offers {shown(instance_type.name)}"
        yield Problem(where, f"{nowhere}. Choose another type or region.")
        return
    fix = f"Add a subnet in {one_of(offered)}." if settings.network.is_existing else f"Add {one_of(offered)} to network.zones."
    yield Problem(where, f"{shown(instance_type.name)} is not offered in the VPC's zones, {all_of(zones)}. {fix}")


@rule(Topic.TYPES, target=EKS, reads=(Query.INSTANCE_TYPES, Query.ZONES))
def check_zones_of_system(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that a zone of the VPC offers the type of an EKS cluster's system nodes. An EC2 cluster's head node runs in
    the workers' zone, which another rule checks."""
    name, zones = settings.target.head_type, vpc_zones(settings, facts)
    if zones and name in facts.instance_types and not offering_zones(name, settings, facts):
        yield Problem(
            "target.system.instanceType", f"{shown(name)} is not offered in the VPC's zones, {all_of(zones)}. Choose another."
        )
