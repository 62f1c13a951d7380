"""Types, EFA, images and placement groups of pools."""

from collections.abc import Iterator

from infra.config.messages import one_of, shown
from infra.config.problems import Problem, warning
from infra.facts.instance_types import InstanceType
from infra.facts.model import Facts
from infra.plan.placement import APART, has_efa, placement_choice
from infra.settings.stack import Settings
from infra.validation import ids
from infra.validation.nearby_types import similar_types
from infra.validation.pool_paths import account, head_path, pools_with_paths, pools_with_types

GPU_FAMILIES = ("g", "p")
"""First letters of the types with NVIDIA GPUs."""

LEAST_VOLUME, MOST_VOLUME = 30, 16384
"""GiB: EKS's NVIDIA image takes 20, and gp3 ends at 16 TiB."""


def root_volume(settings: Settings) -> Iterator[Problem]:
    for path, pool in pools_with_paths(settings):
        if not LEAST_VOLUME <= pool.root_volume_gib <= MOST_VOLUME:
            bounds = f"{LEAST_VOLUME} to {MOST_VOLUME}"
            yield Problem(f"{path}.rootVolumeGib", f"{pool.root_volume_gib} is out of range; write {bounds}")


def image_ids(settings: Settings) -> Iterator[Problem]:
    for path, pool in pools_with_paths(settings):
        if pool.ami_id is not None:
            yield from ids.check(f"{path}.amiId", "ami", pool.ami_id)


def zones_of_network(settings: Settings) -> Iterator[Problem]:
    names = settings.network.zone_names
    for path, pool in pools_with_paths(settings):
        if pool.zone is not None and names and pool.zone not in names:
            fix = f"add it there, or choose {one_of(names)}"
            yield Problem(f"{path}.zone", f"{shown(pool.zone)} is not among network.zones; {fix}")


def types_exist(settings: Settings, facts: Facts) -> Iterator[Problem]:
    with_gpus = [name for name in facts.type_names if name.startswith(GPU_FAMILIES) or not settings.is_eks]
    named = [(f"{path}.instanceType", pool.instance_type, with_gpus) for path, pool in pools_with_paths(settings)]
    head = (head_path(settings), settings.target.head_type, facts.type_names)
    for where, name, choices in [head, *named]:
        if name not in facts.instance_types:
            near = similar_types(name, choices)
            hint = f"; did you mean {one_of(near)}?" if near else "; choose another"
            yield Problem(where, f"{shown(name)} is not an instance type in {facts.region}{hint}")


def types_have_gpus(settings: Settings, facts: Facts) -> Iterator[Problem]:
    for path, pool, instance_type in pools_with_types(settings, facts):
        if not instance_type.has_nvidia_gpus and (settings.is_eks or instance_type.gpu_manufacturer):
            fix = "choose a type with NVIDIA GPUs, like g5.xlarge"
            yield Problem(f"{path}.instanceType", f"{shown(pool.instance_type)} has {_gpus(instance_type)}; {fix}")
    system = facts.instance_types.get(settings.target.head_type)
    if system and system.gpu_manufacturer and settings.is_eks:
        yield Problem("target.system.instanceType", f"{shown(system.name)} has GPUs; choose a type without, like m7i.large")


def _gpus(instance_type: InstanceType) -> str:
    if instance_type.gpu_manufacturer is None:
        return "no GPUs"
    if instance_type.gpus == 0:
        return f"only a part of a GPU ({instance_type.gpu_name})"
    return f"GPUs of {instance_type.gpu_manufacturer}"


def efa(settings: Settings, facts: Facts) -> Iterator[Problem]:
    for path, pool, instance_type in pools_with_types(settings, facts):
        if pool.efa is True and not has_efa(pool, instance_type):
            fix = "choose a type that has, like g5.8xlarge, or remove efa"
            yield Problem(f"{path}.efa", f"is true, but {pool.instance_type} has no EFA; {fix}")


def images(settings: Settings, facts: Facts) -> Iterator[Problem]:
    for path, pool in pools_with_paths(settings):
        where = f"{path}.amiId"
        if pool.ami_id in facts.not_found:
            yield Problem(where, f"{shown(pool.ami_id)} was not found in {account(facts)}; share it, or name another")
        architecture = facts.images.get(pool.ami_id or "")
        instance_type = facts.instance_types.get(pool.instance_type)
        if architecture and instance_type and architecture != instance_type.architecture:
            other = f"{pool.instance_type} is {instance_type.architecture}"
            yield Problem(where, f"{pool.ami_id} is for {architecture}, but {other}; name one of that architecture")


def stale_placement(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """`placementGroup: auto` is decided once, when the pool is created: a resize must not restart its nodes."""
    for path, pool in pools_with_paths(settings):
        if pool.max_size > 1 and placement_choice(pool, facts) == APART:
            decided = f"{pool.name} was created with maxSize 1, so auto keeps its nodes out of a cluster placement group"
            fix = "name a cluster placement group of yours (rolls the nodes), or give the pool another name (replaces it)"
            yield warning(f"{path}.placementGroup", f"{decided}, and EFA between nodes is slower; {fix}")


def placement_groups(settings: Settings, facts: Facts) -> Iterator[Problem]:
    for path, pool in pools_with_paths(settings):
        where, name = f"{path}.placementGroup", pool.own_placement_group
        if name in facts.not_found:
            yield Problem(where, f"{shown(name)} does not exist in {account(facts)}; create it, or write auto")
        strategy = facts.placement_groups.get(name or "")
        instance_type = facts.instance_types.get(pool.instance_type)
        if strategy and strategy != "cluster":
            yield Problem(where, f"{shown(name)} has the strategy {strategy}; name a cluster group, or write auto")
        elif strategy and instance_type and strategy not in instance_type.placement_strategies:
            yield Problem(
                where,
                f"{shown(name)} cannot hold {pool.instance_type}, which cluster placement groups do not support; write none",
            )
