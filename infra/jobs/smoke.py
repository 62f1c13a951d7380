"""Smoke jobs. The first job fails unless each worker ran on its own node, with all GPUs, over the expected network. The
second job, for level `nccl`, runs nccl-tests."""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final, Literal

from infra.jobs import nccl_verdict, smoke_verdict
from infra.jobs.cluster import ClusterDescription, PoolDescription, Transport
from infra.jobs.in_pods import read_source
from infra.jobs.model import Job, LauncherName, MpiImplementation
from infra.jobs.nccl_verdict import NcclExpected, NetworkReport
from infra.jobs.render import place_job
from infra.jobs.smoke_verdict import Expected, Report

NAME: Final = "smoke"
Level = Literal["devices", "cuda", "nccl"]
DEADLINE_SECONDS: Final = 1800
"""Deadline of a smoke job, including the time to add nodes."""

IMAGES: Final[dict[MpiImplementation, str]] = {
    "OpenMPI": "openmpi:5",
    "Intel": "intel-mpi:2021",
    "MPICH": "mpich:5",
}
"""Images built by this project, in the cluster's image repository. Any image with sshd, MPI, Python and mpi4py works."""


def build_program() -> str:
    """Return the source of the program that every rank runs."""
    # this import is allowed only at the top of a file
    ranks = read_source("smoke.py").replace("from __future__ import annotations\n", "")
    return f"{inspect.getsource(smoke_verdict)}\nCUDA_PROGRAM = {read_source('cuda.py')!r}\n{ranks}"


def choose_smoke_pool(cluster: ClusterDescription) -> PoolDescription | None:
    """Return the pool to test: the first pool with GPUs, or None if there is none."""
    return next((pool for pool in cluster.pools if pool.gpus), None)


def build_smoke_job(
    pool: str,
    workers: int,
    *,
    name: str = NAME,
    image: str | None = None,
    launcher: LauncherName = "mpijob",
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
        max_restarts=0,
        active_deadline_seconds=DEADLINE_SECONDS,
    )


def compute_expected_results(
    job: Job,
    cluster: ClusterDescription,
    transport: Transport | None = None,
    level: Level = "devices",
    emulated: Sequence[str] = (),
) -> Expected:
    """Return the results that this job must produce on a healthy cluster. `emulated`: nodes with `EMULATED_LABEL`."""
    placed = place_job(job, cluster)
    size, network = placed.size, transport or placed.pool.transport
    library = "mlx" if job.mpi_implementation == "Intel" else "ucx"
    reported = library if network == "infiniband" else network  # on InfiniBand, MPI reports the library that it uses
    return Expected(job.workers, size.slots, size.gpus, reported, size.efa, level, tuple(emulated))


def add_program(job: Job, expectation: Expected) -> Job:
    """Return the job with its command, ready to submit."""
    command = ("python3", "-c", build_program(), json.dumps(astuple(expectation)))
    return job.model_copy(update={"command": command})


def parse_reports(log: str) -> list[Report]:
    """Parse the ranks' reports from the launcher's log."""
    return _parse_json_lines(log, '{"rank"')


# --- NCCL --------------------------------------------------------------------------------------------------------------

NCCL_LOG: Final[Mapping[str, str]] = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
"""Log level and subsystems that nccl.py needs. They are set explicitly, because an image or AMI may set other values in
/etc/nccl.conf."""


def build_nccl_job(job: Job, cluster: ClusterDescription) -> Job:
    """Return the job that runs nccl-tests with the pool, image and launcher of the smoke job."""
    largest = nccl_verdict.choose_largest_message_size(place_job(job, cluster).pool.line_rate_gbps)
    command = ("python3", "-c", read_source("nccl.py"), largest)
    return job.model_copy(update={"name": f"{job.name}-nccl", "command": command, "env": dict(NCCL_LOG)})


def compute_expected_nccl_results(job: Job, cluster: ClusterDescription) -> NcclExpected:
    """Return the results that NCCL must reach on this job's pool."""
    placed = place_job(job, cluster)
    pool, ranks = placed.pool, job.workers * placed.size.slots
    return NcclExpected(job.workers, ranks, pool.nccl_transport, pool.instance_type, pool.line_rate_gbps)


def parse_nccl_reports(log: str) -> list[NetworkReport]:
    """Parse the ranks' reports from the launcher's log."""
    return _parse_json_lines(log, '{"nccl_rank"')


def _parse_json_lines(log: str, start: str) -> list[dict[str, Any]]:
    reports: list[dict[str, Any]] = []
    for line in log.splitlines():
        if line.startswith(start):
            try:
                reports.append(json.loads(line))
            except ValueError:
                continue
    return reports
