"""Decides what happens to one job: updates its record, then calls the concerns. Pure functions: no clock, no requests."""

import copy
from collections.abc import Mapping

from . import attempts, moments, progress, record, restarts, setup, stacks, usage
from .actions import Action
from .job import ManagedJob, read_conditions
from .phases import Phase, phase_of
from .progress import Seen
from .record import MOST_WORKERS, Record
from .stacks import Dump


def observe(stored: Record | None, job: ManagedJob, now: str, log: Seen | None = None, dump: Dump | None = None) -> Record:
    """Return the record of a job that exists. `log` is the state of its log, and `dump` shows what its ranks were
    doing."""
    after = copy.deepcopy(stored) or record.new(job.uid, job.name, job.namespace, job.main["metadata"]["creationTimestamp"])
    about = {"launcher": job.launcher, "size": min(job.size, MOST_WORKERS), "pool": job.pool}
    after |= {key: value for key, value in about.items() if value or key not in after}
    usage.observe(after, job, now)
    if not record.is_over(after):
        setup.observe(after, job, now)
        attempts.observe(after, job, now)
        progress.observe(after, job, log, now)
        stacks.observe(after, dump, now)
        _observe_phase(after, job, now)
    return after


def decide(stored: Record, job: ManagedJob, leases: Mapping[str, str], now: str) -> list[Action]:
    """Return the actions for a job. May write a verdict into the record, which must be stored before the actions
    run."""
    if record.is_over(stored):
        return []
    return [*setup.decide(stored, job, now), *restarts.decide(stored, job, leases, now)]


def close(stored: Record, now: str) -> Record:
    """Return the record of a job that `cancel` or a removal from the stack file deleted before it ended."""
    after = copy.deepcopy(stored)
    usage.close(after, now)
    if not record.is_over(after):
        attempts.close_running(after, now, "the job was deleted")
        after["reason"] = "the job was deleted before its end was recorded"
        record.enter(after, Phase.CANCELED, now)
    return after


# --- phases, with the times that Kubernetes recorded -----------------------------------------------------------------------


def _observe_phase(after: Record, job: ManagedJob, now: str) -> None:
    phase = phase_of(job.signs(after["attempts"]))
    if phase.is_final:
        _end(after, job, phase, now)
        return
    _admit(after, job)
    record.enter(after, phase, _began(phase, after, job) or now)


def _began(phase: Phase, after: Record, job: ManagedJob) -> str:
    """Return when a phase began; empty if Kubernetes does not record it."""
    latest = after["attempts"][-2:]
    if phase is Phase.RUNNING:
        return str(latest[-1]["running"] or "") if latest else ""
    if phase is Phase.RESTARTING:
        return max((attempt["to"] or "" for attempt in latest), default="")
    started = {Phase.SETUP: job.setup, Phase.STARTING: job.main}.get(phase) or {}
    return str((started.get("status") or {}).get("startTime") or "")


def _admit(after: Record, job: ManagedJob) -> None:
    """Record when the job first got its nodes."""
    if after.get("admitted") or job.is_suspended:
        return
    placements = [read_conditions(pod).get("PodScheduled") for pod in job.worker_pods]
    times = [placement["lastTransitionTime"] for placement in placements if placement]
    if job.size and len(times) >= job.size:
        after["admitted"] = moments.find_latest(*times)


def _end(after: Record, job: ManagedJob, phase: Phase, now: str) -> None:
    condition = job.verdict[1] if job.verdict else job.stop or {}
    status = job.main.get("status") or {}
    when = str(status.get("completionTime") or condition.get("lastTransitionTime") or now)
    last = after["attempts"][-1] if after["attempts"] else {}
    if phase is Phase.SUCCEEDED:
        after["exitCode"] = 0
    else:
        after["exitCode"] = (last.get("exits") or [{}])[0].get("code")
        verdict = after.get("verdict") or {}
        after["reason"] = verdict.get("message") or str(condition.get("message") or condition.get("reason", "")).rstrip(": ")
    if after["phase"] in (Phase.QUEUED, Phase.STARTING) and last.get("running"):  # the controller was down while the job ran
        record.enter(after, Phase.RUNNING, last["running"])
    record.enter(after, phase, when)
