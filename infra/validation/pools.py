"""Rules for the pools' instance types, EFA, images and placement groups."""

from collections.abc import Iterator

from infra.config.messages import one_of, shown
from infra.config.problems import Problem, warning
from infra.facts.instance_types import InstanceType
from infra.facts.model import Facts
from infra.plan.efa_interfaces import layout_is_known
from infra.plan.placement import APART, has_efa, placement_choice
from infra.settings.stack import Settings
from infra.validation import ids
from infra.validation.nearby_types import similar_types
from infra.validation.pool_paths import account, head_path, pools_with_paths, pools_with_types

GPU_FAMILIES = ("g", "p")
"""Leading letters of the instance types with NVIDIA GPUs."""

LEAST_VOLUME, MOST_VOLUME = 30, 16384
"""Minimum and maximum volume size in GiB. EKS's NVIDIA AMI uses up to 20 GiB, and job images need space, too. A gp3
volume can have at most 16 TiB."""


def root_volume(settings: Settings) -> Iterator[Problem]:
    for path, pool in pools_with_paths(settings):
        if not LEAST_VOLUME <= pool.root_volume_gib <= MOST_VOLUME:
            bounds = f"{LEAST_VOLUME} to {MOST_VOLUME}"
            yield Problem(f"{path}.rootVolumeGib", f"{pool.root_volume_gib} is out of range. Use {bounds}.")


def image_ids(settings: Settings) -> Iterator[Problem]:
    for path, pool in pools_with_paths(settings):
        if pool.ami_id is not None:
            yield from ids.check(f"{path}.amiId", "ami", pool.ami_id)


def zones_of_network(settings: Settings) -> Iterator[Problem]:
    names = settings.network.zone_names
    for path, pool in pools_with_paths(settings):
        if pool.zone is not None and names and pool.zone not in names:
            fix = f"Add it there, or choose {one_of(names)}."
            yield Problem(f"{path}.zone", f"{shown(pool.zone)} is not in network.zones. {fix}")


def types_exist(settings: Settings, facts: Facts) -> Iterator[Problem]:
    with_gpus = [name for name in facts.type_names if name.startswith(GPU_FAMILIES) or not settings.is_eks]
    named = [(f"{path}.instanceType", pool.instance_type, with_gpus) for path, pool in pools_with_paths(settings)]
    head = (head_path(settings), settings.target.head_type, facts.type_names)
    for where, name, choices in [head, *named]:
        if name not in facts.instance_types:
            near = similar_types(name, choices)
            hint = f". Did you mean {one_of(near)}?" if near else ". Choose another."
            yield Problem(where, f"{shown(name)} is not an instance type in {facts.region}{hint}")


def types_have_gpus(settings: Settings, facts: Facts) -> Iterator[Problem]:
    for path, pool, instance_type in pools_with_types(settings, facts):
        if not instance_type.has_nvidia_gpus and instance_type.gpu_manufacturer:
            fix = "Choose a type with NVIDIA GPUs, such as g5.xlarge, or one without GPUs."
            yield Problem(f"{path}.instanceType", f"{shown(pool.instance_type)} has {_gpus(instance_type)}. {fix}")
    system = facts.instance_types.get(settings.target.head_type)
    if system and system.gpu_manufacturer and settings.is_eks:
        yield Problem(
            "target.system.instanceType", f"{shown(system.name)} has GPUs. Choose a type without GPUs, such as m7i.large."
        )


def _gpus(instance_type: InstanceType) -> str:
    if instance_type.gpus == 0:
        return f"only a fraction of a GPU ({instance_type.gpu_name})"
    return f"{instance_type.gpu_manufacturer} GPUs"


def efa(settings: Settings, facts: Facts) -> Iterator[Problem]:
    for path, pool, instance_type in pools_with_types(settings, facts):
        if pool.efa is True and not has_efa(pool, instance_type):
            fix = "Choose a type with EFA, such as g5.8xlarge, or remove efa."
            yield Problem(f"{path}.efa", f"is true, but {pool.instance_type} has no EFA. {fix}")
        if has_efa(pool, instance_type) and not layout_is_known(instance_type):
            cards = f"which of the {len(instance_type.network_cards)} network cards of {pool.instance_type} support EFA"
            fix = "Install the boto3 version in requirements.lock, choose another type, or set efa: false."
            yield Problem(f"{path}.efa", f"EC2 does not report {cards} (InterfaceTypes is missing). {fix}")


def images(settings: Settings, facts: Facts) -> Iterator[Problem]:
    for path, pool in pools_with_paths(settings):
        where = f"{path}.amiId"
        if pool.ami_id in facts.not_found:
            yield Problem(where, f"{shown(pool.ami_id)} was not found in {account(facts)}. Share it, or use another.")
        architecture = facts.images.get(pool.ami_id or "")
        instance_type = facts.instance_types.get(pool.instance_type)
        if architecture and instance_type and architecture != instance_type.architecture:
            other = f"{pool.instance_type} is {instance_type.architecture}"
            yield Problem(where, f"{pool.ami_id} is for {architecture}, but {other}. Use an AMI of that architecture.")


def architectures(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Warn about arm64 nodes of EKS clusters. For EC2 clusters, the AMI of the other architecture is an error."""
    if not settings.is_eks:
        return
    system = facts.instance_types.get(settings.target.head_type)
    if system and system.architecture == "arm64":
        runs = "Launchers run there with the job's image, so every MPI job needs an image that also contains arm64 programs."
        yield _arm64(head_path(settings), system, f"{runs} Use a type such as m7i.large, unless your images do.")
    for path, _, instance_type in pools_with_types(settings, facts):
        if instance_type.architecture == "arm64":
            fix = "Jobs there need images that also contain arm64 programs, because a job's launcher may run on another pool."
            yield _arm64(f"{path}.instanceType", instance_type, fix)


def _arm64(where: str, instance_type: InstanceType, fix: str) -> Problem:
    has = f"{shown(instance_type.name)} has arm64 CPUs, but this project's AMIs and images are for x86-64"
    return warning(where, f"{has}. {fix}")


def stale_placement(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Warn if `placementGroup: auto` was resolved for a single node, but the pool can now have several nodes. The
    program resolves `auto` only once, because a resize must not restart nodes."""
    for path, pool in pools_with_paths(settings):
        if pool.max_size > 1 and placement_choice(pool, facts) == APART:
            decided = f"{pool.name} was created with maxSize 1, so auto keeps its nodes out of a cluster placement group"
            fix = "Set your own cluster placement group (rolls the nodes), or rename the pool (replaces it)."
            yield warning(f"{path}.placementGroup", f"{decided}, and EFA between nodes is slower. {fix}")


def placement_groups(settings: Settings, facts: Facts) -> Iterator[Problem]:
    for path, pool in pools_with_paths(settings):
        where, name = f"{path}.placementGroup", pool.own_placement_group
        if name in facts.not_found:
            yield Problem(where, f"{shown(name)} does not exist in {account(facts)}. Create it, or use auto.")
        strategy = facts.placement_groups.get(name or "")
        instance_type = facts.instance_types.get(pool.instance_type)
        if strategy and strategy != "cluster":
            yield Problem(where, f"{shown(name)} has the strategy {strategy}. Use a cluster placement group, or auto.")
        elif strategy and instance_type and strategy not in instance_type.placement_strategies:
            yield Problem(
                where,
                f"{shown(name)} cannot hold {pool.instance_type}, which cluster placement groups do not support. Use none.",
            )
