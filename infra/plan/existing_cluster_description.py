"""Description of an existing cluster for jobs, from settings and the cluster's nodes. Pure."""

from collections.abc import Sequence
from typing import Final, Literal

from infra.facts.existing_cluster import ClusterFacts, Node
from infra.jobs.cluster import ClusterDescription, NamespaceDescription, PoolDescription, TaintDescription, VolumeDescription
from infra.naming import JOB_SERVICE_ACCOUNT, PRIORITIES, QUEUE_NAME, SHARED_CLAIM, SYSTEM_POOL
from infra.plan.allocatable import AGENTS_MIB, AGENTS_MILLIS, SYSTEM_PODS_MIB, SYSTEM_PODS_MILLIS
from infra.settings.existing import ExistingSettings, LabeledPool
from infra.settings.platform import JobNamespace

MINIMUM_SHARE: Final = 0.5
"""Minimum share of a node's memory and CPUs for jobs. On small nodes, the estimate for agents would leave less."""


def describe(settings: ExistingSettings, facts: ClusterFacts) -> ClusterDescription:
    platform = settings.platform
    return ClusterDescription(
        cluster=settings.cluster_name,
        pools=(
            _system(settings, facts),
            *(_pool(pool, facts.matching(pool.node_selector), platform.transport) for pool in settings.pools),
        ),
        launcher_pool=SYSTEM_POOL,
        namespaces=tuple(_namespace(namespace, settings) for namespace in platform.job_namespaces),
        mpi_operator=platform.mpi_operator,
        image_registry=platform.image_registry or "",
        image_repository=platform.image_repository or "",
        image_pull_secrets=platform.image_pull_secrets,
        cpu_request_factor=platform.cpu_request_factor,
    )


def system_nodes(settings: ExistingSettings, facts: ClusterFacts) -> tuple[Node, ...]:
    """Return the nodes for operators and launchers: those without taints, because these pods have no tolerations."""
    return tuple(node for node in facts.matching(settings.target.system.node_selector) if not node.repels_pods)


def _system(settings: ExistingSettings, facts: ClusterFacts) -> PoolDescription:
    nodes = system_nodes(settings, facts)
    cpu, memory = _available(nodes, AGENTS_MILLIS + SYSTEM_PODS_MILLIS, AGENTS_MIB + SYSTEM_PODS_MIB)
    return PoolDescription(
        name=SYSTEM_POOL,
        slots=max(1, cpu // 1000),
        memory_mib=memory,
        cpu_millis=cpu,
        labels=settings.target.system.node_selector,
        max_size=len(nodes),
    )


def _pool(pool: LabeledPool, nodes: Sequence[Node], transport: Literal["tcp", "infiniband"]) -> PoolDescription:
    cpu, memory = _available(nodes, AGENTS_MILLIS, AGENTS_MIB)
    taints = dict.fromkeys(taint for node in nodes for taint in node.taints)
    rdma = pool.rdma_resource if transport == "infiniband" and pool.rdma_resource else ""
    return PoolDescription(
        name=pool.name,
        gpus=pool.gpus_per_node,
        slots=pool.gpus_per_node or max(1, cpu // 1000),
        memory_mib=memory,
        cpu_millis=cpu,
        labels=pool.node_selector,
        taints=tuple(TaintDescription(key=taint.key, value=taint.value, effect=taint.effect) for taint in taints),
        max_size=pool.nodes,
        rdma_resource=rdma,
        rdma_devices=min((node.rdma.get(rdma, 0) for node in nodes), default=0),
        transport="infiniband" if rdma else "tcp",
    )


def _available(nodes: Sequence[Node], agents_millis: int, agents_mib: int) -> tuple[int, int]:
    """Return the CPU and memory that a pod can request on any of the nodes, in millicores and MiB."""
    cpu = min((node.cpu_millis for node in nodes), default=0)
    memory = min((node.memory_mib for node in nodes), default=0)
    return max(int(cpu * MINIMUM_SHARE), cpu - agents_millis), max(int(memory * MINIMUM_SHARE), memory - agents_mib)


def _namespace(namespace: JobNamespace, settings: ExistingSettings) -> NamespaceDescription:
    path = settings.mount_path
    return NamespaceDescription(
        name=namespace.name,
        pod_security=namespace.pod_security,
        service_account=JOB_SERVICE_ACCOUNT,
        queue=QUEUE_NAME if settings.platform.queue else None,
        volumes=(VolumeDescription(name=SHARED_CLAIM, claim=SHARED_CLAIM, mount_path=path),) if path else (),
        priority_classes=tuple(PRIORITIES),
    )
