"""MPI jobs in a running cluster, timed from submission to completion."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.timeline import Timeline
from bench.watching import Watch
from cli.clusters.kubernetes_access import Cluster
from cli.jobs import objects
from infra.jobs.cluster import ClusterDescription
from infra.jobs.reading import validate_job
from infra.jobs.render import render_job
from infra.naming import JOB_LABEL
from testkit.job_cluster import JobCluster
from testkit.waiting import wait_while

PROGRAM = """
import json, os, time
began = time.time()
from mpi4py import MPI
world = MPI.COMM_WORLD
world.Barrier()
ranks = world.gather((began, time.time(), os.environ["GPUMPI_NODE"]))
if world.rank == 0:
    print("ranks", json.dumps(ranks), flush=True)
"""
"""Program in which each rank reports when it started and when it passed the barrier shared by all ranks."""
LIMIT_SECONDS = 600.0


class JobFailed(Exception):
    """A job failed or printed no result; the message contains the end of its log."""


@dataclass(frozen=True)
class Bench:
    """A running cluster, an authenticated client for it, and its description."""

    shell: JobCluster
    client: Cluster
    described: ClusterDescription

    @classmethod
    def from_shell(cls, shell: JobCluster) -> "Bench":
        client = Cluster(shell.kubeconfig, None)
        return cls(shell, client, client.description())

    @property
    def namespace(self) -> str:
        return self.described.namespaces[0].name

    def describe_without_gpus(self, pool: str) -> ClusterDescription:
        """Return the cluster description without the pool's GPUs, so that many workers fit on one node."""
        pools = [
            candidate.model_copy(update={"gpus": 0, "efa": 0, "hugepages_mib": 0}) if candidate.name == pool else candidate
            for candidate in self.described.pools
        ]
        return self.described.model_copy(update={"pools": tuple(pools)})

    @contextmanager
    def watch_job(self, name: str, workers: int, launcher: str) -> Iterator[Timeline]:
        """Record the timeline of a job that the caller submits inside the block."""
        timeline = Timeline(workers)
        base, selector = f"namespaces/{self.namespace}", f"{JOB_LABEL}={name}"
        jobs = f"/apis/kubeflow.org/v2beta1/{base}/mpijobs" if launcher == "mpijob" else f"/apis/batch/v1/{base}/jobs"
        own = selector if launcher == "mpijob" else f"{selector},gpumpi.io/role=job"
        kubeconfig = self.shell.kubeconfig
        with (
            Watch(kubeconfig, f"/api/v1/{base}/pods", timeline.handle_pod_event, selector),
            Watch(kubeconfig, jobs, timeline.handle_job_event, own),
        ):
            yield timeline

    def submit(self, values: Mapping[str, object], described: ClusterDescription) -> float:
        """Submit the job and return the time of submission."""
        pieces = render_job(validate_job(values, described))
        begun = time.time()
        objects.create_job_objects(self.client, pieces)
        return begun

    def read_printed_json(self, name: str, word: str) -> Any:
        """Return the JSON that the launcher printed after `word`. Raise JobFailed if the log has no such line."""
        done = self.shell.cluster("logs", name)
        line = next((line for line in done.out.splitlines() if line.startswith(f"{word} ")), None)
        if line is None:
            raise JobFailed(f"job {name} did not print its {word}:\n{done.out[-2000:]}{done.err[-2000:]}")
        return json.loads(line.split(" ", 1)[1])

    def remove(self, name: str) -> None:
        """Cancel the job and wait until all its pods are gone."""
        self.shell.cluster("cancel", name)
        wait_while(lambda: self.client.list("Pod", self.namespace, {JOB_LABEL: name}), bool, LIMIT_SECONDS)
