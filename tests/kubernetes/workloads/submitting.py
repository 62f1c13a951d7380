"""Helpers that submit the jobs in `workloads/`, unchanged or with a few changed fields."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from testkit.job_cluster import ROOT, Done, JobCluster


def get_job_file(workload: str) -> Path:
    return ROOT / "workloads" / workload / "job.yaml"


def write_variant(folder: Path, workload: str, options: Sequence[str] = (), **changes: Any) -> Path:
    """Write a copy of the workload's job with additional program options and changed fields; return its path."""
    job = yaml.safe_load(get_job_file(workload).read_text())
    job["command"] += options
    path = folder / f"{workload}.yaml"
    path.write_text(yaml.safe_dump({**job, **changes}))
    return path


def run_job(cluster: JobCluster, file: Path) -> Done:
    """Run a job to completion while following its log, then delete it."""
    with cancel_on_exit(cluster, yaml.safe_load(file.read_text())["name"]):
        return cluster.cluster("submit", str(file), "--follow")


@contextmanager
def cancel_on_exit(cluster: JobCluster, name: str) -> Iterator[None]:
    """Cancel the job on exit, so that it releases its GPUs."""
    try:
        yield
    finally:
        cluster.cluster("cancel", name)


def kill_worker(cluster: JobCluster, selector: str, name: str = "") -> None:
    """Delete one of the job's pods with a grace period of one second."""
    (pod,) = [candidate for candidate in cluster.list_objects("pods", selector) if name in ("", candidate["metadata"]["name"])]
    namespace = pod["metadata"]["namespace"]
    done = cluster.kubectl("delete", "pod", pod["metadata"]["name"], "-n", namespace, "--grace-period=1", "--wait=false")
    assert done.code == 0, done.err
