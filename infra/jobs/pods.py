"""What the pods of every kind of job have in common. They satisfy Pod Security `restricted`.

https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.jobs.cluster import ClusterDescription, NamespaceDescription, PoolDescription
from infra.jobs.model import Job, Mount
from infra.jobs.quantities import mib
from infra.jobs.sizing import WorkerSize, worker_size
from infra.naming import GROUP_ID, PROJECT, USER_ID, job_labels

Manifest = dict[str, Any]

SSH_PORT: Final = 2222
"""One that needs no privilege."""

SAFE_TO_EVICT: Final = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
"""A job that loses one pod loses all its work."""

LOST_NODE_SECONDS: Final = 30
"""How long a pod stays bound to a node that is gone; Kubernetes waits five minutes, and the job with it."""

LAUNCHER_CPU_MILLIS, LAUNCHER_CPU_LIMIT, LAUNCHER_MEMORY_MIB = 250, "2", 1024
"""Enough for `mpirun` over hundreds of hosts; programs that load data in the launcher belong into ranks."""


@dataclass(frozen=True)
class World:
    """A job that was found valid, and where it runs."""

    job: Job
    cluster: ClusterDescription
    pool: PoolDescription
    launcher_pool: PoolDescription | None
    namespace: NamespaceDescription
    size: WorkerSize

    @classmethod
    def of(cls, job: Job, cluster: ClusterDescription) -> "World":
        """Raises LookupError for a pool that the cluster does not have: validation should have said so."""
        pool = cluster.pool(job.pool)
        if pool is None:
            raise LookupError(f"there is no pool {job.pool}")
        namespace = cluster.namespace(job.namespace) or NamespaceDescription(name=job.namespace or "")
        return cls(job, cluster, pool, cluster.pool(cluster.launcher_pool), namespace, worker_size(job, pool))

    def metadata(self, name: str, role: str | None = None, **more: object) -> Manifest:
        labels = job_labels(self.job.name, self.job.launcher, role)
        return {"name": name, "namespace": self.namespace.name, "labels": labels, **more}

    @property
    def queue_label(self) -> dict[str, str]:
        """By which Kueue admits the job, whole."""
        return {"kueue.x-k8s.io/queue-name": self.namespace.queue} if self.namespace.queue else {}


# --- containers --------------------------------------------------------------------------------------------------------


def container(world: World, name: str, command: Sequence[str], env: Mapping[str, str], **more: object) -> Manifest:
    """A container of the job's image, with its volumes and environment."""
    job = world.job
    variables: list[Manifest] = [{"name": key, "value": value} for key, value in {"HOME": job.home, **env, **job.env}.items()]
    variables += [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}}}
        for key, secret in job.secret_env.items()
    ]
    image = world.cluster.image(job.image)
    return {
        "name": name,
        "image": image,
        # every node must run the same bytes, also after somebody moved the tag
        "imagePullPolicy": "IfNotPresent" if "@sha256:" in image else "Always",
        "command": list(command),
        "env": variables,
        "volumeMounts": [*_mounts(world), {"name": "tmp", "mountPath": "/tmp"}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": not job.writable_root,
        },
        **more,
    }


