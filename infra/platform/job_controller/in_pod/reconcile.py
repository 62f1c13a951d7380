"""Decides what happens to one job: updates its record, then calls the concerns. Pure functions: no clock, no requests."""

import copy
from collections.abc import Mapping

from . import attempts, phases, progress, record, restarts, setup, stacks, usage
from .actions import Action
from .job import ManagedJob
from .progress import Seen
from .record import Record
from .record_shape import MOST_WORKERS
from .stacks import Dump


def observe(found: Record | None, job: ManagedJob, now: str, seen: Seen | None = None, dump: Dump | None = None) -> Record:
    """Return the record of a job that exists. `seen` is the state of its log, and `dump` shows what its ranks were
    doing."""
    known = copy.deepcopy(found) or record.new(job.uid, job.name, job.namespace, job.main["metadata"]["creationTimestamp"])
    about = {"launcher": job.launcher, "size": min(job.size, MOST_WORKERS), "pool": str(job.policy.get("pool", ""))}
    known |= {key: value for key, value in about.items() if value or key not in known}
    usage.observe(known, job, now)
    if not record.is_over(known):
        setup.observe(known, job, now)
        attempts.observe(known, job, now)
        progress.observe(known, job, seen, now)
        stacks.observe(known, dump, now)
        phases.observe(known, job, now)
    return known


def decide(found: Record, job: ManagedJob, leases: Mapping[str, str], now: str) -> list[Action]:
    """Return the actions for a job. May write a verdict into the record, which must be stored before the actions
    run."""
    if record.is_over(found):
        return []
    return [*setup.decide(found, job, now), *restarts.decide(found, job, leases, now)]


def ended_without_us(found: Record, now: str) -> Record:
    """Return the record of a job that `cancel` or a removal from the stack file deleted before it ended."""
    known = copy.deepcopy(found)
    usage.close(known, now)
    if not record.is_over(known):
        attempts.close(known, now, "the job was deleted")
        known["reason"] = "the job was deleted before its end was recorded"
        record.enter(known, record.CANCELED, now)
    return known
