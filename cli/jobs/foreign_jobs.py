"""Jobs that users create without `submit`: PyTorchJobs, TrainJobs, JobSets, RayJobs and plain Jobs.

All functions are pure. `derive_foreign_state` in `cli.jobs.state` converts a job's `Progress` into a `JobState`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from infra.naming import BATCH_JOB_LABEL, COMPLETION_INDEX, JOB_LABEL, MPI_JOB_LABEL, MPI_ROLE_LABEL, POOL_LABEL, ROLE_LABEL

Object = Mapping[str, Any]
Pod = TypeVar("Pod", bound=Object)

KINDS: Final = ("TrainJob", "JobSet", "PyTorchJob", "RayJob", "Job")
"""Kinds of jobs. Each kind precedes the kinds that its operator creates for it."""

JOB_SET_LABEL: Final = "jobset.sigs.k8s.io/jobset-name"
RAY_LABEL: Final = "ray.io/originated-from-cr-name"
POD_LABELS: Final = {
    "TrainJob": JOB_SET_LABEL,
    "JobSet": JOB_SET_LABEL,
    "PyTorchJob": MPI_JOB_LABEL,
    "MPIJob": MPI_JOB_LABEL,
    "RayJob": RAY_LABEL,
    "Job": BATCH_JOB_LABEL,
}
"""Maps the kind of a job to the pod label that contains the job's name. A TrainJob's JobSet has the same name as the TrainJob."""
LABELS: Final = (JOB_LABEL, MPI_JOB_LABEL, JOB_SET_LABEL, RAY_LABEL, BATCH_JOB_LABEL)
"""Pod labels that contain the job's name, in order of preference: pods of a JobSet also have the label of the Job that
created them.
"""

_INDEXES = (
    COMPLETION_INDEX,
    "training.kubeflow.org/replica-index",
    "apps.kubernetes.io/pod-index",
)
"""Keys of labels and annotations that contain a pod's index. They are set by Kubernetes' Job controller, mpi-operator
and the StatefulSet controller, in this order.
"""


@dataclass(frozen=True)
class Progress:
    """State of a job, as reported by its operator."""

    workers: int
    suspended: bool
    running: bool
    succeeded: Object | None = None
    """Condition that reports success."""
    failed: Object | None = None
    failures: int = 0
    ended: str | None = None
    pool: str = ""


def is_foreign(main: Object) -> bool:
    """Return whether the object is an independent job: neither created by `submit` nor part of another job."""
    metadata = main["metadata"]
    owned = any(owner.get("controller") for owner in metadata.get("ownerReferences") or ())
    return not owned and JOB_LABEL not in (metadata.get("labels") or {})


def get_job_name(pod: Object) -> str:
    """Return the name of a pod's job; empty if it belongs to none."""
    labels = pod["metadata"].get("labels") or {}
    return str(next((labels[label] for label in LABELS if label in labels), ""))


def get_pod_role(pod: Object) -> str:
    """Return `launcher` or `worker` for a pod of a job; empty for other pods."""
    labels = pod["metadata"].get("labels") or {}
    if ROLE_LABEL in labels:
        return str(labels[ROLE_LABEL])
    if "training.kubeflow.org/replica-type" in labels or MPI_ROLE_LABEL in labels:
        replica = labels.get(MPI_ROLE_LABEL) or labels["training.kubeflow.org/replica-type"]
        return "launcher" if replica == "launcher" else "worker"
    return "worker" if {JOB_SET_LABEL, RAY_LABEL, BATCH_JOB_LABEL} & labels.keys() else ""


def get_worker_index(pod: Object) -> int | None:
    """Return the index of a worker's pod; None for other pods.

    >>> get_worker_index({"metadata": {"name": "a-worker-3", "labels": {"gpumpi.io/role": "worker"}}})
    3
    """
    if get_pod_role(pod) != "worker":
        return None
    metadata = pod["metadata"]
    keys = {**metadata.get("annotations", {}), **metadata.get("labels", {})}
    number = next((keys[name] for name in _INDEXES if name in keys), metadata["name"].rpartition("-")[2])
    return int(number) if number.isdecimal() and len(number) < 10 else None


