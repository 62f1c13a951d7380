"""Description of an EKS cluster for jobs, from settings and pools. Pure."""

from collections.abc import Mapping

from infra.boot.eks_node import HUGE_PAGES
from infra.jobs.cluster import ClusterDescription, NamespaceDescription, PoolDescription, TaintDescription, VolumeDescription
from infra.naming import JOB_SERVICE_ACCOUNT, PRIORITIES, QUEUE_NAME, SHARED_CLAIM, SYSTEM_POOL
from infra.plan.allocatable import for_jobs
from infra.plan.eks_pools import HUGE_PAGE_MIB, PoolPlan
from infra.settings.platform import TransportChoice
from infra.settings.stack import Settings


def describe(settings: Settings, plans: Mapping[str, PoolPlan]) -> ClusterDescription:
    platform = settings.platform
    return ClusterDescription(
        cluster=settings.cluster_name,
        pools=tuple(_pool(plan, platform.transport) for plan in plans.values()),
        launcher_pool=SYSTEM_POOL,
        namespaces=tuple(_namespace(name, settings) for name in platform.namespaces),
        mpi_operator=platform.mpi_operator,
        image_registry=platform.image_registry or "",
        cpu_request_factor=platform.cpu_request_factor,
    )


def _pool(plan: PoolPlan, transport: TransportChoice) -> PoolDescription:
    spec, instance = plan.spec, plan.instance
    hugepages_mib = HUGE_PAGES * HUGE_PAGE_MIB if spec.huge_pages else 0
    available = for_jobs(instance, huge_pages_mib=hugepages_mib, is_system=spec.name == SYSTEM_POOL)
    return PoolDescription(
        name=spec.name,
        instance_type=spec.instance_type,
        gpus=instance.gpus,
        slots=instance.slots,
        efa=spec.efa_interfaces,
        hugepages_mib=hugepages_mib,
        memory_mib=available.memory_mib,
        cpu_millis=available.cpu_millis,
        labels=dict(spec.labels),
        taints=tuple(TaintDescription(key=one.key, value=one.value, effect=one.effect) for one in spec.taints),
        max_size=spec.sizes.maximum,
        line_rate_gbps=instance.line_rate_gbps,
        transport="efa" if transport == "auto" and spec.efa_interfaces else "tcp",
        nccl="efa" if transport != "tcp" and spec.efa_interfaces else "tcp",
    )


def _namespace(name: str, settings: Settings) -> NamespaceDescription:
    efs = settings.storage.efs
    volumes = () if efs == "none" else (VolumeDescription(name=SHARED_CLAIM, claim=SHARED_CLAIM, mount_path=efs.mount_path),)
    return NamespaceDescription(
        name=name,
        service_account=JOB_SERVICE_ACCOUNT,
        queue=QUEUE_NAME if settings.platform.queue else None,
        volumes=volumes,
        priority_classes=tuple(PRIORITIES),
        key_bucket=True,
    )
