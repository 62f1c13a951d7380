"""Parts of pods that all kinds of jobs share. These parts comply with the Pod Security Standard `restricted`.

https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.jobs.cluster import ClusterDescription, NamespaceDescription, PoolDescription
from infra.jobs.model import Job, Mount
from infra.jobs.pod_overrides import as_manifest
from infra.jobs.quantities import mib
from infra.jobs.sizing import WorkerSize, worker_size
from infra.naming import GROUP_ID, PROJECT, USER_ID, job_labels

Manifest = dict[str, Any]

SSH_PORT: Final = 2222
"""Unprivileged port."""

SETUP_CONTAINERS: Final = ("prepare", "setup")
"""Containers that run `setup`: an init container of the ranks, or a Job of its own if the cluster has a job controller."""
USER_CONTAINERS: Final = ("launcher", "worker", *SETUP_CONTAINERS)
"""Containers that run the user's commands; the others exchange keys, unpack files and clean up."""

SAFE_TO_EVICT: Final = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
"""Keep the cluster autoscaler from evicting pods: a job that loses a pod loses its work."""

LOST_NODE_SECONDS: Final = 30
"""How long a pod stays bound to a lost node. With Kubernetes' default, the job would wait five minutes."""

LAUNCHER_CPU_MILLIS, LAUNCHER_CPU_LIMIT, LAUNCHER_MEMORY_MIB = 250, "2", 1024
"""Enough for `mpirun` on hundreds of hosts. Load data in the ranks, not in the launcher."""


@dataclass(frozen=True)
class PlacedJob:
    """A valid job with its cluster, pool and namespace. If the workers have no EFA devices, the pool's transport is
    TCP."""

    job: Job
    cluster: ClusterDescription
    pool: PoolDescription
    launcher_pool: PoolDescription | None
    namespace: NamespaceDescription
    size: WorkerSize

    @classmethod
    def of(cls, job: Job, cluster: ClusterDescription) -> "PlacedJob":
        """Look up the job's pool and namespace. Raises LookupError for an unknown pool, which validation should have
        rejected."""
        pool = cluster.pool(job.pool)
        if pool is None:
            raise LookupError(f"there is no pool {job.pool}")
        namespace = cluster.namespace(job.namespace) or NamespaceDescription(name=job.namespace or "")
        size = worker_size(job, pool)
        if pool.efa and not size.efa:  # MPI and NCCL configured for EFA would fail without an EFA interface
            pool = pool.model_copy(update={"transport": "tcp", "nccl": "tcp"})
        return cls(job, cluster, pool, cluster.pool(cluster.launcher_pool), namespace, size)

    def metadata(self, name: str, role: str | None = None, **more: object) -> Manifest:
        labels = job_labels(self.job.name, self.job.launcher, role)
        return {"name": name, "namespace": self.namespace.name, "labels": labels, **more}

    def queued_metadata(self, name: str, role: str) -> Manifest:
        """Return the metadata of an object that Kueue admits, with the label of the namespace's queue."""
        metadata = self.metadata(name, role)
        if self.namespace.queue:
            metadata["labels"]["kueue.x-k8s.io/queue-name"] = self.namespace.queue
        return metadata

    @property
    def prepares(self) -> bool:
        """True if an init container runs `setup`. With a job controller, `setup` is a Job of its own (controlled.py)."""
        return bool(self.job.setup) and not self.cluster.job_controller

    @property
    def time_limits(self) -> Manifest:
        """Deadline and time to live, with the field names that a Job and an MPIJob's `runPolicy` use."""
        limits = {
            "activeDeadlineSeconds": self.job.active_deadline_seconds,
            "ttlSecondsAfterFinished": self.job.ttl_seconds_after_finished,
        }
        return {name: seconds for name, seconds in limits.items() if seconds is not None}


# --- containers --------------------------------------------------------------------------------------------------------


