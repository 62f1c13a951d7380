"""Rules for the pools' sizes, volumes, images and placement groups."""

from collections.abc import Iterator

from infra.config.messages import format_value, join_with_or
from infra.config.problems import Problem, create_warning
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.plan.placement import APART, resolve_placement
from infra.settings.pools import Pool
from infra.settings.stack import Settings
from infra.settings.targets import SystemPool
from infra.validation.formats import check_id_format
from infra.validation.pool_paths import format_account, list_pools_with_paths
from infra.validation.registry import EKS, Topic, register_rule

MINIMUM_VOLUME_GIB, MAXIMUM_VOLUME_GIB = 30, 16384
"""Minimum and maximum volume size in GiB. EKS's NVIDIA AMI uses up to 20 GiB, and job images need space, too. A gp3
volume can have at most 16 TiB."""


@register_rule(target=EKS)
def check_system_sizes(settings: Settings) -> Iterator[Problem]:
    path, pool = "target.system", settings.eks.system
    if pool.min_size < 1:
        yield Problem(f"{path}.minSize", f"{pool.min_size} leaves no node for the cluster's own pods. Use at least 1.")
    yield from _check_size_order(path, pool)


@register_rule()
def check_pool_sizes(settings: Settings) -> Iterator[Problem]:
    for path, pool in list_pools_with_paths(settings):
        if pool.min_size < 0:
            yield Problem(f"{path}.minSize", f"{pool.min_size} is below 0. Use 0 or more.")
        if pool.max_size < 1:
            yield Problem(f"{path}.maxSize", f"{pool.max_size} allows no nodes. Use at least 1 (minSize 0 scales to zero).")
        else:
            yield from _check_size_order(path, pool)


def _check_size_order(path: str, pool: Pool | SystemPool) -> Iterator[Problem]:
    if pool.min_size > pool.max_size:
        yield Problem(
            f"{path}.minSize", f"{pool.min_size} is above maxSize, which is {pool.max_size}. Lower it, or raise maxSize."
        )
    elif not pool.min_size <= pool.initial_size <= pool.max_size:
        fitting = f"{pool.min_size} to {pool.max_size}" if pool.min_size < pool.max_size else str(pool.min_size)
        fix = f"Use {fitting}, or change minSize or maxSize."
        yield Problem(f"{path}.desiredSize", f"{pool.initial_size} is not between minSize and maxSize. {fix}")


@register_rule()
def check_root_volumes(settings: Settings) -> Iterator[Problem]:
    for path, pool in list_pools_with_paths(settings):
        if not MINIMUM_VOLUME_GIB <= pool.root_volume_gib <= MAXIMUM_VOLUME_GIB:
            bounds = f"{MINIMUM_VOLUME_GIB} to {MAXIMUM_VOLUME_GIB}"
            yield Problem(f"{path}.rootVolumeGib", f"{pool.root_volume_gib} is out of range. Use {bounds}.")


@register_rule(target=EKS)
def check_image_ids(settings: Settings) -> Iterator[Problem]:
    for path, pool in list_pools_with_paths(settings):
        if pool.ami_id is not None:
            yield from check_id_format(f"{path}.amiId", "ami", pool.ami_id)


@register_rule()
def check_pool_zones(settings: Settings) -> Iterator[Problem]:
    names = settings.network.zone_names
    for path, pool in list_pools_with_paths(settings):
        if pool.zone is not None and names and pool.zone not in names:
            fix = f"Add it there, or choose {join_with_or(names)}."
            yield Problem(f"{path}.zone", f"{format_value(pool.zone)} is not in network.zones. {fix}")


@register_rule(
    Topic.AMIS,
    target=EKS,
    reads=(Query.IMAGES, Query.INSTANCE_TYPES),
    applies=lambda settings: any(pool.ami_id for pool in settings.pools),
)
def check_images(settings: Settings, facts: Facts) -> Iterator[Problem]:
    for path, pool in list_pools_with_paths(settings):
        where = f"{path}.amiId"
        if pool.ami_id in facts.not_found:
            yield Problem(
                where, f"{format_value(pool.ami_id)} was not found in {format_account(facts)}. Share it, or use another."
            )
        architecture = facts.images.get(pool.ami_id or "")
        instance_type = facts.instance_types.get(pool.instance_type)
        if architecture and instance_type and architecture != instance_type.architecture:
            differs = f"{pool.instance_type} is {instance_type.architecture}"
            yield Problem(where, f"{pool.ami_id} is for {architecture}, but {differs}. Use an AMI of that architecture.")


@register_rule()
def check_placement_is_current(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Warn if `placementGroup: auto` was resolved for a single node, but the pool can now have several nodes. The
    program resolves `auto` only once, because a resize must not restart nodes."""
    for path, pool in list_pools_with_paths(settings):
        if pool.max_size > 1 and resolve_placement(pool, facts) == APART:
            decided = f"{pool.name} was created with maxSize 1, so auto does not put its nodes into a cluster placement group"
            fix = "Set your own cluster placement group (rolls the nodes), or rename the pool (replaces it)."
            yield create_warning(f"{path}.placementGroup", f"{decided}, and EFA between nodes is slower. {fix}")


@register_rule(
    Topic.PLACEMENT_GROUPS,
    reads=(Query.PLACEMENT_GROUPS,),
    applies=lambda settings: any(pool.own_placement_group for pool in settings.pools),
)
def check_placement_groups(settings: Settings, facts: Facts) -> Iterator[Problem]:
    for path, pool in list_pools_with_paths(settings):
        where, name = f"{path}.placementGroup", pool.own_placement_group
        if name in facts.not_found:
            yield Problem(where, f"{format_value(name)} does not exist in {format_account(facts)}. Create it, or use auto.")
        strategy = facts.placement_groups.get(name or "")
        instance_type = facts.instance_types.get(pool.instance_type)
        if strategy and strategy != "cluster":
            yield Problem(where, f"{format_value(name)} has the strategy {strategy}. Use a cluster placement group, or auto.")
        elif strategy and instance_type and strategy not in instance_type.placement_strategies:
            yield Problem(
                where,
                f"{format_value(name)} cannot hold {pool.instance_type}, which cluster placement groups do not support. "
                "Use none.",
            )
