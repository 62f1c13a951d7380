"""The smoke job: it fails unless ranks ran on as many nodes as there are workers, on all their GPUs, over the right network."""

import inspect
import json
from dataclasses import astuple
from typing import Final

from infra.jobs import smoke_verdict
from infra.jobs.cluster import ClusterDescription, PoolDescription, Transport
from infra.jobs.in_pods import text
from infra.jobs.model import Job, Launcher, MpiImplementation
from infra.jobs.pods import World
from infra.jobs.smoke_verdict import Expected, Report

NAME: Final = "smoke"
DEADLINE_SECONDS: Final = 1800
"""Nodes may have to be added first."""

IMAGES: Final[dict[MpiImplementation, str]] = {
    "OpenMPI": "gpumpi/openmpi:5",
    "Intel": "gpumpi/intel-mpi",
    "MPICH": "gpumpi/mpich",
}
"""Ours; any image with sshd, MPI, Python and mpi4py will do."""


def program() -> str:
    """What every rank runs, whole."""
    ranks = text("smoke.py").replace("from __future__ import annotations\n", "")  # may stand at the beginning only
    return f"{inspect.getsource(smoke_verdict)}\n{ranks}"


def smoke_pool(cluster: ClusterDescription) -> PoolDescription | None:
    """The pool to try: the first one with GPUs."""
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
    """The job, without its command, which depends on what the cluster gives."""
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
    """What the job must find."""
    world = World.of(job, cluster)
    return Expected(job.workers, world.size.slots, world.size.gpus, transport or world.pool.transport)


def with_program(job: Job, wanted: Expected) -> Job:
    """The job as it is submitted."""
    command = ("python3", "-c", program(), json.dumps(astuple(wanted)))
    return job.model_copy(update={"command": command})


def reports(log: str) -> list[Report]:
    """What the ranks said, from the launcher's log."""
    found: list[Report] = []
    for line in log.splitlines():
        if line.startswith('{"rank"'):
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found
