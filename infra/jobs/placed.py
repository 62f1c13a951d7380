"""A valid job in its cluster, and the interface of the launchers that build its Kubernetes objects."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from infra.config.problems import Problem
from infra.jobs.cluster import ClusterDescription, NamespaceDescription, PoolDescription
from infra.jobs.model import Job, KeyExchange, LauncherName, MpiImplementation
from infra.jobs.progress import parse_seconds
from infra.jobs.sizing import WorkerSize
from infra.naming import HELD_QUEUE, POLICY_ANNOTATION, QUEUE_LABEL, build_job_labels

Manifest = dict[str, Any]
Role = Literal["worker", "launcher", "setup"]
"""Roles of the pods that run the user's commands. The container of such a pod is named after the role."""

POLICY_VERSION: Final = 1
DISRUPTIONS: Final = 100
"""Attempts that Kubernetes allows a job in addition to `maxRestarts`, because lost nodes and preemption do not count as
restarts. The job controller fails the job when no restart is left. Unlike a Kubernetes Job, it distinguishes lost nodes
from failures."""


@dataclass(frozen=True)
class KeyPair:
    """The SSH keys of one job."""

    private: str
    """Private key in OpenSSH format."""
    public: str

    def __repr__(self) -> str:
        return "KeyPair(...)"


def build_owner_reference(main: Manifest, uid: Any) -> Manifest:
    """Return an owner reference that does not make the owner a controller.

    Kueue treats objects controlled by a queued job as part of that job and does not queue them separately. The Job of
    `setup` would stay suspended forever, because the controller releases the queued job only after it (reconciler.go in
    Kueue).
    """
    names = {"apiVersion": main["apiVersion"], "kind": main["kind"], "name": main["metadata"]["name"]}
    return {**names, "uid": uid, "controller": False, "blockOwnerDeletion": False}


@dataclass(frozen=True)
class Storage:
    """Where `submit` stores the files and logs of a job. Jobs of a stack have no such storage: no client sends a
    folder, and the pods stay until the job is removed."""

    workdir: str = ""
    """Folder in which the user's commands start."""
    archive: str = ""
    """Key of the folder's archive in the stack's bucket, from which each pod unpacks its own copy of the folder."""
    logs: str = ""
    """Folder on a volume to which pods copy their logs."""
    log_run: str = ""
    """Name of this run of the job in CloudWatch, to which pods send their logs."""


class Launcher(ABC):
    """How a job starts its ranks. There is one subclass per value of `launcher`; render.py lists them."""

    name: ClassVar[LauncherName]
    roles: ClassVar[tuple[Role, ...]]
    """Roles of the job's pods, except `setup`. The first role's pods end an attempt when they end, and have the job's
    log."""
    uses_ssh: ClassVar[bool]
    """True if ranks are started over SSH, by MPI: the image needs sshd, and a home directory with the keys."""
    starts_before_workers: ClassVar[bool] = False
    """True if the launcher's pod starts before its workers are ready, and waits for them itself."""
    mpi_implementations: ClassVar[tuple[MpiImplementation, ...]] = ("OpenMPI",)
    key_exchanges: ClassVar[tuple[KeyExchange, ...]] = ("secret",)

    @abstractmethod
    def build(self, placed: "PlacedJob", generate_keys: Callable[[], KeyPair]) -> list[Manifest]:
        """Return the job's objects without `setup`. The first object is the main object, which owns the others."""

    @abstractmethod
    def list_longest_names(self, job: Job) -> Iterator[tuple[str, int]]:
        """Yield the longest names derived from the job's name, each with its length limit, the tightest limit first."""

    def check(self, job: Job) -> Iterator[Problem]:
        """Check the fields that have another meaning with this launcher."""
        yield from ()

    def check_in_cluster(self, job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
        """Check what the launcher requires of the cluster."""
        yield from ()

    def check_size(self, placed: "PlacedJob") -> Iterator[Problem]:
        """Check what the launcher requires of each worker."""
        yield from ()


@dataclass(frozen=True)
class PlacedJob:
    """A valid job with its cluster, pools, namespace and launcher. If the workers have no EFA devices, the pool's
    transport is TCP."""

    job: Job
    cluster: ClusterDescription
    pool: PoolDescription
    launcher_pool: PoolDescription
    """Pool of the pods that run no ranks: the cluster's launcher pool, or without one, the job's pool."""
    namespace: NamespaceDescription
    size: WorkerSize
    launcher: Launcher
    storage: Storage = Storage()

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def attempts(self) -> int:
        """Attempts after which Kubernetes fails the job, if the job controller does not fail it earlier."""
        return self.job.max_restarts + DISRUPTIONS

    @property
    def deadline(self) -> Manifest:
        return {} if self.job.active_deadline_seconds is None else {"activeDeadlineSeconds": self.job.active_deadline_seconds}

    @property
    def ttl_fields(self) -> Manifest:
        seconds = self.job.ttl_seconds_after_finished
        return {} if seconds is None else {"ttlSecondsAfterFinished": seconds}

    @property
    def suspend_fields(self) -> Manifest:
        """Fields of the main object that keep the ranks from starting until `setup` has succeeded, in a namespace
        without a queue."""
        return {"suspend": True} if self.job.setup and not self.namespace.queue else {}

    def labels(self, role: str) -> dict[str, str]:
        return build_job_labels(self.name, self.job.launcher, role)

    def metadata(self, name: str, role: str) -> Manifest:
        return {"name": name, "namespace": self.namespace.name, "labels": self.labels(role)}

    def build_service(self, selector: Mapping[str, str], port_name: str, port: int, **more: object) -> Manifest:
        """Return the headless Service with the job's name, which gives pods DNS names."""
        spec = {"clusterIP": "None", **more, "selector": selector, "ports": [{"name": port_name, "port": port}]}
        return {"apiVersion": "v1", "kind": "Service", "metadata": self.metadata(self.name, "service"), "spec": spec}

    def build_queued_metadata(self, name: str, role: str) -> Manifest:
        """Return the metadata of an object that Kueue admits, with the label of the namespace's queue."""
        metadata = self.metadata(name, role)
        if self.namespace.queue:
            metadata["labels"][QUEUE_LABEL] = self.namespace.queue
        return metadata

    def build_main_metadata(self, name: str) -> Manifest:
        """Return the metadata of the main object, with the job controller's policy. The queue does not admit ranks
        before the controller releases them, after `setup`."""
        metadata = self.build_queued_metadata(name, "job")
        if self.job.setup and self.namespace.queue:
            metadata["labels"][QUEUE_LABEL] = HELD_QUEUE
        return {**metadata, "annotations": {POLICY_ANNOTATION: json.dumps(build_controller_policy(self), sort_keys=True)}}


def build_controller_policy(placed: PlacedJob) -> Manifest:
    """Return the controller's policy for the job (`POLICY_FIELDS` in infra/platform/job_controller/in_pod/job.py)."""
    job = placed.job
    progress = {}
    if job.progress is not None:
        ranks = job.per_node or placed.size.slots
        within = parse_seconds(job.progress.within)
        progress = {"progress": {"pattern": job.progress.line_pattern, "within": within, "ranksPerWorker": ranks}}
    return {
        "version": POLICY_VERSION,
        "pool": job.pool,
        "workers": job.workers,
        "maxRestarts": job.max_restarts,
        "noRetryExitCodes": list(job.no_retry_exit_codes),
        **({"cleanPodPolicy": "None"} if job.clean_pod_policy == "None" else {}),
        **placed.deadline,
        **progress,
        **({"hold": {"queue": placed.namespace.queue}} if job.setup else {}),
    }
