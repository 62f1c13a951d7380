"""Derive a job's phase, and the reason why it waits, from its Kubernetes objects. All functions are pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cli.console import to_json
from cli.jobs import foreign_jobs
from cli.jobs.foreign_jobs import get_pod_role, has_true_condition
from cli.jobs.records import JobRecord, Key
from infra.jobs.in_pods import UNUSABLE_IMAGE
from infra.jobs.render import LAUNCHERS
from infra.platform.job_controller.in_pod.job import ManagedJob
from infra.platform.job_controller.in_pod.moments import parse_time
from infra.platform.job_controller.in_pod.phases import Phase, Signs, determine_phase

Object = Mapping[str, Any]
_NOT_RUNNING = (Phase.STARTING, Phase.RESTARTING)
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
    """State of a job; one row in the output of `jobs`."""

    name: str
    namespace: str
    kind: str
    """MPIJob, Job, or one of `foreign_jobs.KINDS`."""
    object_name: str
    """Name of the Kubernetes object. It differs from `name` if the object is the Job that runs the launcher."""
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
    pods: Sequence[dict[str, Any]] = field(default=(), compare=False, repr=False)
    """The job's pods; possibly empty if the job has ended."""
    record: JobRecord | None = field(default=None, compare=False, repr=False)
    """The job's record, if it has one and the job has not ended."""

    @property
    def is_over(self) -> bool:
        return self.phase.is_final

    @property
    def key(self) -> Key:
        return self.namespace, self.name, self.created

    @property
    def is_waiting(self) -> bool:
        """Whether the ranks do not run yet, or do not run again yet."""
        return self.phase in (Phase.QUEUED, Phase.SETUP, Phase.STARTING, Phase.RESTARTING)

    @property
    def has_launcher(self) -> bool:
        """True if a launcher pod starts the ranks. Otherwise, rank 0's log is the log of the job."""
        return self.launcher in LAUNCHERS and "launcher" in LAUNCHERS[self.launcher].roles

    def seconds(self, now: datetime) -> int:
        """Return the number of seconds from the job's creation to its end, or until now if it has not ended."""
        return max(0, int(((self.ended or now) - self.created).total_seconds()))

    def as_json(self, now: datetime) -> dict[str, object]:
        columns = ("name", "namespace", "launcher", "pool", "workers", "phase", "reason", "failures", "created", "ended")
        return {**{column: to_json(getattr(self, column)) for column in columns}, "seconds": self.seconds(now)}


def derive_state(job: ManagedJob, record: JobRecord | None = None) -> JobState:
    """Derive a submitted job's state, or that of any MPIJob, from its objects and its record."""
    signs = job.collect_phase_signs(record.content["attempts"] if record else ())
    end = (job.main.get("status") or {}).get("completionTime")
    about = {"name": job.name, "launcher": job.launcher, "pool": job.pool, "workers": job.size, "failures": job.failures}
    return _build_state(job.main, signs, job.verdict[1] if job.verdict else {}, end, pods=job.pods, record=record, **about)


def derive_foreign_state(main: Object, pods: Sequence[dict[str, Any]] = ()) -> JobState:
    """Derive the state of a job that `submit` did not create, from its main object."""
    progress = foreign_jobs.read_progress(main)
    signs = Signs(
        verdict=Phase.SUCCEEDED if progress.succeeded else Phase.FAILED if progress.failed else None,
        is_deleted="deletionTimestamp" in main["metadata"],
        is_suspended=progress.suspended,
        is_running=progress.running,
        was_interrupted=progress.failures > 0,
    )
    about = {"name": main["metadata"]["name"], "launcher": main["kind"].lower(), "pool": progress.pool, "pods": pods}
    about |= {"workers": progress.workers, "failures": progress.failures}
    return _build_state(main, signs, progress.succeeded or progress.failed or {}, progress.ended, **about)


