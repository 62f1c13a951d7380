"""Concern: the phases of a job, with the times that Kubernetes recorded."""

from . import moments
from .attempts import current
from .job import ManagedJob, conditions, is_ready
from .record import FAILED, QUEUED, RESTARTING, RUNNING, SETUP, STARTING, SUCCEEDED, Record, enter


def observe(record: Record, job: ManagedJob, now: str) -> None:
    if job.verdict is not None:
        _end(record, job, now)
        return
    _admit(record, job)
    phase, when = _phase(record, job)
    enter(record, phase, when or now)


def _phase(record: Record, job: ManagedJob) -> tuple[str, str]:
    """Return the phase, and when it began; the time is empty if Kubernetes does not record it."""
    if job.setup is not None and not conditions(job.setup).keys() & {"Complete", "Failed"}:
        return SETUP, str((job.setup.get("status") or {}).get("startTime") or "")
    if job.is_suspended:
        return QUEUED, ""
    if record["attempts"] and record["attempts"][-1]["outcome"] == SUCCEEDED:  # Kubernetes has not completed the job yet
        return RUNNING, record["attempts"][-1]["running"]
    attempt = current(record)
    if attempt is not None and attempt["running"] and _workers_ready(job):
        return RUNNING, attempt["running"]
    if len(record["attempts"]) > 1 or (record["attempts"] and attempt is None):
        return RESTARTING, record["attempts"][-1]["to"] or record["attempts"][-2]["to"]
    return STARTING, str((job.main.get("status") or {}).get("startTime") or "")


def _workers_ready(job: ManagedJob) -> bool:
    return job.launcher == "torchrun" or sum(map(is_ready, job.worker_pods)) >= job.size


def _admit(record: Record, job: ManagedJob) -> None:
    """Record when the job first got its nodes."""
    if record.get("admitted") or job.is_suspended:
        return
    scheduled = [found for pod in job.worker_pods if (found := conditions(pod).get("PodScheduled"))]
    times = [one["lastTransitionTime"] for one in scheduled]
    if job.size and len(times) >= job.size:
        record["admitted"] = moments.latest(*times)


def _end(record: Record, job: ManagedJob, now: str) -> None:
    assert job.verdict is not None
    kind, condition = job.verdict
    status = job.main.get("status") or {}
    when = str(status.get("completionTime") or condition.get("lastTransitionTime") or now)
    last = record["attempts"][-1] if record["attempts"] else {}
    if kind == SUCCEEDED:
        record["exitCode"] = 0
    else:
        found = last.get("exits") or [{}]
        record["exitCode"] = found[0].get("code")
        verdict = record.get("verdict") or {}
        record["reason"] = verdict.get("message") or str(condition.get("message") or condition.get("reason", "")).rstrip(": ")
    if record["phase"] in (QUEUED, STARTING) and last.get("running"):  # the controller was not running while the job ran
        enter(record, RUNNING, last["running"])
    enter(record, SUCCEEDED if kind == SUCCEEDED else FAILED, when)