def container(placed: PlacedJob, name: str, command: Sequence[str], env: Mapping[str, str], **more: object) -> Manifest:
    """Return a container with the job's image, volumes and environment."""
    job = placed.job
    # Programs look up the user's name, and third-party images have no entry for user 1000.
    user = {"HOME": job.home, "USER": job.user, "LOGNAME": job.user}
    variables: list[Manifest] = [{"name": key, "value": value} for key, value in {**user, **env, **job.env}.items()]
    variables += [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}}}
        for key, secret in job.secret_env.items()
    ]
    image = placed.cluster.image(job.image)
    return {
        "name": name,
        "image": image,
        # Always pull tags, so that all nodes run the same image even if the tag has moved.
        "imagePullPolicy": "IfNotPresent" if "@sha256:" in image else "Always",
        "command": list(command),
        "env": variables,
        **(_of_user(job) if name in USER_CONTAINERS else {}),
        "volumeMounts": [*_mounts(placed), {"name": "tmp", "mountPath": "/tmp"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": not job.writable_root,
        },
        **more,
    }


def _of_user(job: Job) -> Manifest:
    return {
        **({"envFrom": [as_manifest(source) for source in job.env_from]} if job.env_from else {}),
        **({"workingDir": job.working_dir} if job.working_dir else {}),
    }


NODE_NAME: Final[Manifest] = {"name": "GPUMPI_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
"""Environment variable with the node's name. Pod names do not show which pods share a node."""


def shared_memory() -> Manifest:
    return {"name": "dshm", "mountPath": "/dev/shm"}


STARTED_SECONDS: Final = 300
"""Time limit for a worker to accept a connection, after which Kubernetes restarts it."""


def ssh_probes() -> Manifest:
    """Return a startup probe: a worker is ready, and has a DNS name, once it accepts a connection.

    There are no other probes: sshd starts a process for each connection, including probes, and the container terminates
    if sshd exits. Without a readiness probe, a container is ready as soon as it has started. With a readiness probe, if
    the kubelet started less than one probe period ago, the container is ready only after a random part of the period.
    https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/
    https://github.com/kubernetes/kubernetes/blob/v1.35.0/pkg/kubelet/prober/worker.go (run)"""
    connect = {"tcpSocket": {"port": SSH_PORT}, "timeoutSeconds": 5}
    return {"startupProbe": {**connect, "periodSeconds": 1, "failureThreshold": STARTED_SECONDS}}


def launcher_resources(cpu_factor: float) -> Manifest:
    memory = mib(LAUNCHER_MEMORY_MIB)
    request = max(1, int(LAUNCHER_CPU_MILLIS * cpu_factor))
    return {
        "requests": {"cpu": f"{request}m", "memory": memory},
        "limits": {"cpu": LAUNCHER_CPU_LIMIT, "memory": memory},
    }


HELPER_CPU_MILLIS, HELPER_CPU_LIMIT, HELPER_MEMORY_MIB = 20, "200m", 64


def helper_resources(placed: PlacedJob, memory_mib: int = HELPER_MEMORY_MIB) -> Manifest:
    """Return the resources of helper containers, which run no ranks."""
    amounts = {"memory": mib(memory_mib)}
    request = max(1, int(HELPER_CPU_MILLIS * placed.cluster.cpu_request_factor))
    return {"requests": {"cpu": f"{request}m", **amounts}, "limits": {"cpu": HELPER_CPU_LIMIT, **amounts}}


# --- pods --------------------------------------------------------------------------------------------------------------


def on_pool(placed: PlacedJob, containers: Sequence[Manifest], **more: object) -> Manifest:
    """Return the spec of a pod that runs ranks."""
    volumes: list[Manifest] = [
        {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": mib(placed.size.shared_memory_mib)}}
    ]
    spec = _pod(placed, placed.pool, containers, volumes, **more)
    if placed.job.one_per_node:
        term = {
            "labelSelector": {"matchLabels": job_labels(placed.job.name, role="worker")},
            "topologyKey": "kubernetes.io/hostname",
        }
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return spec


def launcher_pod(placed: PlacedJob, containers: Sequence[Manifest], volumes: Sequence[Manifest] = (), **more: object) -> Manifest:
    """Return the spec of a pod that runs no ranks. The pod runs on the launcher pool if the cluster has a launcher
    pool."""
    return _pod(placed, placed.launcher_pool or placed.pool, containers, volumes, **more)


def _pod(
    placed: PlacedJob, pool: PoolDescription, containers: Sequence[Manifest], volumes: Sequence[Manifest], **more: object
) -> Manifest:
    job = placed.job
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "serviceAccountName": placed.namespace.service_account,
        **({"priorityClassName": job.priority} if job.priority else {}),
        **_pull_secrets(placed),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": GROUP_ID,
            "fsGroup": GROUP_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": job.termination_grace_period_seconds,
        "nodeSelector": pool.selector,
        "tolerations": _tolerations(pool),
        "containers": list(containers),
        "volumes": [*_volumes(placed), {"name": "tmp", "emptyDir": {}}, *volumes],
        **more,
    }


def _pull_secrets(placed: PlacedJob) -> Manifest:
    """Return the Secrets that the kubelet uses to pull the pod's images.

    https://kubernetes.io/docs/tasks/configure-pod-container/pull-image-private-registry/"""
    own = placed.job.image_pull_secrets
    names = placed.cluster.image_pull_secrets if own is None else own
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}


def _tolerations(pool: PoolDescription) -> list[Manifest]:
    lost = [
        {
            "key": f"node.kubernetes.io/{state}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": LOST_NODE_SECONDS,
        }
        for state in ("not-ready", "unreachable")
    ]
    return [{"key": taint.key, "operator": "Exists", "effect": taint.effect} for taint in pool.taints] + lost


def user_containers(pod: Manifest) -> list[Manifest]:
    """Return the containers of a pod that run the user's commands."""
    return [
        container
        for container in (*pod.get("initContainers", ()), *pod.get("containers", ()))
        if container["name"] in USER_CONTAINERS
    ]


# --- volumes -----------------------------------------------------------------------------------------------------------


def wanted_mounts(job: Job, namespace: NamespaceDescription) -> Sequence[Mount]:
    """Return the job's mounts; by default all volumes of the namespace."""
    if job.volumes is not None:
        return job.volumes
    return [Mount(name=volume.name) for volume in namespace.volumes]


def writable_path(job: Job, namespace: NamespaceDescription) -> str | None:
    """Return the mount path of the job's first writable volume; None if it has none."""
    return next(iter(writable_paths(job, namespace)), None)


def writable_paths(job: Job, namespace: NamespaceDescription) -> list[str]:
    """Return the mount paths of the job's writable volumes."""
    writable = (mount for mount in wanted_mounts(job, namespace) if not mount.read_only)
    return [path for mount in writable if (path := mount.mount_path or _default_path(mount, namespace))]


def _claim(mount: Mount, namespace: NamespaceDescription) -> str:
    return next((volume.claim for volume in namespace.volumes if volume.name == mount.name), mount.name)


def _default_path(mount: Mount, namespace: NamespaceDescription) -> str:
    return next((volume.mount_path for volume in namespace.volumes if volume.name == mount.name), "")


def _volumes(placed: PlacedJob) -> list[Manifest]:
    claims = dict.fromkeys(_claim(mount, placed.namespace) for mount in wanted_mounts(placed.job, placed.namespace))
    return [{"name": _volume_name(claim), "persistentVolumeClaim": {"claimName": claim}} for claim in claims]


def _mounts(placed: PlacedJob) -> list[Manifest]:
    return [
        {
            "name": _volume_name(_claim(mount, placed.namespace)),
            "mountPath": mount.mount_path or _default_path(mount, placed.namespace),
            **({"readOnly": True} if mount.read_only else {}),
        }
        for mount in wanted_mounts(placed.job, placed.namespace)
    ]


def _volume_name(claim: str) -> str:
    return f"{PROJECT}-{claim}"[:63].rstrip("-.").replace(".", "-")
