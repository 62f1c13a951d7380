"""Derive a job's phase, and the reason why it waits, from its Kubernetes objects. All functions are pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from cli.jobs import foreign_jobs
from cli.jobs.times import moment
from infra.jobs.in_pods import UNUSABLE_IMAGE
from infra.naming import JOB_LABEL, LAUNCHER_LABEL, POOL_LABEL, launcher_of

Phase = Literal["Queued", "Starting", "Running", "Succeeded", "Failed", "Ending", "Canceled"]
ENDED: tuple[Phase, ...] = ("Succeeded", "Failed", "Canceled")

Object = Mapping[str, Any]
PASSING = ("Unhealthy", "BackOff", "FailedScheduling", "NodeNotReady")
"""Reasons of warning events to ignore: they are normal while a pod starts, or repeat a condition of the pod."""
STUCK = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError")
"""Reasons that the kubelet reports for containers that cannot start because of their image or a missing object.
They are defined in
https://github.com/kubernetes/kubernetes/blob/v1.35.0/pkg/kubelet/images/types.go and
kuberuntime/kuberuntime_container.go
"""
REFUSED_PODS = ("FailedCreate", "MPIJobFailed")
"""Reasons of events about rejected pods, including the events of MPI operator 0.8.2 (mpi_job_controller.go)."""


@dataclass(frozen=True)
class JobState:
    """State of a job; one row of `jobs`."""

    name: str
    namespace: str
    kind: str
    """MPIJob, Job, or one of `foreign_jobs.KINDS`."""
    object_name: str
    """Name of the Kubernetes object. It differs from `name` if the object is the Job of the job's launcher."""
    launcher: str
    pool: str
    workers: int
    phase: Phase
    reason: str
    """Reason for the failure, as reported by Kubernetes or the queue."""
    failures: int
    """Number of failed attempts."""
    created: datetime
    ended: datetime | None

    @property
    def is_over(self) -> bool:
        return self.phase in ENDED

    @property
    def has_launcher(self) -> bool:
        """True if a launcher pod starts the ranks. Otherwise, rank 0's log is the log of the job."""
        return self.kind == "MPIJob" or (self.kind == "Job" and self.launcher not in ("torchrun", "job"))

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
    """Derive a job's state from its main Kubernetes object."""
    match found["kind"]:
        case "MPIJob":
            return _of_mpi_job(found)
        case "Job":
            return _of_job(found)
    return _of_foreign_job(found)


def _of_foreign_job(found: Object) -> JobState:
    metadata, progress = found["metadata"], foreign_jobs.progress_of(found)
    phase: Phase = "Running" if progress.running else "Starting"
    if "deletionTimestamp" in metadata:
        phase = "Ending"
    elif progress.succeeded:
        phase = "Succeeded"
    elif progress.failed:
        phase = "Failed"
    elif progress.suspended:
        phase = "Queued"
    end = progress.ended or (progress.succeeded or progress.failed or {}).get("lastTransitionTime")
    reason = (progress.failed or {}) if phase == "Failed" else {}
    return JobState(
        name=metadata["name"],
        namespace=metadata["namespace"],
        kind=found["kind"],
        object_name=metadata["name"],
        launcher=found["kind"].lower(),
        pool="",
        workers=progress.workers,
        phase=phase,
        reason=str(reason.get("message") or reason.get("reason") or ""),
        failures=progress.failures,
        created=moment(metadata["creationTimestamp"]),
        ended=moment(end) if end and phase in ENDED else None,
    )


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
        created=moment(metadata["creationTimestamp"]),
        ended=moment(status["completionTime"]) if "completionTime" in status and phase in ENDED else None,
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
    launcher = launcher_of(labels.get(LAUNCHER_LABEL, "job"))
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
        created=moment(metadata["creationTimestamp"]),
        ended=moment(end) if end and phase in ENDED else None,
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


# --- why a job waits ---------------------------------------------------------------------------------------------------


def waits_for(state: JobState, pods: Sequence[Object], workload: Object | None, events: Sequence[Object] = ()) -> str:
    """Return one line that explains why the ranks are not running yet; empty if the reason is unknown.

    `events` are warning events. Pass them if `lacks_reason` returns True.
    """
    if state.phase == "Queued" and (setup := [pod for pod in pods if role(pod) == "setup"]):
        return f"setup: {_trouble(setup[-1]) or setup[-1]['status'].get('phase', 'Pending').lower()}"
    if state.phase == "Queued":
        held = [
            one
            for one in _conditions((workload or {}).get("status", {}))
            if one["type"] == "QuotaReserved" and one["status"] == "False"
        ]
        return f"waits in the queue{': ' + held[-1]['message'] if held and held[-1].get('message') else ''}"
    workers = [pod for pod in pods if role(pod) == "worker"]
    ready = sum(_is(_conditions(pod["status"]), "Ready") for pod in workers)
    trouble = next((text for pod in pods if (text := _trouble(pod))), "") or warning(state, pods, events)
    if state.workers and ready < state.workers:
        return f"{ready} of {state.workers} workers ready{': ' + trouble if trouble else ''}"
    return trouble


