"""Rules for instance types: types must exist, have the devices that pools need, and be offered in the pools' zones,
and nodes must be large enough for their pods."""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from infra.config.messages import find_similar, format_value, join_with_and, join_with_or
from infra.config.problems import Problem, create_warning
from infra.facts.instance_types import InstanceType
from infra.facts.model import CapacityReservation, Facts
from infra.facts.queries import Query
from infra.jobs.containers import LAUNCHER_CPU_MILLIS, LAUNCHER_MEMORY_MIB
from infra.plan.efa_interfaces import has_known_efa_layout
from infra.plan.eks_pools import HUGE_PAGES_MIB
from infra.plan.node_capacity import compute_allocatable
from infra.plan.placement import find_bound_zone, has_efa, list_offering_zones, list_vpc_zones
from infra.settings.pools import Pool
from infra.settings.stack import Settings
from infra.validation.pool_paths import list_pools_with_paths, list_pools_with_types
from infra.validation.registry import EKS, Topic, register_rule

GPU_FAMILIES = ("g", "p")
"""Leading letters of the instance types with NVIDIA GPUs."""
_SIZES = ("nano", "micro", "small", "medium", "large", "xlarge")
_TYPE_NAME = re.compile(rf"([a-z]+)([0-9]+)([a-z0-9-]*)\.(metal|{'|'.join(_SIZES)}|[0-9]+xlarge)")
MAXIMUM_SUGGESTIONS = 3

WORKER_MEMORY_MIB = 256
"""Memory of the smallest useful worker: the SSH server, the MPI runtime and one small rank."""

_NVLINK_DOMAIN = re.compile(r"(u-)?p6e[a-z0-9-]*\..*")
"""Instances of NVL72 UltraServers share one NVLink domain (IMEX), which pods join through a ComputeDomain:
https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html"""


@register_rule(Topic.TYPES, reads=(Query.INSTANCE_TYPES,))
def check_types_exist(settings: Settings, facts: Facts) -> Iterator[Problem]:
    with_gpus = [name for name in facts.type_names if name.startswith(GPU_FAMILIES) or not settings.is_eks]
    types = [(f"{path}.instanceType", pool.instance_type, with_gpus) for path, pool in list_pools_with_paths(settings)]
    head = (settings.target.head_path, settings.target.head_type, facts.type_names)
    for where, name, choices in [head, *types]:
        if name not in facts.instance_types:
            similar = find_similar_types(name, choices)
            hint = f". Did you mean {join_with_or(similar)}?" if similar else ". Choose another."
            yield Problem(where, f"{format_value(name)} is not an instance type in {facts.region}{hint}")


def find_similar_types(name: str, choices: Collection[str]) -> list[str]:
    """Return up to three types of the Region: the closest types of the same family, or types with similar names if
    there are none."""
    parts = _TYPE_NAME.fullmatch(name)
    candidates = [match for choice in choices if (match := _TYPE_NAME.fullmatch(choice)) and parts and match[1] == parts[1]]
    if parts is None or not candidates:
        return find_similar(name, choices, most=MAXIMUM_SUGGESTIONS)
    ordered = sorted(candidates, key=lambda candidate: (_build_distance_key(parts, candidate), candidate[0]))
    return [candidate[0] for candidate in ordered[:MAXIMUM_SUGGESTIONS]]


def _build_distance_key(parts: re.Match[str], candidate: re.Match[str]) -> tuple[float, bool, float]:
    """Sort key: the closest generation first (the newer one on a tie), then variant (`p5e`, `p5en`), then size."""
    generation = int(candidate[2]) - int(parts[2])
    return (
        abs(generation) + 0.5 * (generation < 0),
        parts[3] != candidate[3],
        abs(_parse_size(parts[4]) - _parse_size(candidate[4])),
    )


def _parse_size(text: str) -> float:
    """Return the size in units of `xlarge`: 0.5 for `large`, 48 for `48xlarge`, and 96 for `metal`, a whole machine."""
    if text == "metal":
        return 96.0
    if text in _SIZES:
        return 2.0 ** (_SIZES.index(text) - _SIZES.index("xlarge"))
    return float(text.removesuffix("xlarge"))


