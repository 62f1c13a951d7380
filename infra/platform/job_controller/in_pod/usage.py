"""Concern: nodes and GPU seconds of a job, from which its costs are computed."""

from typing import Any

from infra.naming import CAPACITY_LABEL, INSTANCE_TYPE_LABEL, POOL_LABEL, ZONE_LABEL

from . import moments
from .job import ManagedJob, count_gpus, is_terminal, read_end_time, read_labels
from .record import WORKERS_KEPT, Record


def update_usage(record: Record, job: ManagedJob, now: str) -> None:
    """Update the workers: one entry per pod, with its node, its GPUs, and how long it held them."""
    live = {pod["metadata"]["uid"]: pod for pod in job.worker_pods}
    recorded = {worker["uid"] for worker in record["workers"]}
    for uid, pod in live.items():
        if uid not in recorded and pod["spec"].get("nodeName") and pod["status"].get("startTime"):
            record["workers"].append(_build_usage_entry(uid, pod, job))
    for worker in record["workers"]:
        if worker["to"] is None:
            current = live.get(worker["uid"])
            if current is None:
                worker["to"] = moments.find_latest_time(now, worker["from"])
            elif is_terminal(current):
                worker["to"] = read_end_time(current) or now
    _sum_gpu_seconds(record)


def close_usage(record: Record, now: str) -> None:
    """End the use of all nodes, because the job no longer exists."""
    for worker in record["workers"]:
        worker["to"] = worker["to"] or moments.find_latest_time(now, worker["from"])
    _sum_gpu_seconds(record)


def _build_usage_entry(uid: str, pod: dict[str, Any], job: ManagedJob) -> dict[str, Any]:
    node = pod["spec"]["nodeName"]
    about = read_labels(job.nodes[node]) if node in job.nodes else {}
    labels = {"type": INSTANCE_TYPE_LABEL, "zone": ZONE_LABEL, "capacity": CAPACITY_LABEL, "pool": POOL_LABEL}
    return {
        **{"uid": uid, "pod": pod["metadata"]["name"], "node": node, "gpus": count_gpus(pod)},
        **{key: about.get(label, "") for key, label in labels.items()},
        **{"from": pod["status"]["startTime"], "to": None},
    }


def _sum_gpu_seconds(record: Record) -> None:
    """Sum the GPU seconds of the entries that have ended, and drop the oldest ones if there are too many."""
    workers = record["workers"]
    closed = [worker for worker in workers if worker["to"] is not None]
    dropped = closed[: max(0, len(workers) - WORKERS_KEPT)]
    if dropped:
        gone = {worker["uid"] for worker in dropped}
        record["droppedGpuSeconds"] = record.get("droppedGpuSeconds", 0.0) + sum(map(compute_gpu_seconds, dropped))
        record["workers"] = [worker for worker in workers if worker["uid"] not in gone]
        closed = closed[len(dropped) :]
    record["gpuSeconds"] = record.get("droppedGpuSeconds", 0.0) + sum(map(compute_gpu_seconds, closed))


def compute_gpu_seconds(worker: dict[str, Any]) -> float:
    return float(worker["gpus"]) * moments.count_seconds(worker["from"], worker["to"])
