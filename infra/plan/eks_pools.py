"""Plan of the node pools of an EKS cluster: all decisions about nodes, made before the first resource is registered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.boot import eks_node
from infra.boot.eks_node import HUGE_PAGES, ClusterAccess
from infra.facts.instance_types import InstanceType
from infra.facts.model import Facts, NodeTemplate
from infra.health.faults import RepairOverride, list_repair_overrides
from infra.naming import (
    EFA_RESOURCE,
    GPU_RESOURCE,
    GPU_TAINT,
    HUGEPAGES_RESOURCE,
    Taint,
    build_autoscaler_tags,
    build_pool_labels,
    format_accelerator,
)
from infra.plan import block_clock
from infra.plan.efa_interfaces import Interface, count_efa_devices, plan_efa_interfaces
from infra.plan.node_capacity import compute_max_pods
from infra.plan.placement import (
    choose_pool_zone,
    has_efa,
    list_system_zones,
    needs_placement_group,
    plan_sizes,
    resolve_placement,
)
from infra.plan.specs import CapacityType, NodePoolSpec, ReservationTarget
from infra.settings.pools import Capacity, CapacityBlock, OnDemand, Pool, Spot, TargetedOdcr
from infra.settings.stack import Settings
from infra.settings.targets import SystemPool

SYSTEM_ROOT_VOLUME_GIB = 50
HUGE_PAGES_MIB = HUGE_PAGES * 2
"""Memory that 2 MiB huge pages occupy on each node with EFA."""

USABLE_DISK = 0.85
"""Share of a node's disk that pods can use. The kubelet keeps 10% free, and images use part of the rest."""


@dataclass(frozen=True)
class PoolPlan:
    """Spec and location of a pool."""

    spec: NodePoolSpec
    instance: InstanceType
    zones: tuple[str, ...]
    makes_placement_group: bool = False
    own_placement_group: str | None = None
    """Name of the user's placement group."""


def plan_pools(settings: Settings, facts: Facts) -> dict[str, PoolPlan]:
    """Return the plans of all pools, keyed by name, with the CPU pool first."""
    system = settings.eks.system
    plans = {system.name: _plan_system_pool(settings, facts)}
    return plans | {pool.name: _plan_pool(pool, settings, facts) for pool in settings.pools}


def _plan_system_pool(settings: Settings, facts: Facts) -> PoolPlan:
    """Plan the CPU nodes for system pods, in several zones."""
    pool = settings.eks.system
    instance = facts.instance_types[pool.instance_type]
    labels = build_pool_labels(pool.name)
    resources = {"ephemeral-storage": _compute_disk_size(instance, SYSTEM_ROOT_VOLUME_GIB)}
    spec = NodePoolSpec(
        name=pool.name,
        instance_type=pool.instance_type,
        ami_type=f"AL2023_{_choose_ami_architecture(instance)}_STANDARD",
        sizes=plan_sizes(pool, settings, facts),
        root_volume_gib=SYSTEM_ROOT_VOLUME_GIB,
        labels=labels,
        autoscaler_tags=_build_autoscaler_tags(settings, labels, (), resources),
        surge=True,
        repair=settings.platform.node_repair,
        failed=_has_failed(pool, facts),
    )
    return PoolPlan(spec, instance, list_system_zones(settings, facts))


def _plan_pool(pool: Pool, settings: Settings, facts: Facts) -> PoolPlan:
    """Plan a pool of nodes for ranks, with a single instance type in a single zone."""
    instance = facts.instance_types[pool.instance_type]
    zone = choose_pool_zone(pool, settings, facts)
    if zone is None:
        raise LookupError(f"pool {pool.name} has no zone; validation should have reported that")
    return PoolPlan(
        _build_pool_spec(pool, instance, settings, facts),
        instance,
        (zone,),
        makes_placement_group=needs_placement_group(pool, facts),
        own_placement_group=pool.own_placement_group,
    )


def _build_pool_spec(pool: Pool, instance: InstanceType, settings: Settings, facts: Facts) -> NodePoolSpec:
    efa = has_efa(pool, instance)
    interfaces = plan_efa_interfaces(instance) if efa else ()
    gpu = format_accelerator(instance.gpu_manufacturer or "", instance.gpu_name or "") if instance.gpus else None
    labels = {**pool.labels, **build_pool_labels(pool.name, accelerator=gpu, efa=efa)}
    taints = (GPU_TAINT,) if instance.gpus else ()  # pods without tolerations may use CPU nodes, but not GPU nodes
    return NodePoolSpec(
        name=pool.name,
        instance_type=pool.instance_type,
        ami_type=f"AL2023_{_choose_ami_architecture(instance)}_{'NVIDIA' if instance.gpus else 'STANDARD'}",
        ami_id=pool.ami_id,
        sizes=plan_sizes(pool, settings, facts),
        root_volume_gib=pool.root_volume_gib,
        capacity=_choose_capacity_type(pool.capacity),
        reservation=find_reservation(pool.capacity),
        block=block_clock.plan_block_schedule(pool, facts),
        interfaces=interfaces,
        raid0=instance.instance_store_gb > 0,
        pinned_memory=True,
        huge_pages=HUGE_PAGES if efa else 0,
        max_pods=compute_max_pods(instance, interfaces),
        labels=labels,
        taints=taints,
        autoscaler_tags=_build_autoscaler_tags(
            settings, labels, taints, _list_node_resources(instance, interfaces, pool.root_volume_gib)
        ),
        placement=resolve_placement(pool, facts),
        repair=settings.platform.node_repair,
        repair_overrides=_list_repair_overrides(pool, instance.gpus, settings),
        failed=_has_failed(pool, facts),
    )


