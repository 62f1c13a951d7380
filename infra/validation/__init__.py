"""What a stack may not say: tables of pure rules over settings and facts, each with all its problems at once."""

from collections.abc import Callable, Iterator

from infra.facts.model import Facts
from infra.problems import Problem
from infra.settings import Settings
from infra.validation import (
    access,
    capacity,
    cluster,
    jobs,
    labels,
    moves,
    names,
    network,
    platform,
    pools,
    quotas,
    sizes,
    storage,
    subnets,
    tags,
    zones,
)

__all__ = ["Problem", "check", "check_offline"]

OFFLINE: tuple[Callable[[Settings], Iterator[Problem]], ...] = (
    names.region,
    names.stack,
    cluster.known_version,
    cluster.known_addons,
    cluster.log_retention,
    access.public_endpoint,
    access.public_cidrs,
    access.admins,
    network.new_or_existing,
    network.cidr,
    network.zones,
    network.way_out,
    network.ids_of_network,
    storage.mount_path,
    storage.new_or_existing,
    names.pools,
    sizes.system,
    sizes.pools,
    pools.root_volume,
    pools.image_ids,
    pools.zones_of_network,
    capacity.one_source,
    capacity.no_placement_group,
    labels.pools,
    platform.namespaces,
    platform.numbers,
    platform.image_registry,
    platform.manifest_mirror,
    tags.cost_center,
    tags.extra,
    jobs.listed,
)

WITH_FACTS: tuple[Callable[[Settings, Facts], Iterator[Problem]], ...] = (
    access.caller,
    cluster.offered_version,
    cluster.offered_addons,
    network.zones_exist,
    moves.vpc,
    moves.zones,
    subnets.existing_vpc,
    subnets.existing_subnets,
    subnets.enough_addresses,
    storage.existing_file_system,
    pools.types_exist,
    pools.types_have_gpus,
    pools.efa,
    pools.images,
    pools.placement_groups,
    zones.of_pools,
    zones.of_system,
    capacity.purchase,
    capacity.reservations,
    capacity.reservation_sizes,
    platform.reachable,
    platform.manifests,
    quotas.enough,
    jobs.in_cluster,
)


def check_offline(settings: Settings) -> list[Problem]:
    """The problems that show without asking AWS."""
    return list(dict.fromkeys(problem for rule in OFFLINE for problem in rule(settings)))


def check(settings: Settings, facts: Facts) -> list[Problem]:
    """All problems."""
    found = check_offline(settings)
    told = {problem.path for problem in found}  # what AWS says of a value that is no value adds nothing
    found += [problem for rule in WITH_FACTS for problem in rule(settings, facts) if problem.path not in told]
    return list(dict.fromkeys(found))
