"""Concern: steps, slow ranks and hangs of a job. If there is no new step for too long, the attempt fails.

The record contains the first and last step of each attempt, and when the attempt caught up with earlier attempts. From
this, `scripts/cluster goodput` computes the lost time.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from infra.naming import COMPLETION_INDEX

from . import moments
from .api import Object
from .attempts import Attempt, close_attempt, find_pods, find_running_attempt, is_ending
from .job import (
    ManagedJob,
    explain_disruption,
    has_succeeded,
    is_deleted,
    is_ready,
    read_conditions,
    read_labels,
    read_start_time,
)
from .logs import Source
from .phases import Outcome
from .record import Record
from .steps import STEP_LIMIT, Step

START_SECONDS = 600
"""Time for the first step of an attempt, in addition to `within`, to load libraries and data, and to compile."""
WRITE_SECONDS = 30
"""Minimum time between steps that are written to the record: one write per step would overload etcd."""
LOG_LINES, LOG_CHARACTERS, HANGS_WITH_LOG = 20, 200, 3
"""Log of a hang in the record: its last lines, characters per line, and number of attempts that keep it."""
SLOW_RATIO, SLOW_STEPS = 1.5, 5
"""A rank is slow if it takes this many times the median of all ranks, in this many steps in a row."""
TOO_SLOW = "progress.pattern takes too long, so the job is not watched"


@dataclass(frozen=True)
class Seen:
    """What the controller knows about the log of one pod."""

    uid: str
    steps: Sequence[Step] = ()
    tail: Sequence[str] = ()
    complete: str = ""
    """Time until which the log has been read; empty if it could not be read to its end."""
    is_too_slow: bool = False


def find_log(record: Record, job: ManagedJob) -> Source | None:
    """Return the log that contains the steps of the last attempt; None if there is nothing to read."""
    if read_pattern(job) is None or not record["attempts"] or record.get("progressProblem") or job.verdict:
        return None
    attempt = record["attempts"][-1]
    pods = find_pods(attempt, job)
    if not job.has_launcher:
        pods = [pod for pod in pods if read_labels(pod).get(COMPLETION_INDEX) == "0"]
    if not pods or not read_start_time(pods[-1]):
        return None
    metadata, container = pods[-1]["metadata"], "launcher" if job.has_launcher else "worker"
    since = (attempt.get("steps") or {}).get("until", "")
    return Source(metadata["namespace"], metadata["name"], metadata["uid"], container, since)


def update_progress(record: Record, job: ManagedJob, log: Seen | None, now: str) -> None:
    """Write new steps into the record, and end an attempt that hangs."""
    attempt = next((attempt for attempt in record["attempts"] if log and log.uid in attempt["pods"]), None)
    if log is None or attempt is None or read_pattern(job) is None:
        return
    if log.is_too_slow:
        record["progressProblem"] = TOO_SLOW
        return
    new = _add_steps(attempt, log.steps, _find_highest_earlier_step(record, attempt))
    if new is not None and "slow" in new:
        new["slow"] = locate_slow_rank(new["slow"], job)
    hang = _explain_hang(record, job, attempt, new, log)
    if hang or _must_be_written(attempt, new):
        attempt["steps"] = new
    if hang:
        for earlier in record["attempts"][:-HANGS_WITH_LOG]:
            earlier.get("hang", {}).pop("log", None)
        lines = [line[:LOG_CHARACTERS] for line in log.tail[-LOG_LINES:]]
        attempt["hang"] = {"at": now, "step": new and new["last"]["step"], "log": lines}
        attempt["fault"] = hang
        close_attempt(record, attempt, Outcome.FAILED, hang, now)


def read_pattern(job: ManagedJob) -> tuple[str, int] | None:
    """Return the pattern and seconds of a job; None if they are missing or invalid."""
    progress = job.policy.get("progress")
    return (progress["pattern"], progress["within"]) if progress else None


def _find_highest_earlier_step(record: Record, attempt: Attempt) -> int | None:
    """Return the highest step of the earlier attempts."""
    earlier = [other["steps"] for other in record["attempts"] if other["number"] < attempt["number"] and other.get("steps")]
    numbers = [number for steps in earlier for number in (steps["highest"], steps["goal"]) if number is not None]
    return max(numbers, default=None)


def _add_steps(attempt: Attempt, steps: Sequence[Step], goal: int | None) -> dict[str, Any] | None:
    """Return the steps of an attempt after these lines. Lines that were already processed change nothing."""
    known_steps = copy.deepcopy(attempt.get("steps"))
    for step in steps:
        if known_steps is not None and step.at <= known_steps["until"]:
            continue
        point = {"step": step.number, "at": step.at}
        if known_steps is None:
            known_steps = {"goal": goal, "first": point, "last": point, "highest": step.number, "regained": None, "savedMs": 0}
        elif step.number != known_steps["last"]["step"]:
            known_steps["last"] = point
        known_steps |= {"until": step.at, "highest": max(known_steps["highest"], step.number)}
        slow = update_slow_rank(known_steps.pop("slow", None), step)
        known_steps |= {"slow": slow} if slow else {}
        if known_steps["regained"] is not None:
            known_steps["savedMs"] = min(known_steps["savedMs"] + step.saved_ms, STEP_LIMIT)
        elif goal is None or step.number >= goal:
            known_steps["regained"] = step.at
    return known_steps


def _must_be_written(attempt: Attempt, new: dict[str, Any] | None) -> bool:
    old = attempt.get("steps")
    if old is None or new is None or attempt["outcome"] or old["regained"] != new["regained"]:
        return new != old
    if find_slow_rank(old) != find_slow_rank(new):
        return True
    return moments.count_seconds(old["until"], new["until"]) >= WRITE_SECONDS


def _explain_hang(record: Record, job: ManagedJob, attempt: Attempt, steps: dict[str, Any] | None, log: Seen) -> str:
    """Return why an attempt hangs; empty if it does not. Only a log that was read to its end proves that nothing was
    printed."""
    _, within = read_pattern(job) or ("", 0)
    running_since = _find_running_since(job, attempt)
    if (
        not within
        or attempt is not find_running_attempt(record)
        or _is_job_ending(record, job)
        or not running_since
        or not log.complete
    ):
        return ""
    if steps is not None:
        silent = int(moments.count_seconds(steps["last"]["at"], log.complete))
        return f"hang: no new step for {silent} s after step {steps['last']['step']}" if silent > within else ""
    silent = int(moments.count_seconds(running_since, log.complete))
    return f"hang: no step in the first {silent} s" if silent > within + START_SECONDS else ""


def _is_job_ending(record: Record, job: ManagedJob) -> bool:
    return job.is_suspended or is_ending(record, job)


def _find_running_since(job: ManagedJob, attempt: Attempt) -> str:
    """Return when the last pod of the attempt became ready. Empty if a pod is not ready, is terminating, or has lost
    its node, which explains why there are no steps.
    """
    own = find_pods(attempt, job)
    pods = [*own, *job.worker_pods] if job.has_launcher else own
    number = job.size + job.has_launcher
    if len(pods) < number or not all(_is_pod_running(pod) and not explain_disruption(pod, job.nodes) for pod in pods):
        return ""
    return moments.find_latest_time(*map(_read_ready_time, pods))


def _is_pod_running(pod: Object) -> bool:
    return not is_deleted(pod) and (has_succeeded(pod) or is_ready(pod)) and bool(read_start_time(pod))


def _read_ready_time(pod: Object) -> str:
    return str(read_conditions(pod).get("Ready", {}).get("lastTransitionTime") or read_start_time(pod))


# --- slow ranks: all ranks wait for the slowest one in each step, so nothing else shows which one it is --------------------


def update_slow_rank(slow: dict[str, Any] | None, step: Step) -> dict[str, Any] | None:
    """Return the rank that has been slow since some step, after one more step; None if there is none."""
    if step.slowest is None or step.ratio < SLOW_RATIO:
        return None
    if slow is None or slow["rank"] != step.slowest:
        slow = {"rank": step.slowest, "since": step.number, "steps": 0}
    return {**slow, "ratio": round(step.ratio, 2), "steps": slow["steps"] + 1}


def find_slow_rank(steps: dict[str, Any] | None) -> int | None:
    """Return the rank that is slow for long enough; None if there is none."""
    slow = (steps or {}).get("slow")
    return slow["rank"] if slow and slow["steps"] >= SLOW_STEPS else None


def locate_slow_rank(slow: dict[str, Any], job: ManagedJob) -> dict[str, Any]:
    """Return the slow rank with its pod and node. Launchers number the ranks worker by worker."""
    each = (job.policy.get("progress") or {}).get("ranksPerWorker")
    if "node" in slow or not isinstance(each, int) or each < 1:
        return slow
    index = str(slow["rank"] // each)
    for pod in job.worker_pods:
        name = pod["metadata"]["name"]
        if read_labels(pod).get(COMPLETION_INDEX, name.rpartition("-")[2]) == index:
            return {**slow, "pod": name, "node": pod["spec"].get("nodeName", "")}
    return slow
