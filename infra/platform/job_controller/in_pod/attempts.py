"""Concern: the attempts of a job, and how each one ended.

An attempt of an MPI job is one pod of its launcher. An attempt of a torchrun job is one pod per worker. Once a pod
fails or is lost, the attempt is over, and `restarts.py` ends the other pods.
"""

from collections.abc import Sequence
from typing import Any

from . import moments
from .api import Object
from .job import (
    ManagedJob,
    explain_cut_off_pod,
    explain_disruption,
    has_failed,
    has_succeeded,
    is_deleted,
    is_terminal,
    read_conditions,
    read_end_time,
    read_exit_codes,
    read_start_time,
)
from .phases import Outcome, Phase
from .record import ATTEMPTS_KEPT, Record

EVIDENCE_SECONDS = 120
"""How long after an attempt's end a lost node may still count as its cause: Kubernetes notices a dead kubelet after 50 s."""

WITH_PODS = 3
"""Number of attempts whose pods the record lists. Kubernetes creates the pods of an attempt after the previous attempt
has ended.
"""

Attempt = dict[str, Any]


def update_attempts(record: Record, job: ManagedJob, now: str) -> None:
    attempts: list[Attempt] = record["attempts"]
    last = attempts[-1] if attempts else None
    if is_ending(record, job):
        if last is not None and last["outcome"] is None:
            _close_last_attempt(record, last, job, now)
        elif job.verdict is not None and job.verdict[0] is Phase.SUCCEEDED:
            _add_missed_attempts(record, job, now)
        return
    for attempt in attempts:
        _reclassify_failure(record, attempt, job, now)
    if last is not None and last["outcome"] is None:
        _update_attempt(record, last, job, now)
    while find_running_attempt(record) is None and _start_attempt(record, job):
        _update_attempt(record, attempts[-1], job, now)
    record["attempts"] = attempts[-ATTEMPTS_KEPT:]
    _forget_pods(record)
    record["restarts"] = max(0, attempts[-1]["number"] - 1) if attempts else 0


def _add_missed_attempts(record: Record, job: ManagedJob, now: str) -> None:
    """Add the attempts of a succeeded job that began and ended while no controller was running."""
    attempts: list[Attempt] = record["attempts"]
    while find_running_attempt(record) is None and _start_attempt(record, job):
        _update_attempt(record, attempts[-1], job, now)
    if find_running_attempt(record) is not None:
        _close_last_attempt(record, attempts[-1], job, now)
    record["restarts"] = max(0, attempts[-1]["number"] - 1) if attempts else 0


def _forget_pods(record: Record) -> None:
    """Drop the pods of old attempts: the names of thousands of pods would not fit into the record."""
    for old in record["attempts"][:-WITH_PODS]:
        if old["pods"]:
            record["knownUntil"] = old["to"]
            old["pods"], old["companions"] = {}, {}


def is_ending(record: Record, job: ManagedJob) -> bool:
    """Return whether Kubernetes is ending the job's pods because the job is over."""
    attempts_job = job.attempts_job
    return (
        "verdict" in record
        or job.verdict is not None
        or "FailureTarget" in (read_conditions(attempts_job) if attempts_job else {})
    )


def _close_last_attempt(record: Record, attempt: Attempt, job: ManagedJob, now: str) -> None:
    """Close the last attempt of the job."""
    pods = find_pods(attempt, job)
    failed = list(filter(has_failed, pods))
    if pods and not failed and all(map(is_terminal, pods)):
        close_attempt(record, attempt, Outcome.SUCCEEDED, "", max(map(read_end_time, pods)) or now)
    elif job.verdict is not None:
        attempt["exits"] = _list_failed_containers(failed, attempt)
        phase, condition = job.verdict
        outcome, cause = Outcome(phase), ""
        if outcome is Outcome.FAILED:
            verdict = record["verdict"]["message"] if "verdict" in record else ""
            cause = verdict or str(condition.get("message") or condition.get("reason", ""))
        close_attempt(record, attempt, outcome, cause, moments.find_latest_time(*map(read_end_time, pods)) or now)


def find_running_attempt(record: Record) -> Attempt | None:
    """Return the running attempt; None between attempts."""
    last = record["attempts"][-1] if record["attempts"] else None
    return last if last is not None and last["outcome"] is None else None