@register_rule(Topic.TYPES, reads=(Query.INSTANCE_TYPES,))
def check_gpus(settings: Settings, facts: Facts) -> Iterator[Problem]:
    for path, pool, instance_type in list_pools_with_types(settings, facts):
        if not instance_type.has_nvidia_gpus and instance_type.gpu_manufacturer:
            fix = "Choose a type with NVIDIA GPUs, such as g5.xlarge, or one without GPUs."
            yield Problem(
                f"{path}.instanceType", f"{format_value(pool.instance_type)} has {_describe_gpus(instance_type)}. {fix}"
            )
    system = facts.instance_types.get(settings.target.head_type)
    if system and system.gpu_manufacturer and settings.is_eks:
        yield Problem(
            "target.system.instanceType", f"{format_value(system.name)} has GPUs. Choose a type without GPUs, such as m7i.large."
        )


def _describe_gpus(instance_type: InstanceType) -> str:
    if instance_type.gpus == 0:
        return f"only a fraction of a GPU ({instance_type.gpu_name})"
    return f"{instance_type.gpu_manufacturer} GPUs"


@register_rule(Topic.TYPES, reads=(Query.INSTANCE_TYPES,))
def check_efa(settings: Settings, facts: Facts) -> Iterator[Problem]:
    for path, pool, instance_type in list_pools_with_types(settings, facts):
        if pool.efa is True and not has_efa(pool, instance_type):
            fix = "Choose a type with EFA, such as g5.8xlarge, or remove efa."
            yield Problem(f"{path}.efa", f"is true, but {pool.instance_type} has no EFA. {fix}")
        if has_efa(pool, instance_type) and not has_known_efa_layout(instance_type):
            cards = f"which of the {len(instance_type.network_cards)} network cards of {pool.instance_type} support EFA"
            fix = "Install the boto3 version in requirements.lock, choose another type, or set efa: false."
            yield Problem(f"{path}.efa", f"EC2 does not report {cards} (InterfaceTypes is missing). {fix}")


@register_rule(Topic.TYPES, reads=(Query.INSTANCE_TYPES,))
def check_types_are_supported(settings: Settings, facts: Facts) -> Iterator[Problem]:
    head = facts.instance_types.get(settings.target.head_type)
    types = [(settings.target.head_path, head)] if head else []
    types += [(f"{path}.instanceType", instance) for path, _, instance in list_pools_with_types(settings, facts)]
    for where, instance in types:
        if not instance.runs_linux:
            fix = "Choose a type such as m7i.large."
            yield Problem(where, f"{format_value(instance.name)} runs only macOS, but nodes run Linux. {fix}")
        elif _shares_nvlink(instance):
            needs = "shares an NVLink domain with other instances, which needs IMEX, a ComputeDomain and arm64 images"
            fix = "This program does not support them yet. Choose a type such as p6-b200.48xlarge."
            yield Problem(where, f"{format_value(instance.name)} {needs}. {fix}")
        elif instance.has_neuron:
            effect = "this program does not install the Neuron device plugin, so jobs can use only the CPUs"
            fix = "Choose a type with NVIDIA GPUs, such as g5.xlarge, or one without accelerators."
            yield create_warning(where, f"{format_value(instance.name)} has AWS Neuron accelerators, but {effect}. {fix}")


def _shares_nvlink(instance: InstanceType) -> bool:
    """Types with arm64 CPUs, NVIDIA GPUs and EFA are parts of UltraServers; g5g has no EFA."""
    is_grace = instance.architecture == "arm64" and instance.has_nvidia_gpus and instance.efa_maximum > 0
    return is_grace or bool(_NVLINK_DOMAIN.fullmatch(instance.name))