def lacks_reason(state: JobState, pods: Sequence[Object]) -> bool:
    """Return whether workers are missing or not ready and only events can explain why, for example rejected pods."""
    ready = sum(role(pod) == "worker" and _is(_conditions(pod["status"]), "Ready") for pod in pods)
    return state.phase == "Starting" and ready < state.workers and not any(map(_trouble, pods))


def warning(state: JobState, pods: Sequence[Object], events: Sequence[Object]) -> str:
    """Return the text of the latest warning event about a job or its pods that are not ready; empty if there is none.

    If the API server rejects a pod because of Pod Security, a quota or a webhook, the pod's controller reports the
    reason in a warning event.
    """
    well = {pod["metadata"]["name"] for pod in pods if _is(_conditions(pod["status"]), "Ready")}
    names = {state.name, state.object_name, f"{state.name}-launcher", f"{state.name}-worker"}
    names |= {pod["metadata"]["name"] for pod in pods} - well
    found = [
        event
        for event in events
        if (event["involvedObject"].get("name") in names or _is_part(event["involvedObject"], state))
        and event.get("type") == "Warning"
        and event.get("reason") not in PASSING
        and _event_time(event) >= state.created
    ]
    if not found:
        return ""
    last = max(found, key=_event_time)
    about, message = last["involvedObject"], " ".join(str(last.get("message", "")).split())
    return f"{about.get('kind', '')} {about['name']}: {last.get('reason', '')}: {message}"


def _is_part(involved: Object, state: JobState) -> bool:
    """Return whether an event's object is a Job or JobSet that was created for this JobSet or TrainJob.

    If the API server rejects pods, the warning event is about such an object.
    """
    of_set = state.kind in ("JobSet", "TrainJob") and involved.get("kind") in ("Job", "JobSet")
    return of_set and str(involved.get("name", "")).startswith(f"{state.name}-")


def _event_time(event: Object) -> datetime:
    when = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    return moment(when)


def stuck(state: JobState, pods: Sequence[Object], events: Sequence[Object]) -> str:
    """Return why a job cannot start even when nodes become available; empty if it may still start."""
    if state.phase != "Starting":
        return ""
    for pod in pods:
        for container in containers(pod):
            if container.get("state", {}).get("waiting", {}).get("reason") in STUCK:
                return _trouble(pod)
    roles = [role(pod) for pod in pods]
    complete = roles.count("worker") >= state.workers and ("launcher" in roles or not state.has_launcher)
    return "" if complete else warning(state, pods, [one for one in events if one.get("reason") in REFUSED_PODS])


def stopped(state: JobState, workload: Object, events: Sequence[Object]) -> str:
    """Return why Kueue has deactivated the job's Workload, so that the job never runs; empty if it is active.

    https://kueue.sigs.k8s.io/docs/concepts/workload/#active
    """
    if workload.get("spec", {}).get("active", True):
        return ""
    evicted = _reason(_conditions(workload.get("status", {})), "Evicted") or "its workload is not active"
    prefixes = tuple(f"{state.name}-{role}-" for role in ("worker", "launcher"))
    about = {event["involvedObject"].get("name", "") for event in events}
    gone = [{"metadata": {"name": name}, "status": {}} for name in sorted(about) if name.startswith(prefixes)]
    why = warning(state, gone, events)
    return f"the queue stopped it: {evicted}{f' ({why})' if why else ''}"


def role(pod: Object) -> str:
    return foreign_jobs.role_of(pod)


def unusable_image(pods: Sequence[Object]) -> str:
    """Return why the job's image cannot be used, as reported by one of its pods; empty if no pod reports a reason."""
    return next((text for pod in pods for container in containers(pod) if (text := _unusable(pod, container))), "")


def _unusable(pod: Object, container: Object) -> str:
    for when in ("state", "lastState"):
        ended = container.get(when, {}).get("terminated", {})
        if ended.get("exitCode") == UNUSABLE_IMAGE:
            return f"{pod['metadata']['name']}: {' '.join(str(ended.get('message', '')).split())}"
    return ""


def containers(pod: Object) -> list[Object]:
    """Return the statuses of a pod's containers, init containers first."""
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
