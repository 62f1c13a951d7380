"""Concern: restart a job as a whole, and end it when no restarts are left."""

from collections.abc import Mapping
from typing import Any

from . import moments, stacks
from .actions import Action, DeletePod, FailJob, Report
from .attempts import Attempt, list_pod_uids
from .job import ManagedJob, explain_cut_off_pod, has_succeeded, is_deleted, is_live, is_terminal, read_conditions
from .phases import INTERRUPTIONS, Outcome
from .record import Record

BROKEN_SECONDS = 5
"""Grace period of ranks whose peers failed. They cannot save a checkpoint, because they wait for a rank that no longer
exists."""
HEARTBEAT_SECONDS = 90
"""Maximum wait for a node's kubelet to renew its lease. A kubelet renews its lease every 10 seconds. Kubernetes
declares a node lost 50 seconds after the last renewal; on a busy machine, this took 61 seconds.
https://kubernetes.io/docs/concepts/architecture/nodes/#condition"""

Leases = Mapping[str, str]
"""Maps a node to the time when its kubelet last renewed the lease."""


def needs_leases(record: Record, job: ManagedJob) -> bool:
    """Return whether the decision about the last attempt depends on whether its nodes are alive."""
    return "verdict" not in record and _check_restart_limit(record, job) is not None


def decide_restart(record: Record, job: ManagedJob, leases: Leases, now: str) -> list[Action]:
    """Return the actions that restart or end the job. If there is a verdict, write it into the record first."""
    if job.verdict or not job.policy or job.is_suspended:
        return []
    if stacks.find_attempt_to_dump(record, now) is not None:
        return _report_hangs(record, job)
    _record_verdict(record, job, leases, now)
    if "verdict" in record:
        return fail_job(record, job)
    return [
        *_report_hangs(record, job),
        *_end_hanging_attempt(record, job),
        *_replace_ended_workers(job),
        *_end_attempt(record, job),
    ]


def _record_verdict(record: Record, job: ManagedJob, leases: Leases, now: str) -> None:
    if "verdict" in record:
        return
    reason = _check_no_retry_exit_code(record, job) or _check_partial_success(record, job)
    limit = _check_restart_limit(record, job)
    if reason is None and limit is not None and _were_nodes_alive(record, job, leases, now):
        reason = limit
    reason = reason or _check_deadline(record, job, now)
    if reason is not None:
        record["verdict"] = {"reason": reason[0], "message": reason[1], "at": now}


def _find_last_attempt(record: Record) -> Attempt | None:
    return record["attempts"][-1] if record["attempts"] else None


def _find_last_failed_attempt(record: Record) -> Attempt | None:
    return next((attempt for attempt in reversed(record["attempts"]) if attempt["outcome"] == Outcome.FAILED), None)


def _check_no_retry_exit_code(record: Record, job: ManagedJob) -> tuple[str, str] | None:
    failed = _find_last_failed_attempt(record)
    listed = job.policy.get("noRetryExitCodes") or ()
    hit = next((end for end in (failed or {}).get("exits", ()) if end["code"] in listed), None)
    if hit is None:
        return None
    return "ExitCodeNotRetried", f"{hit['pod']} ended with exit code {hit['code']}, which noRetryExitCodes lists"


def _check_partial_success(record: Record, job: ManagedJob) -> tuple[str, str] | None:
    """Return a verdict if some torchrun workers have succeeded: Kubernetes never restarts those workers."""
    last = _find_last_attempt(record)
    if job.has_launcher or last is None or last["outcome"] not in INTERRUPTIONS:
        return None
    done = [pod for pod in job.attempt_pods if has_succeeded(pod)]
    if not done:
        return None
    message = f"{last['cause']}, after {len(done)} of {job.size} workers had succeeded; the others cannot run without them"
    return "FailedAfterSuccess", message


def _check_restart_limit(record: Record, job: ManagedJob) -> tuple[str, str] | None:
    failures, limit = record["failures"], job.policy.get("maxRestarts")
    failed = _find_last_failed_attempt(record)
    if limit is None or failed is None or failures <= limit:
        return None
    times = "once" if failures == 1 else f"{failures} times"
    return "MaxRestartsExceeded", f"the job failed {times}, the last time with {failed['cause']}; maxRestarts is {limit}"


def _were_nodes_alive(record: Record, job: ManagedJob, leases: Leases, now: str) -> bool:
    """Return whether every node has been seen alive since the failure; if not, its loss may be the cause."""
    failed = _find_last_failed_attempt(record)
    if failed is None or moments.count_seconds(failed["to"], now) > HEARTBEAT_SECONDS:
        return True
    uids = list_pod_uids(failed)
    nodes = {pod["spec"]["nodeName"] for pod in job.pods if pod["metadata"]["uid"] in uids and pod["spec"].get("nodeName")}
    return all(node in leases and moments.parse_time(leases[node]) >= moments.parse_time(failed["to"]) for node in nodes)