def _start_attempt(record: Record, job: ManagedJob) -> bool:
    """Begin an attempt if some pods belong to no earlier attempt."""
    fresh = _find_unassigned_pods(record, job)
    if job.has_launcher:
        fresh = fresh[:1]
    elif all(map(is_deleted, fresh)):
        return False
    if not fresh:
        return False
    number = record["attempts"][-1]["number"] + 1 if record["attempts"] else 1
    started = min(pod["metadata"]["creationTimestamp"] for pod in fresh)
    pods = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in fresh}
    times = {"from": started, "running": None, "to": None}
    empty: Attempt = {"outcome": None, "cause": "", "exits": [], "fault": "", "companions": {}}
    record["attempts"].append({"number": number, "pods": pods, **times, **empty})
    return True


def _find_unassigned_pods(record: Record, job: ManagedJob) -> list[Object]:
    """Return the pods that do not belong to an attempt yet."""
    assigned = {uid for attempt in record["attempts"] for uid in attempt["pods"]}
    since = record.get("knownUntil", "")
    return [
        pod for pod in job.attempt_pods if pod["metadata"]["uid"] not in assigned and pod["metadata"]["creationTimestamp"] > since
    ]


def _update_attempt(record: Record, attempt: Attempt, job: ManagedJob, now: str) -> None:
    pods = find_pods(attempt, job)
    losses = _explain_losses(attempt, pods, job) or _explain_cut_off_workers(attempt, job)
    failed = list(filter(has_failed, pods))
    if not job.has_launcher and not losses and not failed:  # after a restart, workers start at different times
        pods = [*pods, *_find_unassigned_pods(record, job)]
        attempt["pods"] = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in pods}
    _record_workers(record, attempt, job)
    if attempt["running"] is None and job.have_all_started(pods):
        attempt["running"] = max(map(read_start_time, pods))
    if pods and all(map(has_succeeded, pods)):
        if job.has_launcher or len(pods) >= job.size:
            close_attempt(record, attempt, Outcome.SUCCEEDED, "", max(map(read_end_time, pods)) or now)
    elif losses or failed:
        _close_failed_attempt(record, attempt, job, failed, losses, now)


def _close_failed_attempt(
    record: Record, attempt: Attempt, job: ManagedJob, failed: Sequence[Object], losses: Sequence[str], now: str
) -> None:
    """Close an attempt that has failed or lost pods. A lost node or pod explains a failure, except one that a worker
    caused itself."""
    companions = [pod for pod in job.worker_pods if pod["metadata"]["uid"] in attempt["companions"]]
    attempt["exits"] = _list_failed_containers([*failed, *companions], attempt)
    if not attempt["fault"]:
        losses = losses or _explain_lost_workers(attempt, job)
    when = moments.find_latest_time(*map(read_end_time, failed)) or now
    if losses:
        close_attempt(record, attempt, Outcome.DISRUPTED, losses[0], when)
    else:
        close_attempt(record, attempt, Outcome.FAILED, attempt["fault"] or _format_cause(attempt["exits"], failed), when)


def list_pod_uids(attempt: Attempt) -> set[str]:
    """Return the UIDs of all pods of an attempt, including the workers of an MPI job."""
    return {*attempt["pods"], *attempt["companions"]}


def find_pods(attempt: Attempt, job: ManagedJob) -> list[Object]:
    return [pod for pod in job.attempt_pods if pod["metadata"]["uid"] in attempt["pods"]]


def _record_workers(record: Record, attempt: Attempt, job: ManagedJob) -> None:
    """Record the workers of an MPI attempt, and whether one of them failed on its own."""
    if not job.has_launcher:
        return
    ended_by_us = {uid for earlier in record["attempts"] if earlier.get("hang") for uid in earlier["companions"]}
    for pod in job.worker_pods:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        if uid in ended_by_us:
            continue
        if not is_terminal(pod):
            attempt["companions"].setdefault(uid, name)
        elif uid in attempt["companions"] and _has_failed_by_itself(pod, job):
            attempt["fault"] = f"{name}: {pod['status'].get('reason') or 'failed'}"


