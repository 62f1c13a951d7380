"""Jobs of `workloads/`, as their job.yaml has them or with a few fields changed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from testkit.job_cluster import ROOT, Done, JobCluster


def job_yaml(workload: str) -> Path:
    return ROOT / "workloads" / workload / "job.yaml"


def variant(folder: Path, workload: str, options: Sequence[str] = (), **changes: Any) -> Path:
    """The workload's job with more options of its program and other fields; its file."""
    job = yaml.safe_load(job_yaml(workload).read_text())
    job["command"] += options
    path = folder / f"{workload}.yaml"
    path.write_text(yaml.safe_dump({**job, **changes}))
    return path


def run(cluster: JobCluster, file: Path) -> Done:
    """Its log and its end; nothing of it is left."""
    with leaving_nothing(cluster, yaml.safe_load(file.read_text())["name"]):
        return cluster.cluster("submit", str(file), "--follow")


@contextmanager
def leaving_nothing(cluster: JobCluster, name: str) -> Iterator[None]:
    """A job that stayed would keep its GPUs from others."""
    try:
        yield
    finally:
        cluster.cluster("cancel", name)
