"""Command line that the launcher uses to start the ranks."""

from collections.abc import Sequence

from infra.jobs import hostfile, starters
from infra.jobs.in_pods import shell
from infra.jobs.model import Job
from infra.jobs.mpi_environment import INTERFACE
from infra.jobs.pods import SSH_PORT


def mpirun(job: Job, namespace: str, slots: int, forwarded: Sequence[str]) -> list[str]:
    """Return a command such as `mpirun -np 16 ... program`. Commands that start ranks themselves stay unchanged."""
    if job.starts_ranks_itself:
        return list(job.command)
    if job.needs_horovodrun_options:
        return _horovodrun(job, namespace, slots)
    names = [hostfile.host(job.name, namespace, number) for number in job.hosts or ()]
    # Open MPI rejects `-np` with `-npersocket` unless it matches the number of sockets, which is known only on the node.
    number = [] if job.per_socket is not None and job.ranks is None else ["-np", str(ranks(job, slots))]
    head = ["mpirun", *number]
    if job.mpi_implementation == "OpenMPI":
        return [*head, *_open_mpi(job, slots, names, forwarded), *shell("rank.sh", *job.command)]
    return [*head, *_hydra(job, slots, names, forwarded), *shell("rank.sh", *job.command)]


def ranks(job: Job, slots: int) -> int:
    """Return the total number of ranks: `ranks` if set, otherwise all slots that the job may use. `perSocket` can
    reduce this number."""
    hosts = job.workers if job.hosts is None else len(job.hosts)
    return job.ranks or hosts * (job.per_node or slots)


def _horovodrun(job: Job, namespace: str, slots: int) -> list[str]:
    """Add options to a horovodrun command. horovodrun checks each host over SSH, then runs `mpirun` and passes on its
    entire environment. With `--disable-cache`, horovodrun writes no cache to the home directory."""
    numbers = range(job.workers) if job.hosts is None else job.hosts
    hosts = ",".join(f"{hostfile.host(job.name, namespace, number)}:{job.per_node or slots}" for number in numbers)
    options = ["--ssh-port", str(SSH_PORT), "--network-interfaces", INTERFACE, "--disable-cache"]
    program = starters.prefix_length(job.command) + 1
    return [*job.command[:program], "-np", str(ranks(job, slots)), "-H", hosts, *options, *job.command[program:]]


def _open_mpi(job: Job, slots: int, hosts: Sequence[str], forwarded: Sequence[str]) -> list[str]:
    options = ["--tag-output"] if job.rank_prefix else []
    if job.per_node is not None:
        options += ["--map-by", f"ppr:{job.per_node}:node"]
    if job.per_socket is not None:
        options += ["-npersocket", str(job.per_socket)]
    if hosts:
        options += ["--host", ",".join(f"{host}:{slots}" for host in hosts)]
    return [*options, *(part for name in forwarded for part in ("-x", name))]


def _hydra(job: Job, slots: int, hosts: Sequence[str], forwarded: Sequence[str]) -> list[str]:
    options = ["-prepend-rank"] if job.rank_prefix else []
    if job.mpi_implementation == "Intel" or job.per_node is not None:
        options += ["-ppn", str(job.per_node or slots)]
    if hosts:
        options += ["-hosts", ",".join(hosts if job.mpi_implementation == "Intel" else (f"{host}:{slots}" for host in hosts))]
    if forwarded:
        options += ["-genvlist", ",".join(forwarded)]
    return options
