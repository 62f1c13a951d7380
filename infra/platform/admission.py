"""Kueue's configuration, and quotas derived from the pools. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from infra.jobs.cluster import PoolDescription
from infra.naming import EFA_RESOURCE, GPU_RESOURCE, HUGEPAGES_RESOURCE, JOBS_LABEL, QUEUE_NAME

COVERED: Final = ("cpu", "memory", GPU_RESOURCE, EFA_RESOURCE, HUGEPAGES_RESOURCE)
"""Kueue never admits a job that requests a resource without a quota, so each pool has a quota for each of these
resources, even if it is 0."""

PODS_READY_MINUTES: Final = 30
"""Time limit from admission until all pods are ready. A new GPU node takes 10 to 20 minutes, including images."""
RECOVERY_MINUTES: Final = 30
"""Time limit for a replaced pod of a running job: its node may have to be replaced too."""
BACKOFF_SECONDS: Final = 60
MAXIMUM_BACKOFF_SECONDS: Final = 3600

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
                # Requeue a job behind the waiting jobs, so that a job without capacity does not block them.
                "timestamp": "Eviction",
                "backoffBaseSeconds": BACKOFF_SECONDS,
                "backoffMaxSeconds": MAXIMUM_BACKOFF_SECONDS,
            },
        },
        "integrations": {"frameworks": [*FRAMEWORKS, *([MPI_FRAMEWORK] if mpi_jobs else [])]},
        "resources": {"excludeResourcePrefixes": ["ephemeral-storage"]},
        # If the server of an aggregated API is down, no namespace can be deleted.
        "featureGates": {"VisibilityOnDemand": False},
    }


def flavor(pool: PoolDescription) -> Mapping[str, Any]:
    """Return the labels and taints of a pool's nodes. Kueue does not assign a pool's flavor to jobs that select another
    pool or do not tolerate the taints."""
    taints = [{"key": one.key, "value": one.value, "effect": one.effect} for one in pool.taints]
    return {**({"nodeLabels": pool.selector} if pool.selector else {}), **({"nodeTaints": taints} if taints else {})}


def quota(pool: PoolDescription, cpu_request_factor: float) -> Mapping[str, str]:
    """Return the resources of all nodes of a pool at its maximum size."""
    maximum = pool.max_size
    return {
        "cpu": cpu(int(pool.cpu_millis * maximum * cpu_request_factor)),
        "memory": memory(pool.memory_mib * maximum),
        GPU_RESOURCE: str(pool.gpus * maximum),
        EFA_RESOURCE: str(pool.efa * maximum),
        HUGEPAGES_RESOURCE: memory(pool.hugepages_mib * maximum),
    }


def cpu(millis: int) -> str:
    """Format CPU as Kueue writes it back. Any other format would appear as drift."""
    return f"{millis}m" if millis % 1000 else str(millis // 1000)


def memory(mib: int) -> str:
    """Format memory as Kueue writes it back."""
    power = 0
    while mib and mib % 1024 == 0:
        mib, power = mib // 1024, power + 1
    return f"{mib}{('Mi', 'Gi', 'Ti', 'Pi')[power]}" if mib else "0"


def cluster_queue(pools: Sequence[PoolDescription], cpu_request_factor: float, *, strict: bool) -> Mapping[str, Any]:
    """Return one queue for all pools. A job's node selector decides which pool it uses."""
    flavors = []
    # Kueue continues with the flavor that it tried last. With the launchers' pool first, the final message of a job
    # that waits for GPUs would be that its launcher does not fit on the GPU nodes.
    for pool in sorted(pools, key=lambda pool: pool.gpus == 0):
        amounts = quota(pool, cpu_request_factor)
        resources = [{"name": name, "nominalQuota": amounts[name]} for name in COVERED]
        flavors.append({"name": pool.name, "resources": resources})
    return {
        "namespaceSelector": {"matchLabels": {JOBS_LABEL: "true"}},
        "queueingStrategy": "StrictFIFO" if strict else "BestEffortFIFO",
        # An MPI job that loses a rank loses its work: priorities order the queue and never preempt running jobs.
        "preemption": {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"},
        "resourceGroups": [{"coveredResources": list(COVERED), "flavors": flavors}],
    }


def local_queue() -> Mapping[str, Any]:
    return {"clusterQueue": QUEUE_NAME}
