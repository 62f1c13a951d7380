"""Code shared by the launchers of MPI: a launcher pod runs `mpirun`, which starts ranks in workers over SSH."""

from abc import ABC
from collections.abc import Iterator
from typing import ClassVar

from infra.config.problems import Problem
from infra.jobs import mpi, rank_environment, starters
from infra.jobs.containers import (
    NO_PARTS,
    STARTED_SECONDS,
    PodParts,
    UserContainer,
    build_launcher_resources,
    build_worker_resources,
)
from infra.jobs.model import Job
from infra.jobs.mpi import host_name
from infra.jobs.placed import Launcher, PlacedJob, Role

LABEL_LIMIT = 63
SSH_PROBE = {
    "startupProbe": {
        "tcpSocket": {"port": mpi.SSH_PORT},
        "timeoutSeconds": 5,
        "periodSeconds": 1,
        "failureThreshold": STARTED_SECONDS,
    }
}
"""A worker is ready, and has a DNS name, once it accepts a connection.

There are no other probes: sshd starts a process for each connection, including probes, and the container terminates if
sshd exits. Without a readiness probe, a container is ready as soon as it has started. With a readiness probe, if the
kubelet started less than one probe period ago, the container is ready only after a random part of the period.
https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/
https://github.com/kubernetes/kubernetes/blob/v1.35.0/pkg/kubelet/prober/worker.go (run)"""


class MpiLauncher(Launcher, ABC):
    """A launcher pod and workers with sshd."""

    roles: ClassVar[tuple[Role, ...]] = ("launcher", "worker")
    uses_ssh: ClassVar[bool] = True

    def list_longest_names(self, job: Job) -> Iterator[tuple[str, int]]:
        yield max(mpi.worker_name(job.name, max(0, job.workers - 1)), f"{job.name}-launcher", key=len), LABEL_LIMIT

    def check(self, job: Job) -> Iterator[Problem]:
        if starter := starters.find_torch_starter(job.command):  # each rank would start all ranks again
            fix = "Set launcher: torchrun."
            yield Problem("command", f"starts {starter}, which launcher {self.name} would run once per rank. {fix}")
        if job.starts_ranks_itself:
            options = {"ranks": job.ranks, "perNode": job.per_node, "perSocket": job.per_socket, "hosts": job.hosts}
            for key in (key for key, value in options.items() if value is not None):
                fix = f"Set it in the command, or remove {starters.find_any_mpi_starter(job.command)} from the command."
                yield Problem(key, f"is ignored because the command starts ranks itself. {fix}")
        if job.rank_prefix and (job.starts_ranks_itself or job.needs_horovodrun_options):
            fix = "Remove it, or add --tag-output to the command."
            yield Problem("rankPrefix", f"has no effect, because the command starts the ranks. {fix}")


def build_launcher_container(placed: PlacedJob, parts: PodParts = NO_PARTS) -> UserContainer:
    """Return the container that waits for the workers' DNS names, then starts the ranks."""
    job, slots = placed.job, placed.size.slots
    shared_cpus = placed.cluster.cpu_request_factor < 1
    own = mpi.build_launcher_variables(job.mpi_implementation, slots, placed.pool.transport, shared_cpus=shared_cpus)
    ranks = _build_rank_variables(placed)
    forwarded = list(dict.fromkeys([*ranks, *job.env, *job.secret_env]))
    command = mpi.build_launch_command(job, placed.namespace.name, slots, forwarded)
    return UserContainer("launcher", "launch.sh", command, build_launcher_resources(placed), {**own, **ranks}, parts)


def build_worker_container(placed: PlacedJob, parts: PodParts = NO_PARTS) -> UserContainer:
    """Return the worker's container, which runs sshd. The launcher starts ranks over SSH."""
    signal = {rank_environment.STOP_SIGNAL: placed.job.checkpoint_signal.removeprefix("SIG")}
    return UserContainer(
        "worker",
        "serve.sh",
        [host_name(placed.name, placed.namespace.name, 0)],
        build_worker_resources(placed),
        {**_build_rank_variables(placed), **signal},
        parts,
        SSH_PROBE,
        ports=({"name": "ssh", "containerPort": mpi.SSH_PORT},),
    )


def _build_rank_variables(placed: PlacedJob) -> dict[str, str]:
    """Return the environment variables of the ranks. rank.sh adds those that differ from rank to rank."""
    job = placed.job
    return {
        **mpi.build_rank_variables(job.mpi_implementation, placed.pool),
        "MASTER_ADDR": host_name(job.name, placed.namespace.name, job.hosts[0] if job.hosts else 0),
        "MASTER_PORT": str(rank_environment.MASTER_PORT),
    }
