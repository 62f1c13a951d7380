"""Concern: a rank that is slower than the others. All ranks wait for it in each step, so nothing else shows which one it is.

The program prints the slowest rank of each step (`workloads/progress.py`). One slow step means nothing; the same rank in
several steps in a row has a slow GPU, a busy node or more data than the others.
"""

from typing import Any

from infra.naming import COMPLETION_INDEX

from .job import ManagedJob, read_labels
from .steps import Step

SLOW_RATIO, SLOW_STEPS = 1.5, 5
"""A rank is slow if it takes this many times the median of all ranks, in this many steps in a row."""

Slow = dict[str, Any]


def update_slow_rank(slow: Slow | None, step: Step) -> Slow | None:
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


def locate_slow_rank(slow: Slow, job: ManagedJob) -> Slow:
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
