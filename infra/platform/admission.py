"""How the queue judges jobs: its configuration, and quotas that follow from the pools. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from infra.jobs.cluster import PoolDescription
from infra.naming import EFA_RESOURCE, GPU_RESOURCE, HUGEPAGES_RESOURCE, JOBS_LABEL, QUEUE_NAME

COVERED: Final = ("cpu", "memory", GPU_RESOURCE, EFA_RESOURCE, HUGEPAGES_RESOURCE)
"""A job that asks for a resource without a quota is never admitted, so all are named, also where a pool has none."""

PODS_READY_MINUTES: Final = 30
"""From admission to the last pod's readiness. A GPU node from nothing takes 10 to 20, with its images."""
RECOVERY_MINUTES: Final = 30
"""The same for a pod that is replaced in mid-run: its node may have to be replaced too."""
BACKOFF_SECONDS: Final = 60
MOST_BACKOFF_SECONDS: Final = 3600

FRAMEWORKS: Final = ("batch/job", "pod", "statefulset")
MPI_FRAMEWORK: Final = "kubeflow.org/mpijob"

WEBHOOK_PORT: Final = 9443
METRICS_PORT: Final = 8443
HEALTH_PORT: Final = 8081


def configuration(*, mpi_jobs: bool) -> Mapping[str, Any]:
    """https://kueue.sigs.k8s.io/docs/reference/kueue-config.v1beta2/"""
    in_job_namespaces = {"matchLabels": {JOBS_LABEL: "true"}}
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f":{HEALTH_PORT}"},
        "metrics": {"bindAddress": f":{METRICS_PORT}", "enableClusterQueueResources": True},
        "webhook": {"port": WEBHOOK_PORT},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "controller": {
            "groupKindConcurrency": {
                "Job.batch": 5,
                "Pod": 5,
                "Workload.kueue.x-k8s.io": 5,
                "LocalQueue.kueue.x-k8s.io": 1,
                "ClusterQueue.kueue.x-k8s.io": 1,
                "ResourceFlavor.kueue.x-k8s.io": 1,
            }
        },
        "clientConnection": {"qps": 50, "burst": 100},
        "managedJobsNamespaceSelector": in_job_namespaces,
        "waitForPodsReady": {
            "timeout": f"{PODS_READY_MINUTES}m",
            "recoveryTimeout": f"{RECOVERY_MINUTES}m",
            "blockAdmission": False,
            "requeuingStrategy": {
                # behind those that wait: what no capacity could be had for holds nobody up
                "timestamp": "Eviction",
                "backoffBaseSeconds": BACKOFF_SECONDS,
                "backoffMaxSeconds": MOST_BACKOFF_SECONDS,
            },
        },
        "integrations": {"frameworks": [*FRAMEWORKS, *([MPI_FRAMEWORK] if mpi_jobs else [])]},
        "resources": {"excludeResourcePrefixes": ["ephemeral-storage"]},
        # An aggregated API whose server is away stops every namespace from being deleted.
        "featureGates": {"VisibilityOnDemand": False},
    }


def flavour(pool: PoolDescription) -> Mapping[str, Any]:
    """What a pool's nodes are: a job that selects another pool, or does not tolerate the taints, is not put there."""
    taints = [{"key": one.key, "value": one.value, "effect": one.effect} for one in pool.taints]
    return {**({"nodeLabels": pool.selector} if pool.selector else {}), **({"nodeTaints": taints} if taints else {})}


def quota(pool: PoolDescription, cpu_request_factor: float) -> Mapping[str, str]:
    """What all nodes of a pool offer when it is as large as it can be."""
    most = pool.max_size
    return {
        "cpu": cpu(int(pool.cpu_millis * most * cpu_request_factor)),
        "memory": memory(pool.memory_mib * most),
        GPU_RESOURCE: str(pool.gpus * most),
        EFA_RESOURCE: str(pool.efa * most),
        HUGEPAGES_RESOURCE: memory(pool.hugepages_mib * most),
    }


def cpu(millis: int) -> str:
    """As Kueue writes it back: another way to write the same would look like a change."""
    return f"{millis}m" if millis % 1000 else str(millis // 1000)


def memory(mib: int) -> str:
    """As Kueue writes it back."""
    power = 0
    while mib and mib % 1024 == 0:
        mib, power = mib // 1024, power + 1
    return f"{mib}{('Mi', 'Gi', 'Ti', 'Pi')[power]}" if mib else "0"


def cluster_queue(pools: Sequence[PoolDescription], cpu_request_factor: float, *, strict: bool) -> Mapping[str, Any]:
    """One queue over all pools; where a job goes, its node selector says."""
    flavours = []
    # Kueue goes on from the flavour that it tried last. With the launchers' pool first, a job that waits for GPUs is told in
    # the end that its launcher does not fit among the GPUs.
    for pool in sorted(pools, key=lambda pool: pool.gpus == 0):
        amounts = quota(pool, cpu_request_factor)
        resources = [{"name": name, "nominalQuota": amounts[name]} for name in COVERED]
        flavours.append({"name": pool.name, "resources": resources})
    return {
        "namespaceSelector": {"matchLabels": {JOBS_LABEL: "true"}},
        "queueingStrategy": "StrictFIFO" if strict else "BestEffortFIFO",
        # An MPI job that loses a rank loses its work: a priority is a place in the queue, not a right to stop others.
        "preemption": {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"},
        "resourceGroups": [{"coveredResources": list(COVERED), "flavors": flavours}],
    }


def local_queue() -> Mapping[str, Any]:
    return {"clusterQueue": QUEUE_NAME}
