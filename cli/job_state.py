"""Derive a job's phase, and the reason why it waits, from its Kubernetes objects. All functions are pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from infra.jobs.in_pods import UNUSABLE_IMAGE
from infra.naming import JOB_LABEL, LAUNCHER_LABEL, POOL_LABEL, ROLE_LABEL

Phase = Literal["Queued", "Starting", "Running", "Succeeded", "Failed", "Ending"]
ENDED: tuple[Phase, ...] = ("Succeeded", "Failed")

Object = Mapping[str, Any]


@dataclass(frozen=True)
class JobState:
    """State of a job; one row of `jobs`."""

    name: str
    namespace: str
    kind: str
    """MPIJob or Job."""
    object_name: str
    """Name of the Kubernetes object. If it is the launcher's Job, its name differs from the name of the job."""
    launcher: str
    pool: str
    workers: int
    phase: Phase
    reason: str
    """Reason for the failure, as reported by Kubernetes."""
    failures: int
    """Number of failed attempts."""
    created: datetime
    ended: datetime | None

    @property
    def is_over(self) -> bool:
        return self.phase in ENDED

    def seconds(self, now: datetime) -> int:
        """Return the number of seconds from the job's creation to its end, or until now if it has not ended."""
        return max(0, int(((self.ended or now) - self.created).total_seconds()))

    def as_json(self, now: datetime) -> dict[str, object]:
        return {
            "name": self.name,
            "namespace": self.namespace,
            "launcher": self.launcher,
            "pool": self.pool,
            "workers": self.workers,
            "phase": self.phase,
            "reason": self.reason,
            "failures": self.failures,
            "created": self.created.isoformat(),
            "ended": self.ended.isoformat() if self.ended else None,
            "seconds": self.seconds(now),
        }


def state_of(found: Object) -> JobState:
    """Return the state of a job from its MPIJob or main Job."""
    return _of_mpi_job(found) if found["kind"] == "MPIJob" else _of_job(found)


def _of_mpi_job(found: Object) -> JobState:
    metadata, spec, status = found["metadata"], found["spec"], found.get("status", {})
    worker = spec["mpiReplicaSpecs"].get("Worker", {})
    conditions = _conditions(status)
    phase: Phase = "Starting"
    if "deletionTimestamp" in metadata:
        phase = "Ending"
    elif _is(conditions, "Succeeded"):
        phase = "Succeeded"
    elif _is(conditions, "Failed"):
        phase = "Failed"
    elif spec.get("runPolicy", {}).get("suspend"):
        phase = "Queued"
    elif _is(conditions, "Running"):
        phase = "Running"
    launcher = status.get("replicaStatuses", {}).get("Launcher", {})
    return JobState(
        name=metadata["name"],
        namespace=metadata["namespace"],
        kind="MPIJob",
        object_name=metadata["name"],
        launcher="mpijob",
        pool=_pool(worker.get("template", {})),
        workers=worker.get("replicas", 0),
        phase=phase,
        reason=_reason(conditions, "Failed") if phase == "Failed" else "",
        failures=launcher.get("failed", 0),
        created=_time(metadata["creationTimestamp"]),
        ended=_time(status["completionTime"]) if "completionTime" in status and phase in ENDED else None,
    )


def _of_job(found: Object) -> JobState:
    metadata, spec, status = found["metadata"], found["spec"], found.get("status", {})
    labels = metadata.get("labels", {})
    conditions = _conditions(status)
    phase: Phase = "Starting"
    if "deletionTimestamp" in metadata:
        phase = "Ending"
    elif _is(conditions, "Complete"):
        phase = "Succeeded"
    elif _is(conditions, "Failed"):
        phase = "Failed"
    elif spec.get("suspend"):
        phase = "Queued"
    elif status.get("ready", 0) >= spec.get("parallelism", 1):
        phase = "Running"
    launcher = labels.get(LAUNCHER_LABEL, "")
    indexed = spec.get("completionMode") == "Indexed"
    failed = next((one for one in conditions if one["type"] == "Failed"), None)
    end = status.get("completionTime") or (failed or {}).get("lastTransitionTime")
    return JobState(
        name=labels.get(JOB_LABEL, metadata["name"]),
        namespace=metadata["namespace"],
        kind="Job",
        object_name=metadata["name"],
        launcher=launcher,
        pool=_pool(spec["template"]) if indexed else "",
        workers=spec.get("completions", 1) if indexed else 0,
        phase=phase,
        reason=_reason(conditions, "Failed") if phase == "Failed" else "",
        failures=status.get("failed", 0),
        created=_time(metadata["creationTimestamp"]),
        ended=_time(end) if end and phase in ENDED else None,
    )


def _conditions(status: Object) -> list[Object]:
    return list(status.get("conditions") or ())


def _is(conditions: Sequence[Object], kind: str) -> bool:
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


def _reason(conditions: Sequence[Object], kind: str) -> str:
    found = next((one for one in conditions if one["type"] == kind), {})
    return str(found.get("message") or found.get("reason") or "").rstrip(": ")


def _pool(template: Object) -> str:
    return str(template.get("spec", {}).get("nodeSelector", {}).get(POOL_LABEL, ""))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)


# --- what a job waits for ----------------------------------------------------------------------------------------------


def waits_for(state: JobState, pods: Sequence[Object], workload: Object | None) -> str:
    """Return one line that explains why the ranks are not running yet; empty if the reason is unknown."""
    if state.phase == "Queued":
        held = [
            one
            for one in _conditions((workload or {}).get("status", {}))
            if one["type"] == "QuotaReserved" and one["status"] == "False"
        ]
        return f"waits in the queue{': ' + held[-1]['message'] if held and held[-1].get('message') else ''}"
    workers = [pod for pod in pods if role(pod) == "worker"]
    ready = sum(_is(_conditions(pod["status"]), "Ready") for pod in workers)
    trouble = next((text for pod in pods if (text := _trouble(pod))), "")
    if state.workers and ready < state.workers:
        return f"{ready} of {state.workers} workers ready{': ' + trouble if trouble else ''}"
    return trouble


def role(pod: Object) -> str:
    labels = pod["metadata"].get("labels", {})
    return str(labels.get(ROLE_LABEL) or labels.get("training.kubeflow.org/job-role", ""))


def unusable_image(pods: Sequence[Object]) -> str:
    """Return why the job can never run with its image, according to one of its pods; empty if no pod reports it."""
    return next((text for pod in pods for container in containers(pod) if (text := _unusable(pod, container))), "")


def _unusable(pod: Object, container: Object) -> str:
    for when in ("state", "lastState"):
        ended = container.get(when, {}).get("terminated", {})
        if ended.get("exitCode") == UNUSABLE_IMAGE:
            return f"{pod['metadata']['name']}: {' '.join(str(ended.get('message', '')).split())}"
    return ""


def containers(pod: Object) -> list[Object]:
    """Return the states of a pod's containers, in start order."""
    return [*pod["status"].get("initContainerStatuses", ()), *pod["status"].get("containerStatuses", ())]


def _trouble(pod: Object) -> str:
    """Return the reason why a pod is not running; empty if it is running or the reason is unknown."""
    name, status = pod["metadata"]["name"], pod["status"]
    for container in containers(pod):
        if unusable := _unusable(pod, container):
            return unusable
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            message = " ".join(str(waiting.get("message", "")).split())
            return f"{name}: {waiting['reason']}{': ' + message if message else ''}"
    for condition in _conditions(status):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{name} has no node: {condition.get('message', condition.get('reason', ''))}"
    return ""