def _has_failed_by_itself(pod: Object, job: ManagedJob) -> bool:
    was_ended = is_deleted(pod) or explain_disruption(pod, job.nodes)
    return has_failed(pod) and not was_ended


def _explain_losses(attempt: Attempt, pods: Sequence[Object], job: ManagedJob) -> list[str]:
    """Return why the attempt lost pods. The exit code of a lost pod is meaningless."""
    unfinished = [pod for pod in pods if not has_succeeded(pod)]
    losses = [why for pod in unfinished if (why := explain_disruption(pod, job.nodes))]
    losses += [f"{pod['metadata']['name']} was deleted" for pod in unfinished if is_deleted(pod)]
    gone = attempt["pods"].keys() - {pod["metadata"]["uid"] for pod in job.attempt_pods}
    return losses + [f"{attempt['pods'][uid]} was deleted" for uid in sorted(gone)]


def _explain_cut_off_workers(attempt: Attempt, job: ManagedJob) -> list[str]:
    """Return why workers of an MPI attempt cannot continue. The launcher may not notice: a node without its kubelet
    keeps running containers, while Kubernetes already replaces the worker."""
    pods = [pod for pod in job.worker_pods if not is_terminal(pod)] if job.has_launcher else []
    return [
        why for pod in pods if pod["metadata"]["uid"] in attempt["companions"] and (why := explain_cut_off_pod(pod, job.nodes))
    ]


def _explain_lost_workers(attempt: Attempt, job: ManagedJob) -> list[str]:
    """Return why workers were lost while the launcher ran."""
    live = {pod["metadata"]["uid"]: pod for pod in job.worker_pods}
    losses = [why for uid in attempt["companions"] if uid in live and (why := explain_disruption(live[uid], job.nodes))]
    for uid, name in sorted(attempt["companions"].items()):
        if uid not in live or is_deleted(live[uid]):
            losses.append(f"{name} was deleted")
    return losses


def _reclassify_failure(record: Record, attempt: Attempt, job: ManagedJob, now: str) -> None:
    """Turn a failure into a disruption if a node of the attempt turns out to be lost. The next attempt may already be
    running."""
    if attempt["outcome"] != Outcome.FAILED or moments.count_seconds(attempt["to"], now) > EVIDENCE_SECONDS:
        return
    pods = [pod for pod in job.pods if pod["metadata"]["uid"] in list_pod_uids(attempt)]
    losses = [why for pod in pods if (why := explain_disruption(pod, job.nodes))]
    if not attempt["fault"]:
        losses += _explain_lost_workers(attempt, job)
    if losses:
        attempt["outcome"], attempt["cause"] = Outcome.DISRUPTED, losses[0]
        record["failures"] -= 1
        record["disruptions"] += 1


def _list_failed_containers(pods: Sequence[Object], attempt: Attempt) -> list[dict[str, Any]]:
    """Return the containers that ended with an error during the attempt, in the order in which they ended."""
    ends = [end for pod in pods for end in read_exit_codes(pod) if not end["at"] or end["at"] >= attempt["from"]]
    return sorted(ends, key=lambda end: end["at"])[:10]


def _format_cause(ends: Sequence[dict[str, Any]], failed: Sequence[Object]) -> str:
    if ends:
        first = ends[0]
        reason = "" if first["reason"] in ("", "Error") else f" ({first['reason']})"
        return f"{first['pod']}: exit code {first['code']}{reason}"
    reasons = [f"{pod['metadata']['name']}: {pod['status'].get('reason') or 'failed'}" for pod in failed]
    return reasons[0] if reasons else "failed"


def close_attempt(record: Record, attempt: Attempt, outcome: Outcome, cause: str, when: str) -> None:
    attempt["outcome"], attempt["cause"], attempt["to"] = outcome, cause, moments.find_latest_time(when, attempt["from"])
    record["failures"] += outcome is Outcome.FAILED
    record["disruptions"] += outcome is Outcome.DISRUPTED


def close_running_attempt(record: Record, now: str, cause: str) -> None:
    """End the running attempt, because the job no longer exists."""
    attempt = find_running_attempt(record)
    if attempt is not None:
        close_attempt(record, attempt, Outcome.DISRUPTED, cause, now)