def node_variables(pool: PoolDescription) -> list[Manifest]:
    """The node's name, by which two hosts are told apart (a pod's own name is another one on every pod); its network's rate."""
    name = {"name": "GPUMPI_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    rate = [] if pool.line_rate_gbps is None else [{"name": "GPUMPI_LINE_RATE_GBPS", "value": f"{pool.line_rate_gbps:g}"}]
    return [name, *rate]


def shared_memory() -> Manifest:
    return {"name": "dshm", "mountPath": "/dev/shm"}


STARTED_SECONDS: Final = 300
"""How long a worker may take to its first connection; then it is started anew."""


def ssh_probes() -> Manifest:
    """Ready is a worker that took a connection: then it has a name in DNS, and the launcher may come.

    Never asked again: sshd starts a process for whoever connects, also for a probe, and a pod whose sshd ends ends itself.
    Without a readiness probe a container is ready as soon as it has started; with one, on a node that is younger than the
    probe's period, only after a random part of it. https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/
    https://github.com/kubernetes/kubernetes/blob/v1.35.0/pkg/kubelet/prober/worker.go (run)
    """
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


def helper_resources(world: World, memory_mib: int = HELPER_MEMORY_MIB) -> Manifest:
    """For what serves the ranks and is none."""
    amounts = {"memory": mib(memory_mib)}
    request = max(1, int(HELPER_CPU_MILLIS * world.cluster.cpu_request_factor))
    return {"requests": {"cpu": f"{request}m", **amounts}, "limits": {"cpu": HELPER_CPU_LIMIT, **amounts}}


# --- pods --------------------------------------------------------------------------------------------------------------


def on_pool(world: World, containers: Sequence[Manifest], **more: object) -> Manifest:
    """A pod that holds ranks."""
    volumes: list[Manifest] = [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": mib(world.size.shared_memory_mib)}}]
    spec = _pod(world, world.pool, containers, volumes, **more)
    if world.job.one_per_node:
        term = {
            "labelSelector": {"matchLabels": job_labels(world.job.name, role="worker")},
            "topologyKey": "kubernetes.io/hostname",
        }
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return spec


def launcher_pod(world: World, containers: Sequence[Manifest], volumes: Sequence[Manifest] = (), **more: object) -> Manifest:
    """A pod beside the ranks, on the CPU pool where there is one."""
    return _pod(world, world.launcher_pool or world.pool, containers, volumes, **more)


def _pod(
    world: World, pool: PoolDescription, containers: Sequence[Manifest], volumes: Sequence[Manifest], **more: object
) -> Manifest:
    job = world.job
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "serviceAccountName": world.namespace.service_account,
        **({"priorityClassName": job.priority} if job.priority else {}),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": GROUP_ID,
            "fsGroup": GROUP_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "nodeSelector": pool.selector,
        "tolerations": _tolerations(pool),
        "containers": list(containers),
        "volumes": [*_volumes(world), {"name": "tmp", "emptyDir": {}}, *volumes],
        **more,
    }


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


# --- volumes -----------------------------------------------------------------------------------------------------------


def wanted_mounts(job: Job, namespace: NamespaceDescription) -> Sequence[Mount]:
    """What the job mounts; all that the namespace has where it says nothing."""
    if job.volumes is not None:
        return job.volumes
    return [Mount(name=volume.name) for volume in namespace.volumes]


def writable_path(job: Job, namespace: NamespaceDescription) -> str | None:
    """Where the first volume is mounted that the job may write; None without one."""
    writable = (mount for mount in wanted_mounts(job, namespace) if not mount.read_only)
    return next((path for mount in writable if (path := mount.mount_path or _usual_path(mount, namespace))), None)


def _claim(mount: Mount, namespace: NamespaceDescription) -> str:
    return next((volume.claim for volume in namespace.volumes if volume.name == mount.name), mount.name)


def _usual_path(mount: Mount, namespace: NamespaceDescription) -> str:
    return next((volume.mount_path for volume in namespace.volumes if volume.name == mount.name), "")


def _volumes(world: World) -> list[Manifest]:
    claims = dict.fromkeys(_claim(mount, world.namespace) for mount in wanted_mounts(world.job, world.namespace))
    return [{"name": _volume_name(claim), "persistentVolumeClaim": {"claimName": claim}} for claim in claims]


def _mounts(world: World) -> list[Manifest]:
    return [
        {
            "name": _volume_name(_claim(mount, world.namespace)),
            "mountPath": mount.mount_path or _usual_path(mount, world.namespace),
            **({"readOnly": True} if mount.read_only else {}),
        }
        for mount in wanted_mounts(world.job, world.namespace)
    ]


def _volume_name(claim: str) -> str:
    return f"{PROJECT}-{claim}"[:63].rstrip("-.").replace(".", "-")