def find_log_pods(pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods whose logs make up the log of a job: each attempt's launcher or, without a launcher, rank 0."""
    ranks = [(_rank_sort_key(pod), pod) for pod in pods]
    first = min((rank for rank, _ in ranks), default=None)
    return [pod for rank, pod in ranks if rank == first]


def _rank_sort_key(pod: Object) -> tuple[int, int, int]:
    metadata = pod["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    roles = (
        labels.get("training.kubeflow.org/replica-type"),
        labels.get("jobset.sigs.k8s.io/replicatedjob-name"),
        labels.get("ray.io/node-type"),
    )
    leads = {"master", "launcher", "head"} & set(roles)
    outer = labels.get("jobset.sigs.k8s.io/job-index") or labels.get("training.kubeflow.org/replica-index")
    return 0 if leads else 1, _parse_number(outer), _parse_number(annotations.get(COMPLETION_INDEX))


def _parse_number(text: str | None) -> int:
    """Return the number in a label or annotation, which users can write; 0 if it is not a number."""
    return int(text) if text and text.isdecimal() and len(text) < 10 else 0


def read_progress(main: Object) -> Progress:
    """Return the progress of a job whose kind is in KINDS."""
    spec, status = main["spec"], main.get("status") or {}
    match main["kind"]:
        case "Job":
            return _read_batch_progress(spec, status)
        case "PyTorchJob":
            return _read_pytorch_progress(spec, status)
        case "RayJob":
            return _read_ray_progress(spec, status)
        case "TrainJob":
            # If numNodes is missing, the runtime sets the number of nodes, which is unknown here.
            return _read_job_set_progress(
                spec, status, (spec.get("trainer") or {}).get("numNodes") or 0, status.get("jobsStatus"), "Complete"
            )
    workers = sum(
        part.get("replicas", 1) * (part["template"].get("spec") or {}).get("parallelism", 1) for part in spec["replicatedJobs"]
    )
    return _read_job_set_progress(spec, status, workers, status.get("replicatedJobsStatus"), "Completed")


def _read_batch_progress(spec: Object, status: Object) -> Progress:
    is_indexed = spec.get("completionMode") == "Indexed"
    selector = (spec["template"].get("spec") or {}).get("nodeSelector") or {}
    return Progress(
        workers=spec.get("completions", 1) if is_indexed else 0,
        suspended=bool(spec.get("suspend")),
        running=status.get("ready", 0) >= spec.get("parallelism", 1),
        succeeded=find_true_condition(status, "Complete"),
        failed=find_true_condition(status, "Failed"),
        failures=status.get("failed", 0),
        ended=status.get("completionTime"),
        pool=selector.get(POOL_LABEL, "") if is_indexed else "",
    )


def _read_pytorch_progress(spec: Object, status: Object) -> Progress:
    replicas = spec.get("pytorchReplicaSpecs") or {}
    return Progress(
        workers=sum(replica.get("replicas", 1) for replica in replicas.values()),
        suspended=bool((spec.get("runPolicy") or {}).get("suspend")),
        running=find_true_condition(status, "Running") is not None,
        succeeded=find_true_condition(status, "Succeeded"),
        failed=find_true_condition(status, "Failed"),
        failures=sum(replica.get("failed", 0) for replica in (status.get("replicaStatuses") or {}).values()),
        ended=status.get("completionTime"),
    )


def _read_job_set_progress(spec: Object, status: Object, workers: int, jobs: Sequence[Object] | None, complete: str) -> Progress:
    """Return the progress of a JobSet, or of a TrainJob, whose status is copied from its JobSet."""
    return Progress(
        workers=workers,
        suspended=bool(spec.get("suspend")),
        running=bool(jobs) and all(child.get("ready", 0) + child.get("succeeded", 0) > 0 for child in jobs or ()),
        succeeded=find_true_condition(status, complete),
        failed=find_true_condition(status, "Failed"),
        failures=status.get("restarts", 0) or sum(child.get("failed", 0) for child in jobs or ()),
    )


def _read_ray_progress(spec: Object, status: Object) -> Progress:
    groups = (spec.get("rayClusterSpec") or {}).get("workerGroupSpecs") or ()
    deployment, job = status.get("jobDeploymentStatus"), status.get("jobStatus")
    end = {"message": status.get("message") or status.get("reason") or "", "lastTransitionTime": status.get("endTime")}
    return Progress(
        workers=1 + sum(group.get("replicas", 0) for group in groups),
        suspended=bool(spec.get("suspend")),
        running=deployment == "Running",
        succeeded=end if deployment == "Complete" and job == "SUCCEEDED" else None,
        failed=end if deployment == "Failed" or job in ("FAILED", "STOPPED") else None,
        failures=status.get("failed", 0),
        ended=status.get("endTime"),
    )


def find_true_condition(status: Object, kind: str) -> Object | None:
    """Return the condition of this type if its status is `True`, or else None."""
    conditions: Sequence[Object] = status.get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == kind and condition["status"] == "True"), None)


def has_true_condition(item: Object, kind: str) -> bool:
    """Return whether an object has a condition of this type whose status is `True`."""
    return find_true_condition(item.get("status") or {}, kind) is not None
