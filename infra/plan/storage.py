"""Decisions about shared file systems: location, encryption key, and the security groups that admit nodes. Performs no I/O."""

from collections.abc import Iterator, Mapping

from infra.facts.model import Facts, FileSystem
from infra.plan.placement import choose_pool_zone, list_vpc_zones
from infra.plan.specs import ExistingLustreSpec, ExistingSpec, FileSystemSpec, LinkedBucket, NewEfsSpec, NewLustreSpec
from infra.settings.stack import Settings
from infra.settings.storage import ExistingEfs, ExistingFileSystem, ExistingLustre, NewEfs, NewLustre


def plan_storage(settings: Settings, facts: Facts) -> Iterator[FileSystemSpec]:
    """Yield the specs of the stack's file systems. Raises LookupError if the stack cannot be planned."""
    for each in settings.storage.file_systems:
        match each:
            case NewEfs():
                yield NewEfsSpec(
                    kind=each.kind,
                    mount_path=each.mount_path,
                    infrequent_access_after_days=each.infrequent_access_after_days,
                    backup=each.backup,
                    protect=each.protect,
                )
            case ExistingEfs():
                groups = _select_groups_to_open(each, facts.efs, list_vpc_zones(settings, facts))
                yield ExistingSpec(kind=each.kind, mount_path=each.mount_path, id=each.file_system_id, admitting_groups=groups)
            case NewLustre():
                yield _plan_lustre(each, settings, facts)
            case ExistingLustre():
                file_system = facts.lustre[each.file_system_id]
                yield ExistingLustreSpec(
                    kind=each.kind,
                    mount_path=each.mount_path,
                    id=file_system.id,
                    admitting_groups=_select_groups_to_open(each, facts.lustre, (file_system.zone,)),
                    dns_name=file_system.dns_name,
                    mount_name=file_system.mount_name,
                )


def _select_groups_to_open(
    settings: ExistingFileSystem, file_systems: Mapping[str, FileSystem], zones: tuple[str, ...]
) -> tuple[str, ...]:
    """Return one security group of each mount target in these zones, without duplicates.

    The choice must not depend on existing rules. Otherwise this stack's own rules would change the choice, and the next
    `up` would remove them.
    """
    file_system = file_systems.get(settings.file_system_id)
    if not settings.add_ingress_rule or file_system is None or file_system.admitted is None:
        return ()
    return tuple(sorted({min(groups) for zone in zones if (groups := file_system.admitted.get(zone))}))


def _plan_lustre(lustre: NewLustre, settings: Settings, facts: Facts) -> NewLustreSpec:
    existing, repository = facts.existing.lustre, lustre.data_repository
    linked = None
    if repository:
        linked = LinkedBucket(repository.path, repository.directory, repository.auto_import, repository.auto_export)
    return NewLustreSpec(
        kind=lustre.kind,
        mount_path=lustre.mount_path,
        owned=tuple(dict.fromkeys(("/", *([linked.directory] if linked else [])))),
        zone=_choose_zone(lustre, settings, facts),
        # Reordering network.subnetIds must not replace the file system.
        subnet_id=existing.subnet_id if existing and existing.subnet_id in settings.network.subnet_ids else None,
        deployment=lustre.deployment,
        size_gib=lustre.size_gib,
        throughput_per_tib=lustre.throughput_per_tib if lustre.is_persistent else None,
        compression=lustre.compression,
        creates_key=lustre.is_persistent and lustre.kms_key_arn is None,
        key_arn=lustre.kms_key_arn,
        linked=linked,
        protect=lustre.protect,
    )


def _choose_zone(lustre: NewLustre, settings: Settings, facts: Facts) -> str:
    """Return the file system's current zone, or else the zone in the settings, or else the zone of the first pool.

    A change of zone would replace the file system and delete its data.
    """
    if facts.existing.lustre is not None:
        return facts.existing.lustre.zone
    zones = (choose_pool_zone(pool, settings, facts) for pool in settings.pools)
    return lustre.zone or next((zone for zone in zones if zone), list_vpc_zones(settings, facts)[0])
