"""Smoke job. It fails unless each worker ran on its own node, with all GPUs, over the expected network."""

import inspect
import json
from dataclasses import astuple
from typing import Final

from infra.jobs import smoke_verdict
from infra.jobs.cluster import ClusterDescription, PoolDescription, Transport
from infra.jobs.in_pods import text
from infra.jobs.model import Job, Launcher, MpiImplementation
from infra.jobs.pods import PlacedJob
from infra.jobs.smoke_verdict import Expected, Report

NAME: Final = "smoke"
DEADLINE_SECONDS: Final = 1800
"""Includes the time to add nodes."""

IMAGES: Final[dict[MpiImplementation, str]] = {
    "OpenMPI": "gpumpi/openmpi:5",
    "Intel": "gpumpi/intel-mpi",
    "MPICH": "gpumpi/mpich",
}
"""Images built by this project. Any image with sshd, MPI, Python and mpi4py works."""


def program() -> str:
    """Return the source of the program that every rank runs."""
    ranks = text("smoke.py").replace("from __future__ import annotations\n", "")  # allowed only at the top of a file
    return f"{inspect.getsource(smoke_verdict)}\n{ranks}"


def smoke_pool(cluster: ClusterDescription) -> PoolDescription | None:
    """Return the pool to test: the first pool with GPUs, or None if there is none."""
    return next((pool for pool in cluster.pools if pool.gpus), None)


def smoke_job(
    pool: str,
    workers: int,
    *,
    name: str = NAME,
    image: str | None = None,
    launcher: Launcher = "mpijob",
    implementation: MpiImplementation = "OpenMPI",
    namespace: str | None = None,
) -> Job:
    """Return the smoke job without its command, which depends on the cluster."""
    return Job(
        name=name,
        launcher=launcher,
        pool=pool,
        workers=workers,
        image=image or IMAGES[implementation],
        command=("python3",),
        mpi_implementation=implementation,
        one_per_node=True,
        namespace=namespace,
        volumes=(),
        backoff_limit=0,
        deadline_seconds=DEADLINE_SECONDS,
    )


def expected(job: Job, cluster: ClusterDescription, transport: Transport | None = None) -> Expected:
    """Return the results that a healthy cluster must give for this job."""
    placed = PlacedJob.of(job, cluster)
    return Expected(job.workers, placed.size.slots, placed.size.gpus, transport or placed.pool.transport)


def with_program(job: Job, wanted: Expected) -> Job:
    """Return the job with its command, ready to submit."""
    command = ("python3", "-c", program(), json.dumps(astuple(wanted)))
    return job.model_copy(update={"command": command})


def reports(log: str) -> list[Report]:
    """Parse the ranks' reports from the launcher's log."""
    found: list[Report] = []
    for line in log.splitlines():
        if line.startswith('{"rank"'):
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found