def _build_state(main: Object, signs: Signs, condition: Object, end: str | None, **about: Any) -> JobState:
    metadata, phase = main["metadata"], determine_phase(signs)
    ended = (end or condition.get("lastTransitionTime")) if phase.is_final else None
    return JobState(
        namespace=metadata["namespace"],
        kind=main["kind"],
        object_name=metadata["name"],
        phase=phase,
        reason=_get_condition_text(condition) if phase == Phase.FAILED else "",
        created=parse_time(metadata["creationTimestamp"]),
        ended=parse_time(ended) if ended else None,
        **about,
    )


def read_recorded_state(record: JobRecord) -> JobState:
    """Return the state of a job that no longer exists."""
    content = record.content
    return JobState(
        name=content["name"],
        namespace=content["namespace"],
        kind="",
        object_name=content["name"],
        launcher=content.get("launcher", ""),
        pool=content.get("pool", ""),
        workers=content.get("size", 0),
        phase=Phase(content["phase"]),
        reason=content["reason"],
        failures=content["failures"],
        created=parse_time(content["created"]),
        ended=parse_time(content["ended"]) if content["ended"] else None,
        record=record,
    )


def _list_conditions(status: Object) -> list[Object]:
    return list(status.get("conditions") or ())


def _get_condition_text(condition: Object) -> str:
    return str(condition.get("message") or condition.get("reason") or "").rstrip(": ")


# --- why a job waits ---------------------------------------------------------------------------------------------------


def explain_waiting_job(state: JobState, pods: Sequence[Object], workload: Object | None, events: Sequence[Object] = ()) -> str:
    """Return one line that explains why the ranks are not running yet; empty if the reason is unknown.

    `events` are warning events. Pass the events if `needs_events` returns True.
    """
    if state.phase == Phase.SETUP:
        setup = [pod for pod in pods if get_pod_role(pod) == "setup"]
        return (
            f"setup: {_explain_pod_problem(setup[-1]) or setup[-1]['status'].get('phase', 'Pending').lower()}"
            if setup
            else "setup: pending"
        )
    if state.phase == Phase.QUEUED:
        conditions = {
            (condition["type"], condition["status"]): condition
            for condition in _list_conditions((workload or {}).get("status", {}))
        }
        message = conditions.get(("QuotaReserved", "False"), {}).get("message")
        return f"waits in the queue{f': {message}' if message else ''}"
    workers = [pod for pod in pods if get_pod_role(pod) == "worker"]
    ready = sum(pod["status"].get("phase") == "Succeeded" or has_true_condition(pod, "Ready") for pod in workers)
    trouble = next((text for pod in pods if (text := _explain_pod_problem(pod))), "") or find_warning(state, pods, events)
    if state.workers and ready < state.workers:
        return f"{ready} of {state.workers} workers ready{': ' + trouble if trouble else ''}"
    return trouble


def needs_events(state: JobState, pods: Sequence[Object]) -> bool:
    """Return whether workers are missing or not ready and only events can explain why, for example because pods were rejected."""
    ready = sum(get_pod_role(pod) == "worker" and has_true_condition(pod, "Ready") for pod in pods)
    return state.phase in _NOT_RUNNING and ready < state.workers and not any(map(_explain_pod_problem, pods))


def find_warning(state: JobState, pods: Sequence[Object], events: Sequence[Object]) -> str:
    """Return the text of the latest warning event about a job or its pods that are not ready; empty if there is none.

    If the API server rejects a pod because of Pod Security, a quota or a webhook, the pod's controller reports the
    reason in a warning event.
    """
    well = {pod["metadata"]["name"] for pod in pods if has_true_condition(pod, "Ready")}
    names = {state.name, state.object_name, f"{state.name}-launcher", f"{state.name}-worker"}
    names |= {pod["metadata"]["name"] for pod in pods} - well
    own = [
        event
        for event in events
        if (event["involvedObject"].get("name") in names or _is_child_of_job(event["involvedObject"], state))
        and event.get("type") == "Warning"
        and event.get("reason") not in PASSING
        and _get_event_time(event) >= state.created
    ]
    if not own:
        return ""
    last = max(own, key=_get_event_time)
    about, message = last["involvedObject"], " ".join(str(last.get("message", "")).split())
    return f"{about.get('kind', '')} {about['name']}: {last.get('reason', '')}: {message}"


