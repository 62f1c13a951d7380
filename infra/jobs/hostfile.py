"""Hostfiles with hosts and slots, in the format of each MPI implementation."""

from collections.abc import Sequence
from typing import Final

from infra.jobs.model import MpiImplementation

DIRECTORY: Final = "/etc/mpi"
PATH: Final = f"{DIRECTORY}/hostfile"
"""Path of the hostfile in the launcher. mpi-operator uses the same path."""


def worker_name(job: str, number: int) -> str:
    return f"{job}-worker-{number}"


def host(job: str, namespace: str, number: int) -> str:
    """Return a worker's DNS name without the cluster domain, in the format that mpi-operator uses."""
    return f"{worker_name(job, number)}.{job}.{namespace}.svc"


def line(host: str, slots: int, implementation: MpiImplementation = "OpenMPI") -> str:
    """
    >>> line("a", 8), line("a", 8, "Intel")
    ('a slots=8', 'a:8')
    """
    return f"{host} slots={slots}" if implementation == "OpenMPI" else f"{host}:{slots}"


def hostfile(hosts: Sequence[str], slots: int, implementation: MpiImplementation = "OpenMPI") -> str:
    return "".join(f"{line(host, slots, implementation)}\n" for host in hosts)
