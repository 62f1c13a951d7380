"""Jobs that users create without `submit`: PyTorchJobs, TrainJobs, JobSets, RayJobs and plain Jobs.

All functions are pure. `cli.jobs.state` converts a job's `Progress` into a `JobState`, as for submitted jobs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from infra.naming import JOB_LABEL, ROLE_LABEL

Object = Mapping[str, Any]
Pod = TypeVar("Pod", bound=Object)

KINDS: Final = ("TrainJob", "JobSet", "PyTorchJob", "RayJob", "Job")
"""Kinds of jobs. Each kind precedes the kinds that its operator creates for it."""

JOB_SET_LABEL: Final = "jobset.sigs.k8s.io/jobset-name"
TRAINING_LABEL: Final = "training.kubeflow.org/job-name"
BATCH_LABEL: Final = "batch.kubernetes.io/job-name"
RAY_LABEL: Final = "ray.io/originated-from-cr-name"
POD_LABELS: Final = {
    "TrainJob": JOB_SET_LABEL,
    "JobSet": JOB_SET_LABEL,
    "PyTorchJob": TRAINING_LABEL,
    "MPIJob": TRAINING_LABEL,
    "RayJob": RAY_LABEL,
    "Job": BATCH_LABEL,
}
"""Kind of job -> pod label that contains the job's name. A TrainJob's JobSet has the same name as the TrainJob."""
LABELS: Final = (JOB_LABEL, TRAINING_LABEL, JOB_SET_LABEL, RAY_LABEL, BATCH_LABEL)
"""Pod labels that contain the job's name, in order of preference: pods of a JobSet also have the label of the Job that
created them.
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


def is_foreign(found: Object) -> bool:
    """Return whether the object is an independent job: neither created by `submit` nor part of another job."""
    metadata = found["metadata"]
    owned = any(one.get("controller") for one in metadata.get("ownerReferences") or ())
    return not owned and JOB_LABEL not in (metadata.get("labels") or {})


def job_of(pod: Object) -> str:
    """Return the name of a pod's job; empty if it belongs to none."""
    labels = pod["metadata"].get("labels") or {}
    return str(next((labels[label] for label in LABELS if label in labels), ""))


def role_of(pod: Object) -> str:
    """Return `launcher` or `worker` for a pod of a job; empty for other pods."""
    labels = pod["metadata"].get("labels") or {}
    if ROLE_LABEL in labels:
        return str(labels[ROLE_LABEL])
    if "training.kubeflow.org/replica-type" in labels or "training.kubeflow.org/job-role" in labels:
        replica = labels.get("training.kubeflow.org/job-role") or labels["training.kubeflow.org/replica-type"]
        return "launcher" if replica == "launcher" else "worker"
    return "worker" if {JOB_SET_LABEL, RAY_LABEL, BATCH_LABEL} & labels.keys() else ""


def first_rank(pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods whose logs make up the log of a job: each attempt's launcher or, without one, rank 0."""
    ranks = [(_rank(pod), pod) for pod in pods]
    first = min((rank for rank, _ in ranks), default=None)
    return [pod for rank, pod in ranks if rank == first]


def _rank(pod: Object) -> tuple[int, int, int]:
    metadata = pod["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    roles = (
        labels.get("training.kubeflow.org/replica-type"),
        labels.get("jobset.sigs.k8s.io/replicatedjob-name"),
        labels.get("ray.io/node-type"),
    )
    leads = {"master", "launcher", "head"} & set(roles)
    outer = labels.get("jobset.sigs.k8s.io/job-index") or labels.get("training.kubeflow.org/replica-index")
    return 0 if leads else 1, _number(outer), _number(annotations.get("batch.kubernetes.io/job-completion-index"))


def _number(text: str | None) -> int:
    """Return the number in a label or annotation, which users can write; 0 if it is not a number."""
    return int(text) if text and text.isdecimal() and len(text) < 10 else 0


def progress_of(found: Object) -> Progress:
    """Return the progress of a job whose kind is in KINDS, but is not Job."""
    spec, status = found["spec"], found.get("status") or {}
    match found["kind"]:
        case "PyTorchJob":
            return _pytorch(spec, status)
        case "RayJob":
            return _ray(spec, status)
        case "TrainJob":
            # If numNodes is missing, the runtime sets the number of nodes, which is unknown here.
            return _set(spec, status, (spec.get("trainer") or {}).get("numNodes") or 0, status.get("jobsStatus"), "Complete")
    workers = sum(
        one.get("replicas", 1) * (one["template"].get("spec") or {}).get("parallelism", 1) for one in spec["replicatedJobs"]
    )
    return _set(spec, status, workers, status.get("replicatedJobsStatus"), "Completed")


def _pytorch(spec: Object, status: Object) -> Progress:
    replicas = spec.get("pytorchReplicaSpecs") or {}
    return Progress(
        workers=sum(one.get("replicas", 1) for one in replicas.values()),
        suspended=bool((spec.get("runPolicy") or {}).get("suspend")),
        running=_condition(status, "Running") is not None,
        succeeded=_condition(status, "Succeeded"),
        failed=_condition(status, "Failed"),
        failures=sum(one.get("failed", 0) for one in (status.get("replicaStatuses") or {}).values()),
        ended=status.get("completionTime"),
    )


def _set(spec: Object, status: Object, workers: int, jobs: Sequence[Object] | None, complete: str) -> Progress:
    """Return the progress of a JobSet, or of a TrainJob, whose status is copied from its JobSet."""
    return Progress(
        workers=workers,
        suspended=bool(spec.get("suspend")),
        running=bool(jobs) and all(one.get("ready", 0) + one.get("succeeded", 0) > 0 for one in jobs or ()),
        succeeded=_condition(status, complete),
        failed=_condition(status, "Failed"),
        failures=status.get("restarts", 0) or sum(one.get("failed", 0) for one in jobs or ()),
    )


def _ray(spec: Object, status: Object) -> Progress:
    groups = (spec.get("rayClusterSpec") or {}).get("workerGroupSpecs") or ()
    deployment, job = status.get("jobDeploymentStatus"), status.get("jobStatus")
    end = {"message": status.get("message") or status.get("reason") or "", "lastTransitionTime": status.get("endTime")}
    return Progress(
        workers=1 + sum(one.get("replicas", 0) for one in groups),
        suspended=bool(spec.get("suspend")),
        running=deployment == "Running",
        succeeded=end if deployment == "Complete" and job == "SUCCEEDED" else None,
        failed=end if deployment == "Failed" or job in ("FAILED", "STOPPED") else None,
        failures=status.get("failed", 0),
        ended=status.get("endTime"),
    )


def _condition(status: Object, kind: str) -> Object | None:
    """Return the condition of this type if its status is `True`, or else None."""
    found: Sequence[Object] = status.get("conditions") or ()
    return next((one for one in found if one["type"] == kind and one["status"] == "True"), None)
