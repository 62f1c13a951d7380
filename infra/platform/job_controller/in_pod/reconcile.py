"""Decides what happens to one job: updates its record, then calls the concerns. Pure functions: no clock, no requests."""

import copy
from collections.abc import Mapping

from . import attempts, moments, progress, record, restarts, setup, stacks, usage
from .actions import Action
from .job import ManagedJob, read_conditions
from .phases import Phase, determine_phase
from .progress import Seen
from .record import MOST_WORKERS, Record
from .stacks import Dump


def update_record(stored: Record | None, job: ManagedJob, now: str, log: Seen | None = None, dump: Dump | None = None) -> Record:
    """Return the record of a job that exists. `log` is the state of its log, and `dump` shows what its ranks were
    doing."""
    after = copy.deepcopy(stored) or record.create_record(
        job.uid, job.name, job.namespace, job.main["metadata"]["creationTimestamp"]
    )
    about = {"launcher": job.launcher, "size": min(job.size, MOST_WORKERS), "pool": job.pool}
    after |= {key: value for key, value in about.items() if value or key not in after}
    usage.update_usage(after, job, now)
    if not record.is_finished(after):
        setup.record_setup(after, job, now)
        attempts.update_attempts(after, job, now)
        progress.update_progress(after, job, log, now)
        stacks.record_stacks(after, dump, now)
        _update_phase(after, job, now)
    return after


def decide_actions(stored: Record, job: ManagedJob, leases: Mapping[str, str], now: str) -> list[Action]:
    """Return the actions for a job. May write a verdict into the record; the record must be stored before the actions run."""
    if record.is_finished(stored):
        return []
    return [*setup.decide_setup(stored, job, now), *restarts.decide_restart(stored, job, leases, now)]


def close_record(stored: Record, now: str) -> Record:
    """Return the record of a job that `cancel` or a removal from the stack file deleted before it ended."""
    after = copy.deepcopy(stored)
    usage.close_usage(after, now)
    if not record.is_finished(after):
        attempts.close_running_attempt(after, now, "the job was deleted")
        after["reason"] = "the job was deleted before its end was recorded"
        record.enter_phase(after, Phase.CANCELED, now)
    return after


# --- phases, with the times that Kubernetes recorded -----------------------------------------------------------------------


def _update_phase(after: Record, job: ManagedJob, now: str) -> None:
    phase = determine_phase(job.collect_phase_signs(after["attempts"]))
    if phase.is_final:
        _record_final_phase(after, job, phase, now)
        return
    _record_admission(after, job)
    record.enter_phase(after, phase, _find_phase_start(phase, after, job) or now)


def _find_phase_start(phase: Phase, after: Record, job: ManagedJob) -> str:
    """Return when a phase began; empty if Kubernetes does not record it."""
    latest = after["attempts"][-2:]
    if phase is Phase.RUNNING:
        return str(latest[-1]["running"] or "") if latest else ""
    if phase is Phase.RESTARTING:
        return max((attempt["to"] or "" for attempt in latest), default="")
    started = {Phase.SETUP: job.setup, Phase.STARTING: job.main}.get(phase) or {}
    return str((started.get("status") or {}).get("startTime") or "")


def _record_admission(after: Record, job: ManagedJob) -> None:
    """Record when the job first got its nodes."""
    if after.get("admitted") or job.is_suspended:
        return
    placements = [read_conditions(pod).get("PodScheduled") for pod in job.worker_pods]
    times = [placement["lastTransitionTime"] for placement in placements if placement]
    if job.size and len(times) >= job.size:
        after["admitted"] = moments.find_latest_time(*times)


def _record_final_phase(after: Record, job: ManagedJob, phase: Phase, now: str) -> None:
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
        record.enter_phase(after, Phase.RUNNING, last["running"])
    record.enter_phase(after, phase, when)
