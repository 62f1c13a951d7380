"""Kueue's configuration, and quotas derived from the pools. Performs no I/O."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from infra.jobs.cluster import PoolDescription
from infra.naming import EFA_RESOURCE, GPU_RESOURCE, HUGEPAGES_RESOURCE, JOBS_LABEL

COVERED: Final = ("cpu", "memory", GPU_RESOURCE, EFA_RESOURCE, HUGEPAGES_RESOURCE)
"""Kueue never admits a job that requests a resource without a quota, so each pool has a quota for each of these
resources, even if it is 0."""

PODS_READY_MINUTES: Final = 30
"""Time limit from admission until all pods are ready. A new GPU node takes 10 to 20 minutes, including image pulls."""
RECOVERY_MINUTES: Final = 30
"""Time limit until the replacement of a running job's pod is ready: the pod's node may have to be replaced too."""
BACKOFF_SECONDS: Final = 60
MAXIMUM_BACKOFF_SECONDS: Final = 3600

FRAMEWORKS: Final = ("batch/job", "pod", "statefulset")
MPI_FRAMEWORK: Final = "kubeflow.org/mpijob"
FOREIGN_FRAMEWORKS: Final = (
    "kubeflow.org/pytorchjob",
    "jobset.x-k8s.io/jobset",
    "trainer.kubeflow.org/trainjob",
    "ray.io/rayjob",
)
"""Kinds of jobs that other operators define. Kueue starts a controller for each kind as soon as the kind's custom
resource definition exists: `waitForAPI` in kubernetes-sigs/kueue@v0.16.1:pkg/controller/jobframework/setup.go.
"""

FEATURE_GATES: Final = {
    # This feature adds an aggregated API. While the server of an aggregated API is down, no namespace can be deleted.
    "VisibilityOnDemand": False,
    # No flavor has a topology. Kueue would still track the requests of every pod, and most of Kueue's known bugs
    # are in this feature (docs/guides/upgrade.md). Kueue does not start if only TASProfileMixed is enabled.
    "TopologyAwareScheduling": False,
    "TASProfileMixed": False,
}

STRICT_FEATURE_GATES: Final = {
    # For a waiting job, always try the flavors from the first one on. Otherwise Kueue continues after the flavor that
    # it tried last. The job's status message would then alternate between two reasons: the missing resource, and that
    # a launcher does not fit on GPU nodes. In a `BestEffortFIFO` queue, this setting would stop jobs from overtaking
    # others.
    "FlavorFungibility": False,
}

WEBHOOK_PORT: Final = 9443
METRICS_PORT: Final = 8443
HEALTH_PORT: Final = 8081


def build_kueue_config(*, mpi_jobs: bool, start_attempts: int, strict: bool) -> Mapping[str, Any]:
    """https://kueue.sigs.k8s.io/docs/reference/kueue-config.v1beta2/

    Kueue suspends a job after the last attempt: `triggerDeactivation` in
    kubernetes-sigs/kueue@v0.16.1:pkg/controller/core/workload_controller.go. The first attempt does not count as a
    requeue.
    """
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
                # Requeue a job after the waiting jobs, so that a job without capacity does not block them.
                "timestamp": "Eviction",
                "backoffBaseSeconds": BACKOFF_SECONDS,
                "backoffMaxSeconds": MAXIMUM_BACKOFF_SECONDS,
                **({"backoffLimitCount": start_attempts - 1} if start_attempts else {}),
            },
        },
        "integrations": {"frameworks": [*FRAMEWORKS, *([MPI_FRAMEWORK] if mpi_jobs else []), *FOREIGN_FRAMEWORKS]},
        "resources": {"excludeResourcePrefixes": ["ephemeral-storage"]},
        "featureGates": {**FEATURE_GATES, **(STRICT_FEATURE_GATES if strict else {})},
    }


def build_flavor(pool: PoolDescription) -> Mapping[str, Any]:
    """Return the labels and taints of a pool's nodes. Kueue does not assign a pool's flavor to jobs that select another
    pool or do not tolerate the taints.

    Jobs tolerate a taint whose key is a resource of the pool. Pods that request the resource get this toleration from
    the admission plugin ExtendedResourceToleration, but Kueue compares taints with job templates, which the plugin does
    not change.
    """
    taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in pool.taints]
    offered = {GPU_RESOURCE: pool.gpus, EFA_RESOURCE: pool.efa, pool.rdma_resource: pool.rdma_devices}
    tolerated = [
        {"key": key, "operator": "Exists", "effect": effect}
        for key, effect in dict.fromkeys((taint.key, taint.effect) for taint in pool.taints)
        if offered.get(key) and effect == "NoSchedule"
    ]
    return {
        **({"nodeLabels": pool.node_selector} if pool.node_selector else {}),
        **({"nodeTaints": taints} if taints else {}),
        **({"tolerations": tolerated} if tolerated else {}),
    }


def compute_quota(pool: PoolDescription, cpu_request_factor: float) -> Mapping[str, str]:
    """Return the resources of all nodes of a pool at its maximum size."""
    maximum = pool.max_size
    return {
        "cpu": format_cpu(int(pool.cpu_millis * maximum * cpu_request_factor)),
        "memory": format_memory(pool.memory_mib * maximum),
        GPU_RESOURCE: str(pool.gpus * maximum),
        EFA_RESOURCE: str(pool.efa * maximum),
        HUGEPAGES_RESOURCE: format_memory(pool.hugepages_mib * maximum),
        **({pool.rdma_resource: format_count(pool.rdma_devices * maximum)} if pool.rdma_resource else {}),
    }


def format_cpu(millis: int) -> str:
    """Format a CPU quantity in the form that Kueue writes back. Any other form would appear as drift in `pulumi refresh`."""
    return f"{millis}m" if millis % 1000 else str(millis // 1000)


def format_count(number: int) -> str:
    """Format a number in the form that Kueue writes back."""
    return f"{number // 1000}k" if number and number % 1000 == 0 else str(number)


def format_memory(mib: int) -> str:
    """Format a memory quantity in the form that Kueue writes back."""
    power = 0
    while mib and mib % 1024 == 0:
        mib, power = mib // 1024, power + 1
    return f"{mib}{('Mi', 'Gi', 'Ti', 'Pi')[power]}" if mib else "0"


def build_cluster_queue(pools: Sequence[PoolDescription], cpu_request_factor: float, *, strict: bool) -> Mapping[str, Any]:
    """Return one queue for all pools. A job's node selector decides which pool it uses."""
    flavors = []
    covered = [*COVERED, *sorted({pool.rdma_resource for pool in pools if pool.rdma_resource})]
    # Kueue assigns the first flavor that fits. Therefore pods without GPUs run on GPU nodes only if they fit nowhere else.
    for pool in sorted(pools, key=lambda pool: pool.gpus > 0):
        amounts = compute_quota(pool, cpu_request_factor)
        resources = [{"name": name, "nominalQuota": amounts.get(name, "0")} for name in covered]
        flavors.append({"name": pool.name, "resources": resources})
    return {
        "namespaceSelector": {"matchLabels": {JOBS_LABEL: "true"}},
        "queueingStrategy": "StrictFIFO" if strict else "BestEffortFIFO",
        # An MPI job that loses a rank loses its progress, so priorities only order the queue and never preempt running
        # jobs.
        "preemption": {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"},
        "resourceGroups": [{"coveredResources": covered, "flavors": flavors}],
    }
