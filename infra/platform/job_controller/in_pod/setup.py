"""Concern: `setup`, a Job that runs before the ranks. Until it succeeds, the job has no nodes and is not in the queue."""

from typing import Any

from infra.naming import QUEUE_LABEL

from . import restarts, workers
from .actions import Action, Change
from .api import build_resource_path
from .job import ManagedJob, read_conditions
from .phases import Outcome
from .record import Record

BATCH, MPI = "apis/batch/v1", "apis/kubeflow.org/v2beta1"


def record_setup(record: Record, job: ManagedJob, now: str) -> None:
    if job.setup is None:
        return
    status, current = job.setup.get("status") or {}, read_conditions(job.setup)
    ended = current.get("Complete") or current.get("Failed") or {}
    outcome = Outcome.SUCCEEDED if "Complete" in current else Outcome.FAILED if "Failed" in current else None
    times = {"from": status.get("startTime"), "to": ended.get("lastTransitionTime")}
    record["setup"] = {**times, "outcome": outcome, "failures": status.get("failed", 0)}


def decide_setup(record: Record, job: ManagedJob, now: str) -> list[Action]:
    """Release a job whose setup has succeeded, and fail one whose setup has failed."""
    hold: dict[str, Any] = dict(job.policy.get("hold") or {})
    outcome = (record.get("setup") or {}).get("outcome")
    if not hold or job.verdict or outcome is None:
        return []
    if outcome == Outcome.FAILED:
        return _fail_job(record, job, now)
    return _release_ranks(job, hold)


def _fail_job(record: Record, job: ManagedJob, now: str) -> list[Action]:
    assert job.setup is not None
    condition = read_conditions(job.setup).get("Failed", {})
    message = f"setup failed: {condition.get('message') or condition.get('reason', '')}"
    record.setdefault("verdict", {"reason": "SetupFailed", "message": message, "at": now})
    return restarts.fail_job(record, job)


def _release_ranks(job: ManagedJob, hold: dict[str, Any]) -> list[Action]:
    """Return the changes that put the ranks into the queue, or start them in a cluster without a queue."""
    changes, queue = workers.scale_workers(job, job.size), hold.get("queue")
    labels = job.main["metadata"].get("labels") or {}
    api, kind = (MPI, "mpijobs") if job.is_mpi_job else (BATCH, "jobs")
    if queue and labels.get(QUEUE_LABEL) != queue:
        changes.append(Change(_build_path(api, job.namespace, kind, job.main), {"metadata": {"labels": {QUEUE_LABEL: queue}}}))
    elif not queue and job.is_suspended:
        released = {"suspend": False}
        spec = {"runPolicy": released} if job.is_mpi_job else released
        changes.append(Change(_build_path(api, job.namespace, kind, job.main), {"spec": spec}))
    return changes


def _build_path(api: str, namespace: str, kind: str, item: dict[str, Any]) -> str:
    return build_resource_path(f"{api}/namespaces/{{}}/{kind}/{{}}", namespace, item["metadata"]["name"])