@register_rule(Topic.TYPES, target=EKS, reads=(Query.INSTANCE_TYPES,))
def check_launchers_fit(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that a launcher fits on a system node: otherwise every MPI job would wait forever."""
    instance = facts.instance_types.get(settings.target.head_type)
    if instance is None or settings.platform.install is False:
        return
    cpu_millis = int(LAUNCHER_CPU_MILLIS * settings.platform.cpu_request_factor)
    left = compute_allocatable(instance, is_system=True)
    if left.cpu_millis < cpu_millis or left.memory_mib < LAUNCHER_MEMORY_MIB:
        needs = f"a launcher needs {cpu_millis}m CPU and {LAUNCHER_MEMORY_MIB} MiB"
        there = f"a node has only {left.cpu_millis}m and {left.memory_mib} MiB left"
        vcpus = _compute_required_vcpus(instance, cpu_millis)
        gib = _compute_required_gib(instance, LAUNCHER_MEMORY_MIB, is_system=True)
        yield Problem(
            settings.target.head_path,
            f"{format_value(instance.name)} is too small: {needs}, but {there}. "
            f"Use a type with at least {vcpus} vCPUs and {gib} GiB, such as m7i.large.",
        )


@register_rule(Topic.TYPES, target=EKS, reads=(Query.INSTANCE_TYPES,))
def check_workers_fit(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that a worker fits on a node of each pool."""
    if settings.platform.install is False:
        return
    for path, pool, instance in list_pools_with_types(settings, facts):
        pages_mib = HUGE_PAGES_MIB if has_efa(pool, instance) else 0
        left = compute_allocatable(instance, huge_pages_mib=pages_mib)
        if left.memory_mib < WORKER_MEMORY_MIB:
            needs = f"a worker needs at least {WORKER_MEMORY_MIB} MiB, but a node has only {left.memory_mib} MiB left"
            gib = _compute_required_gib(instance, WORKER_MEMORY_MIB, pages_mib)
            fix = f"Use a type with at least {gib} GiB, such as g5.xlarge."
            yield Problem(f"{path}.instanceType", f"{format_value(instance.name)} is too small: {needs}. {fix}")


def _compute_required_vcpus(instance: InstanceType, millis: int) -> int:
    """Return the number of vCPUs that a system node needs to have room for the CPU request."""
    fits = (
        number
        for number in (1, 2, 4)
        if compute_allocatable(replace(instance, vcpus=number), is_system=True).cpu_millis >= millis
    )
    return max(instance.vcpus, next(fits))


def _compute_required_gib(instance: InstanceType, memory_mib: int, pages_mib: int = 0, *, is_system: bool = False) -> int:
    """Return the memory that a system node needs to have room for the request: a power of 2, like the sizes of an
    instance family."""
    gib = 1
    while (
        compute_allocatable(replace(instance, memory_mib=gib * 1024), huge_pages_mib=pages_mib, is_system=is_system).memory_mib
        < memory_mib
    ):
        gib *= 2
    return gib


@register_rule(Topic.TYPES, target=EKS, reads=(Query.INSTANCE_TYPES,))
def check_architectures(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Warn about arm64 nodes of EKS clusters. For EC2 clusters, an AMI of the other architecture is an error."""
    system = facts.instance_types.get(settings.target.head_type)
    if system and system.architecture == "arm64":
        runs = (
            "Launchers run on the system nodes with the job's image, so every MPI job needs an image that also "
            "contains arm64 programs."
        )
        yield _warn_about_arm64(
            settings.target.head_path, system, f"{runs} Use a type such as m7i.large, unless your images contain arm64 programs."
        )
    for path, _, instance_type in list_pools_with_types(settings, facts):
        if instance_type.architecture == "arm64":
            fix = (
                "Jobs on such a pool need images that also contain arm64 programs, because a job's launcher may run on "
                "another pool."
            )
            yield _warn_about_arm64(f"{path}.instanceType", instance_type, fix)


def _warn_about_arm64(where: str, instance_type: InstanceType, fix: str) -> Problem:
    has = f"{format_value(instance_type.name)} has arm64 CPUs, but this project's AMIs and images are for x86-64"
    return create_warning(where, f"{has}. {fix}")


# --- zones: the zone of each pool must offer its instance type ---------------------------------------------------------


@register_rule(Topic.TYPES, reads=(Query.INSTANCE_TYPES, Query.ZONES))
def check_pool_zone_offerings(settings: Settings, facts: Facts) -> Iterator[Problem]:
    zones = list_vpc_zones(settings, facts)
    for path, pool, instance_type in list_pools_with_types(settings, facts):
        if not zones:
            continue
        reservation = facts.reservations.get(pool.reservation_id or "")
        if pool.zone is not None:
            yield from _check_zone_setting(f"{path}.zone", pool, zones, facts)
        elif pool.name in facts.existing.pools:
            yield from _check_existing_pool_zone(f"{path}.instanceType", pool, facts)
        elif reservation:
            yield from _check_reservation_zone(f"{path}.capacity.reservationId", reservation, settings, zones)
        elif not list_offering_zones(pool.instance_type, settings, facts):
            yield from _reject_instance_type(f"{path}.instanceType", instance_type, settings, zones, facts)


def _check_zone_setting(where: str, pool: Pool, zones: tuple[str, ...], facts: Facts) -> Iterator[Problem]:
    """Check that the zone in the settings is a zone of the VPC and offers the pool's instance type."""
    offered = sorted(facts.offerings.get(pool.instance_type, frozenset()) & set(zones))
    if pool.zone not in zones:
        yield Problem(where, f"{format_value(pool.zone)} is not a zone of the VPC. Choose {join_with_or(offered or zones)}.")
    elif pool.zone not in offered:
        fix = f"Choose {join_with_or(offered)}." if offered else "Choose another type."
        yield Problem(where, f"{format_value(pool.zone)} does not offer {pool.instance_type}. {fix}")


def _check_reservation_zone(
    where: str, reservation: CapacityReservation, settings: Settings, zones: tuple[str, ...]
) -> Iterator[Problem]:
    """Check that the VPC has a subnet in the zone of the pool's reservation."""
    zone = reservation.zone
    if zone not in zones:
        fix = f"Add a subnet in {zone}" if settings.network.is_existing else f"Add {zone} to network.zones"
        there = f"{reservation.id} is in {zone}, but the VPC's zones are {join_with_and(zones)}"
        yield Problem(where, f"{there}. {fix}, or use another reservation.")


def _check_existing_pool_zone(where: str, pool: Pool, facts: Facts) -> Iterator[Problem]:
    """If an existing pool's instance type changes, check that the pool's zone offers the new type."""
    zone = find_bound_zone(pool, facts)
    if facts.existing.pools[pool.name].instance_type == pool.instance_type:
        return
    if zone not in facts.offerings.get(pool.instance_type, frozenset()):
        fix = "To recreate the pool, rename it or set its zone."
        yield Problem(where, f"{format_value(pool.instance_type)} is not offered in {zone}, where the pool is. {fix}")


def _reject_instance_type(
    where: str, instance_type: InstanceType, settings: Settings, zones: tuple[str, ...], facts: Facts
) -> Iterator[Problem]:
    usable = {zone.name for zone in facts.zones}
    offered = sorted(facts.offerings.get(instance_type.name, frozenset()) & usable)
    if not offered:
        nowhere = f"no zone of {facts.region} that EKS can use offers {format_value(instance_type.name)}"
        yield Problem(where, f"{nowhere}. Choose another type or region.")
        return
    fix = (
        f"Add a subnet in {join_with_or(offered)}."
        if settings.network.is_existing
        else f"Add {join_with_or(offered)} to network.zones."
    )
    yield Problem(where, f"{format_value(instance_type.name)} is not offered in the VPC's zones, {join_with_and(zones)}. {fix}")


@register_rule(Topic.TYPES, target=EKS, reads=(Query.INSTANCE_TYPES, Query.ZONES))
def check_system_node_zones(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that a zone of the VPC offers the type of an EKS cluster's system nodes. An EC2 cluster's head node runs in
    the workers' zone, which another rule checks."""
    name, zones = settings.target.head_type, list_vpc_zones(settings, facts)
    if zones and name in facts.instance_types and not list_offering_zones(name, settings, facts):
        yield Problem(
            "target.system.instanceType",
            f"{format_value(name)} is not offered in the VPC's zones, {join_with_and(zones)}. Choose another.",
        )
