"""Description of a cluster for jobs: for an EKS cluster, from settings and pools; for an existing cluster, from
settings and its nodes. Performs no I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from infra.facts.existing_cluster import ClusterFacts, Node
from infra.facts.model import Facts
from infra.jobs.cluster import ClusterDescription, NamespaceDescription, PoolDescription, TaintDescription, VolumeDescription
from infra.naming import JOB_SERVICE_ACCOUNT, PRIORITIES, QUEUE_NAME, SHARED_CLAIM, SYSTEM_POOL, Naming, Taint, build_data_claim
from infra.plan.eks_pools import HUGE_PAGES_MIB, PoolPlan
from infra.plan.image_repositories import find_repository_address
from infra.plan.node_capacity import AGENTS_MIB, AGENTS_MILLIS, SYSTEM_PODS_MIB, SYSTEM_PODS_MILLIS, compute_allocatable
from infra.plan.specs import SharedDataSpec
from infra.plan.storage import plan_shared_data
from infra.settings.existing import ExistingSettings, LabeledPool, Nfs
from infra.settings.platform import CommonPlatformSettings, TransportChoice
from infra.settings.stack import Settings

MINIMUM_SHARE: Final = 0.5
"""Minimum share of an existing node's memory and CPUs for jobs. On small nodes, the estimate for agents would leave
less."""


def describe_eks_cluster(settings: Settings, facts: Facts, plans: Mapping[str, PoolPlan]) -> ClusterDescription:
    """Describe an EKS cluster."""
    platform = settings.platform
    markets = {pool.name: pool.capacity.kind for pool in settings.pools}
    volumes = [
        volume
        for each in settings.storage.file_systems
        for volume in _list_volumes(each.kind.claim, each.mount_path, plan_shared_data(each))
    ]
    return ClusterDescription(
        cluster=settings.cluster_name,
        region=settings.region,
        account=facts.caller.account,
        pools=tuple(
            _describe_pool(plan, platform.transport, markets.get(plan.spec.name, "on-demand")) for plan in plans.values()
        ),
        namespaces=_describe_namespaces(platform, volumes, key_bucket=True),
        mpi_operator=platform.mpi_operator,
        log_group=Naming(settings.stack).job_logs if platform.keeps_logs_in_cloudwatch else "",
        image_registry=platform.image_registry or "",
        image_repository=find_repository_address(settings, facts) or "",
        image_pull_secrets=platform.image_pull_secrets,
        cpu_request_factor=platform.cpu_request_factor,
    )


def describe_existing_cluster(settings: ExistingSettings, facts: ClusterFacts) -> ClusterDescription:
    platform = settings.platform
    data = plan_shared_data(settings.storage) if isinstance(settings.storage, Nfs) else None
    volumes = _list_volumes(SHARED_CLAIM, settings.mount_path, data) if settings.mount_path else []
    pools = (_describe_labeled_pool(pool, facts.find_nodes(pool.node_selector), platform.transport) for pool in settings.pools)
    return ClusterDescription(
        cluster=settings.cluster_name,
        pools=(_describe_system_pool(settings, facts), *pools),
        namespaces=_describe_namespaces(platform, volumes),
        mpi_operator=platform.mpi_operator,
        image_registry=platform.image_registry or "",
        image_repository=platform.image_repository or "",
        image_pull_secrets=platform.image_pull_secrets,
        cpu_request_factor=platform.cpu_request_factor,
    )


@dataclass(frozen=True)
class _Volume:
    """A volume that each namespace has. `writers`: namespaces that may write to files that all namespaces share; None for
    separate files."""

    claim: str
    mount_path: str
    writers: tuple[str, ...] | None = None

    def describe(self, namespace: str) -> VolumeDescription:
        read_only = self.writers is not None and namespace not in self.writers
        return VolumeDescription(
            name=self.claim,
            claim=self.claim,
            mount_path=self.mount_path,
            read_only=read_only,
            across_namespaces=self.writers is not None,
        )


def _list_volumes(claim: str, mount_path: str, data: SharedDataSpec | None) -> list[_Volume]:
    """Return the volumes of a file system: the namespace's own volume, then the data that namespaces share."""
    shared = [_Volume(build_data_claim(claim), data.mount_path, data.writers)] if data else []
    return [_Volume(claim, mount_path), *shared]