def _check_deadline(record: Record, job: ManagedJob, now: str) -> tuple[str, str] | None:
    """Return a verdict if a job that the queue admits in parts runs too long: Kubernetes would count the time in which
    the workers wait."""
    limit, admitted = job.policy.get("activeDeadlineSeconds"), record.get("admitted")
    if not job.is_admitted_in_parts or limit is None or not admitted or moments.count_seconds(admitted, now) <= limit:
        return None
    return "DeadlineExceeded", f"the job ran longer than its deadline of {limit} seconds"


def fail_job(record: Record, job: ManagedJob) -> list[Action]:
    """Return the action that ends the job with its verdict."""
    target, verdict = job.attempts_job, record["verdict"]
    if target is None or "FailureTarget" in read_conditions(target):
        return []
    was_started = bool((target.get("status") or {}).get("startTime"))
    return [FailJob(job.namespace, target["metadata"]["name"], verdict["reason"], verdict["message"], was_started)]


def _replace_ended_workers(job: ManagedJob) -> list[Action]:
    """Delete workers of an MPIJob that have ended: mpi-operator recreates only missing workers.

    A worker ends with exit code 0 if the kubelet stops it, for example before its node shuts down.
    https://github.com/kubeflow/mpi-operator/blob/v0.8.2/pkg/controller/mpi_job_controller.go (getOrCreateWorker)
    """
    if not job.is_mpi_job:
        return []
    return [DeletePod.for_pod(pod, 0) for pod in job.worker_pods if is_terminal(pod) and not is_deleted(pod)]


def _end_hanging_attempt(record: Record, job: ManagedJob) -> list[Action]:
    """Delete all pods of an MPI attempt that hangs: a rank that is stuck on a worker would keep its GPU. The launcher
    comes last, because Kubernetes then starts the next launcher. `_end_attempt` deletes the pods of torchrun."""
    if not job.has_launcher:
        return []
    return [
        DeletePod.for_pod(pod, BROKEN_SECONDS) for attempt in record["attempts"] for pod in _find_remaining_pods(attempt, job)
    ]


def _report_hangs(record: Record, job: ManagedJob) -> list[Action]:
    reports: list[Action] = []
    for attempt in (earlier for earlier in record["attempts"] if _find_remaining_pods(earlier, job)):
        message = f"{attempt['cause']}. All ranks are ended, which counts as a failure."
        reports.append(Report(f"{job.name}.hang-{attempt['number']}.{job.uid[:8]}", job.build_reference(), "Hang", message))
    return reports


def _find_remaining_pods(attempt: Attempt, job: ManagedJob) -> list[dict[str, Any]]:
    """Return the remaining pods of an attempt that hangs; none for other attempts."""
    uids = list_pod_uids(attempt) if attempt.get("hang") else set()
    pods = [*job.worker_pods, *(job.attempt_pods if job.has_launcher else [])]
    return [pod for pod in pods if pod["metadata"]["uid"] in uids and is_live(pod)]


def _end_attempt(record: Record, job: ManagedJob) -> list[Action]:
    """Delete the remaining pods of an attempt. After a disruption, all ranks get their grace period to save a
    checkpoint."""
    if job.has_launcher:
        last = _find_last_attempt(record)
        return _end_cut_off(last, job) if last and last["outcome"] == Outcome.DISRUPTED and not last.get("hang") else []
    # The next attempt may have begun: a controller that was down sees a failed pod and its replacement at the same time.
    torn = {
        uid: attempt["outcome"]
        for attempt in record["attempts"]
        if attempt["outcome"] in INTERRUPTIONS
        for uid in attempt["pods"]
    }
    left = [pod for pod in job.attempt_pods if pod["metadata"]["uid"] in torn and is_live(pod)]
    return [DeletePod.for_pod(pod, None if torn[pod["metadata"]["uid"]] == Outcome.DISRUPTED else BROKEN_SECONDS) for pod in left]


def _end_cut_off(attempt: Attempt, job: ManagedJob) -> list[Action]:
    """Delete the launcher of MPI, which ends by itself only if it notices the loss, and the workers on nodes that are
    disconnected. If the launcher's node is disconnected, its ranks keep running until their workers end."""
    uids = list_pod_uids(attempt)
    everywhere = any(explain_cut_off_pod(pod, job.nodes) for pod in job.attempt_pods if pod["metadata"]["uid"] in uids)
    pods = [*job.attempt_pods, *(pod for pod in job.worker_pods if everywhere or explain_cut_off_pod(pod, job.nodes))]
    return [DeletePod.for_pod(pod, None) for pod in pods if pod["metadata"]["uid"] in uids and is_live(pod)]
