"""Location and security groups of the FSx for Lustre file system. Pure."""

from typing import Final

from infra.facts.model import Facts
from infra.plan.placement import pool_zone, vpc_zones
from infra.settings.stack import Settings

SMALLEST_GIB: Final = 1200
THROUGHPUT: Final = 125
"""Default throughput of PERSISTENT_2 in MB/s per TiB."""


def zone(settings: Settings, facts: Facts) -> str | None:
    """Return the zone of the stack's file system: its current zone, otherwise the zone in the settings, otherwise the
    zone of the first pool.

    A change of zone would replace the file system and delete its data.
    """
    lustre = settings.storage.lustre
    if lustre is None or lustre.is_existing:
        return None
    if facts.existing.lustre is not None:
        return facts.existing.lustre.zone
    zones = vpc_zones(settings, facts)
    if lustre.zone is not None:
        return lustre.zone if lustre.zone in zones else None
    return next((zone for pool in settings.pools if (zone := pool_zone(pool, settings, facts))), next(iter(zones), None))


def subnet(settings: Settings, facts: Facts) -> str | None:
    """Return the file system's subnet in an existing VPC. Reordering subnetIds must not replace the file system."""
    lustre = facts.existing.lustre
    return lustre.subnet_id if lustre is not None and lustre.subnet_id in settings.network.subnet_ids else None


def owned_directories(settings: Settings) -> tuple[str, ...]:
    """Return the directories of a new file system that jobs must be able to write to. Directories of an existing file
    system keep their owners."""
    lustre = settings.storage.lustre
    if lustre is None or lustre.is_existing:
        return ()
    return tuple(dict.fromkeys(("/", *((lustre.data_repository.directory,) if lustre.data_repository else ()))))


def group_to_open(settings: Settings, facts: Facts) -> str | None:
    """Return the security group of an existing file system to which the stack adds rules for the stack's nodes.

    The choice must not depend on existing rules. Otherwise this stack's own rules would change the choice, and the next
    `up` would remove them.
    """
    lustre, existing = settings.storage.lustre, facts.lustre
    if lustre is None or not lustre.add_ingress_rule or existing is None or not existing.admitted:
        return None
    return min(existing.admitted)