def _is_child_of_job(involved: Object, state: JobState) -> bool:
    """Return whether an event's object is a Job or JobSet that was created for this JobSet or TrainJob.

    If the API server rejects pods, the warning event is about such an object.
    """
    of_set = state.kind in ("JobSet", "TrainJob") and involved.get("kind") in ("Job", "JobSet")
    return of_set and str(involved.get("name", "")).startswith(f"{state.name}-")


def _get_event_time(event: Object) -> datetime:
    when = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    return parse_time(when)


def explain_stuck_job(state: JobState, pods: Sequence[Object], events: Sequence[Object]) -> str:
    """Return why a job cannot start even when nodes become available; empty if it may still start."""
    if state.phase not in _NOT_RUNNING:
        return ""
    for pod in pods:
        for container in list_container_statuses(pod):
            if container.get("state", {}).get("waiting", {}).get("reason") in STUCK:
                return _explain_pod_problem(pod)
    roles = [get_pod_role(pod) for pod in pods]
    complete = roles.count("worker") >= state.workers and ("launcher" in roles or not state.has_launcher)
    return "" if complete else find_warning(state, pods, [event for event in events if event.get("reason") in REFUSED_PODS])


def explain_kueue_stop(state: JobState, workload: Object, events: Sequence[Object]) -> str:
    """Return why Kueue has deactivated the job's Workload, so that the job never runs; empty if it is active.

    https://kueue.sigs.k8s.io/docs/concepts/workload/#active
    """
    if workload.get("spec", {}).get("active", True):
        return ""
    conditions = {condition["type"]: condition for condition in _list_conditions(workload.get("status", {}))}
    evicted = _get_condition_text(conditions.get("Evicted", {})) or "its workload is not active"
    prefixes = tuple(f"{state.name}-{role}-" for role in ("worker", "launcher"))
    about = {event["involvedObject"].get("name", "") for event in events}
    gone = [{"metadata": {"name": name}, "status": {}} for name in sorted(about) if name.startswith(prefixes)]
    why = find_warning(state, gone, events)
    return f"the queue stopped it: {evicted}{f' ({why})' if why else ''}"


def explain_unusable_image(pods: Sequence[Object]) -> str:
    """Return why the job's image cannot be used, as reported by one of its pods; empty if no pod reports a reason."""
    return next(
        (
            text
            for pod in pods
            for container in list_container_statuses(pod)
            if (text := _explain_unusable_container(pod, container))
        ),
        "",
    )


def _explain_unusable_container(pod: Object, container: Object) -> str:
    for when in ("state", "lastState"):
        ended = container.get(when, {}).get("terminated", {})
        if ended.get("exitCode") == UNUSABLE_IMAGE:
            return f"{pod['metadata']['name']}: {' '.join(str(ended.get('message', '')).split())}"
    return ""


def list_container_statuses(pod: Object) -> list[Object]:
    """Return the statuses of a pod's containers, init containers first."""
    return [*pod["status"].get("initContainerStatuses", ()), *pod["status"].get("containerStatuses", ())]


def _explain_pod_problem(pod: Object) -> str:
    """Return the reason why a pod is not running; empty if it is running or the reason is unknown."""
    name, status = pod["metadata"]["name"], pod["status"]
    for container in list_container_statuses(pod):
        if unusable := _explain_unusable_container(pod, container):
            return unusable
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            message = " ".join(str(waiting.get("message", "")).split())
            return f"{name}: {waiting['reason']}{': ' + message if message else ''}"
    for condition in _list_conditions(status):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{name} has no node: {condition.get('message', condition.get('reason', ''))}"
    return ""