def _describe_namespaces(
    platform: CommonPlatformSettings, volumes: Sequence[_Volume], *, key_bucket: bool = False
) -> tuple[NamespaceDescription, ...]:
    return tuple(
        NamespaceDescription(
            name=namespace.name,
            pod_security=namespace.pod_security,
            service_account=JOB_SERVICE_ACCOUNT,
            queue=QUEUE_NAME if platform.queue else None,
            volumes=tuple(volume.describe(namespace.name) for volume in volumes),
            priority_classes=tuple(PRIORITIES),
            key_bucket=key_bucket,
        )
        for namespace in platform.job_namespaces
    )


def _describe_taints(taints: Iterable[Taint]) -> tuple[TaintDescription, ...]:
    return tuple(TaintDescription(key=taint.key, value=taint.value, effect=taint.effect) for taint in dict.fromkeys(taints))


def _describe_pool(plan: PoolPlan, transport: TransportChoice, market: str) -> PoolDescription:
    spec, instance = plan.spec, plan.instance
    hugepages_mib = HUGE_PAGES_MIB if spec.huge_pages else 0
    available = compute_allocatable(instance, huge_pages_mib=hugepages_mib, is_system=spec.name == SYSTEM_POOL)
    return PoolDescription(
        name=spec.name,
        instance_type=spec.instance_type,
        market=market,
        gpus=instance.gpus,
        slots=instance.slots,
        efa=spec.efa_device_count,
        hugepages_mib=hugepages_mib,
        memory_mib=available.memory_mib,
        cpu_millis=available.cpu_millis,
        labels=dict(spec.labels),
        taints=_describe_taints(spec.taints),
        max_size=spec.sizes.maximum,
        line_rate_gbps=instance.line_rate_gbps,
        transport="efa" if transport == "auto" and spec.efa_device_count else "tcp",
        nccl="efa" if transport != "tcp" and spec.efa_device_count else "tcp",
    )


def list_system_nodes(settings: ExistingSettings, facts: ClusterFacts) -> tuple[Node, ...]:
    """Return the nodes for operators and launchers: those without taints, because the pods of operators and launchers
    have no tolerations."""
    return tuple(node for node in facts.find_nodes(settings.target.system.node_selector) if not node.repels_pods)


def _describe_system_pool(settings: ExistingSettings, facts: ClusterFacts) -> PoolDescription:
    nodes = list_system_nodes(settings, facts)
    cpu, memory = _compute_requestable_resources(nodes, AGENTS_MILLIS + SYSTEM_PODS_MILLIS, AGENTS_MIB + SYSTEM_PODS_MIB)
    return PoolDescription(
        name=SYSTEM_POOL,
        slots=max(1, cpu // 1000),
        memory_mib=memory,
        cpu_millis=cpu,
        labels=settings.target.system.node_selector,
        max_size=len(nodes),
    )


def _describe_labeled_pool(pool: LabeledPool, nodes: Sequence[Node], transport: Literal["tcp", "infiniband"]) -> PoolDescription:
    cpu, memory = _compute_requestable_resources(nodes, AGENTS_MILLIS, AGENTS_MIB)
    rdma = pool.rdma_resource if transport == "infiniband" and pool.rdma_resource else ""
    return PoolDescription(
        name=pool.name,
        gpus=pool.gpus_per_node,
        slots=pool.gpus_per_node or max(1, cpu // 1000),
        memory_mib=memory,
        cpu_millis=cpu,
        labels=pool.node_selector,
        taints=_describe_taints(taint for node in nodes for taint in node.taints),
        max_size=pool.nodes,
        rdma_resource=rdma,
        rdma_devices=min((node.rdma.get(rdma, 0) for node in nodes), default=0),
        transport="infiniband" if rdma else "tcp",
    )


def _compute_requestable_resources(nodes: Sequence[Node], agents_millis: int, agents_mib: int) -> tuple[int, int]:
    """Return the CPU and memory that a pod can request on any of the nodes, in millicores and MiB."""
    cpu = min((node.cpu_millis for node in nodes), default=0)
    memory = min((node.memory_mib for node in nodes), default=0)
    return max(int(cpu * MINIMUM_SHARE), cpu - agents_millis), max(int(memory * MINIMUM_SHARE), memory - agents_mib)
