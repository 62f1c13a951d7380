"""Description of an EKS cluster for jobs, from settings and pools. Pure."""

from collections.abc import Mapping

from infra.facts.model import Facts
from infra.jobs.cluster import ClusterDescription, NamespaceDescription, PoolDescription, TaintDescription, VolumeDescription
from infra.naming import JOB_SERVICE_ACCOUNT, PRIORITIES, QUEUE_NAME, SYSTEM_POOL, Naming
from infra.plan.allocatable import for_jobs
from infra.plan.eks_pools import HUGE_PAGES_MIB, PoolPlan
from infra.plan.image_repositories import address
from infra.settings.platform import JobNamespace, TransportChoice
from infra.settings.stack import Settings


def describe(settings: Settings, facts: Facts, plans: Mapping[str, PoolPlan]) -> ClusterDescription:
    platform = settings.platform
    markets = {pool.name: pool.capacity.kind for pool in settings.pools}
    return ClusterDescription(
        cluster=settings.cluster_name,
        region=settings.region,
        account=facts.caller.account,
        pools=tuple(_pool(plan, platform.transport, markets.get(plan.spec.name, "on-demand")) for plan in plans.values()),
        launcher_pool=SYSTEM_POOL,
        namespaces=tuple(_namespace(namespace, settings) for namespace in platform.job_namespaces),
        mpi_operator=platform.mpi_operator,
        log_group=Naming(settings.stack).job_logs if platform.keeps_logs_in_cloudwatch else "",
        image_registry=platform.image_registry or "",
        image_repository=address(settings, facts) or "",
        image_pull_secrets=platform.image_pull_secrets,
        cpu_request_factor=platform.cpu_request_factor,
    )


def _pool(plan: PoolPlan, transport: TransportChoice, market: str) -> PoolDescription:
    spec, instance = plan.spec, plan.instance
    hugepages_mib = HUGE_PAGES_MIB if spec.huge_pages else 0
    available = for_jobs(instance, huge_pages_mib=hugepages_mib, is_system=spec.name == SYSTEM_POOL)
    return PoolDescription(
        name=spec.name,
        instance_type=spec.instance_type,
        market=market,
        gpus=instance.gpus,
        slots=instance.slots,
        efa=spec.efa_interfaces,
        hugepages_mib=hugepages_mib,
        memory_mib=available.memory_mib,
        cpu_millis=available.cpu_millis,
        labels=dict(spec.labels),
        taints=tuple(TaintDescription(key=taint.key, value=taint.value, effect=taint.effect) for taint in spec.taints),
        max_size=spec.sizes.maximum,
        line_rate_gbps=instance.line_rate_gbps,
        transport="efa" if transport == "auto" and spec.efa_interfaces else "tcp",
        nccl="efa" if transport != "tcp" and spec.efa_interfaces else "tcp",
    )


def _namespace(namespace: JobNamespace, settings: Settings) -> NamespaceDescription:
    volumes = tuple(
        VolumeDescription(name=each.kind.claim, claim=each.kind.claim, mount_path=each.mount_path)
        for each in settings.storage.file_systems
    )
    return NamespaceDescription(
        name=namespace.name,
        pod_security=namespace.pod_security,
        service_account=JOB_SERVICE_ACCOUNT,
        queue=QUEUE_NAME if settings.platform.queue else None,
        volumes=volumes,
        priority_classes=tuple(PRIORITIES),
        key_bucket=True,
    )