def _list_repair_overrides(pool: Pool, gpus: int, settings: Settings) -> tuple[RepairOverride, ...]:
    """Return the faults that EKS must not repair.

    The job controller moves all jobs off a node with a broken GPU immediately, and the autoscaler then removes the node. If
    nothing would remove the node, EKS repairs it after its usual wait.
    """
    platform = settings.platform
    empties = platform.node_healing and settings.installs_platform
    removes = platform.autoscaler and pool.min_size == 0
    return list_repair_overrides() if gpus and platform.node_repair and empties and removes else ()


def _has_failed(pool: Pool | SystemPool, facts: Facts) -> bool:
    existing = facts.existing.pools.get(pool.name)
    return existing is not None and existing.failed


def _list_node_resources(instance: InstanceType, interfaces: Sequence[Interface], root_volume_gib: int) -> dict[str, str]:
    """Return the resources of a node besides CPU and memory. The autoscaler needs these values to scale from zero."""
    resources = {GPU_RESOURCE: str(instance.gpus)} if instance.gpus else {}
    resources["ephemeral-storage"] = _compute_disk_size(instance, root_volume_gib, striped=True)
    if interfaces:
        resources[EFA_RESOURCE] = str(count_efa_devices(interfaces))
        resources[HUGEPAGES_RESOURCE] = f"{HUGE_PAGES_MIB}Mi"
    return resources


def _compute_disk_size(instance: InstanceType, root_volume_gib: int, *, striped: bool = False) -> str:
    """Return the size of the disk to which pods write: the striped local disks if there are any, otherwise the root
    volume.
    """
    if striped and instance.instance_store_gb:
        return f"{int(instance.instance_store_gb * USABLE_DISK)}G"
    return f"{int(root_volume_gib * USABLE_DISK)}Gi"


def _build_autoscaler_tags(
    settings: Settings, labels: Mapping[str, str], taints: tuple[Taint, ...], resources: Mapping[str, str]
) -> dict[str, str]:
    if not settings.platform.autoscaler:
        return {}
    return build_autoscaler_tags(settings.cluster_name, labels=labels, taints=taints, resources=resources)


def _choose_ami_architecture(instance: InstanceType) -> str:
    return "ARM_64" if instance.architecture == "arm64" else "x86_64"


def _choose_capacity_type(capacity: Capacity) -> CapacityType:
    match capacity:
        case Spot():
            return "SPOT"
        case CapacityBlock():
            return "CAPACITY_BLOCK"
        case OnDemand() | TargetedOdcr():
            return "ON_DEMAND"


def find_reservation(capacity: Capacity) -> ReservationTarget | None:
    """Return the capacity reservation into which a pool's nodes are launched, if any."""
    match capacity:
        case TargetedOdcr():
            return ReservationTarget(capacity.reservation_id, capacity.resource_group_arn)
        case CapacityBlock():
            return ReservationTarget(capacity.reservation_id)
        case OnDemand() | Spot():
            return None


def list_template_changes(spec: NodePoolSpec, template: NodeTemplate) -> list[str]:
    """Return the names of changed settings that would create a new version of an existing launch template. `user data`
    counts as one setting."""
    interfaces = sorted((interface.network_card, interface.device, interface.type) for interface in spec.interfaces)
    reservation = spec.reservation.id if spec.reservation else None
    equal = {
        "instanceType": spec.instance_type == template.instance_type,
        "amiId": spec.ami_id == template.image_id,
        "capacity.reservationId": reservation == template.reservation_id,
        "rootVolumeGib": spec.root_volume_gib == template.root_volume_gib,
        "efa": interfaces == sorted(template.interfaces),
        "user data": _has_same_user_data(spec, template),
    }
    return [name for name, same in equal.items() if not same]


def _has_same_user_data(spec: NodePoolSpec, template: NodeTemplate) -> bool:
    """Compare the user data without the description of the cluster, which does not change while the cluster exists."""
    cluster = ClusterAccess("", "", "", "") if spec.ami_id else None
    encoded = spec.user_data(cluster)
    return eks_node.parse_user_data_parts(encoded) == eks_node.parse_user_data_parts(template.user_data)
