"""How MPI starts ranks: the hostfile, the environment of each MPI implementation, and the command line.

Open MPI 4 reads OMPI_MCA_*. Open MPI 5 starts ranks through PRRTE, which reads PRTE_MCA_* and silently ignores the old
names. If only the old names are set, every rank runs on the launcher
(https://github.com/kubeflow/mpi-operator/issues/842). This module always sets both names, so images may contain either
version."""

from collections.abc import Mapping, Sequence
from typing import Final

from infra.jobs import rank_environment, starters
from infra.jobs.cluster import PoolDescription, Transport
from infra.jobs.in_pods import build_shell_command
from infra.jobs.model import Job, MpiImplementation

SSH_PORT: Final = 2222
"""Unprivileged port."""
HOSTFILE_DIRECTORY: Final = "/etc/mpi"
HOSTFILE: Final = f"{HOSTFILE_DIRECTORY}/hostfile"
"""Path of the hostfile in the launcher. mpi-operator uses the same path."""

# --- hosts -------------------------------------------------------------------------------------------------------------


def worker_name(job: str, number: int) -> str:
    return f"{job}-worker-{number}"


def host_name(job: str, namespace: str, number: int) -> str:
    """Return a worker's DNS name without the cluster domain, in the format that mpi-operator uses."""
    return f"{worker_name(job, number)}.{job}.{namespace}.svc"


def format_host_line(host: str, slots: int, implementation: MpiImplementation = "OpenMPI") -> str:
    """Return a line of the hostfile.

    >>> format_host_line("a", 8), format_host_line("a", 8, "Intel")
    ('a slots=8', 'a:8')
    """
    return f"{host} slots={slots}" if implementation == "OpenMPI" else f"{host}:{slots}"


def format_hostfile(hosts: Sequence[str], slots: int, implementation: MpiImplementation = "OpenMPI") -> str:
    return "".join(f"{format_host_line(host, slots, implementation)}\n" for host in hosts)


# --- environment -------------------------------------------------------------------------------------------------------


def build_launcher_variables(
    implementation: MpiImplementation, slots: int, transport: Transport, *, shared_cpus: bool
) -> dict[str, str]:
    """Return the launcher's environment variables."""
    match implementation:
        case "OpenMPI":
            return {
                **_build_open_mpi_variables(slots),
                **_build_transport_variables(transport),
                **(_YIELD if shared_cpus else {}),
            }
        case "Intel":
            return _build_intel_mpi_variables(slots)
        case "MPICH":
            return _build_mpich_variables()


def build_rank_variables(implementation: MpiImplementation, pool: PoolDescription) -> Mapping[str, str]:
    """Return additional environment variables for the ranks, which the launcher must forward by name."""
    common, transport = rank_environment.build_variables(pool), pool.transport
    match implementation:
        case "OpenMPI":  # Open MPI forwards its own variables
            return {**common, **(_UCX_WITHOUT_TCP if transport == "infiniband" else {})}
        case "Intel":
            provider = "mlx" if transport == "infiniband" else transport
            return {**common, "I_MPI_FABRICS": "shm:ofi", "I_MPI_OFI_PROVIDER": provider, "I_MPI_PIN": "off"}
        case "MPICH":
            return {**common, "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": transport}


_SYSTEMS: Final = ("OMPI", "PRTE")
"""Prefixes of the parameters of Open MPI 4 and 5."""


def _build_open_mpi_variables(slots: int) -> dict[str, str]:
    values = {  # names in Open MPI 4 and 5
        ("orte_default_hostfile", "prte_default_hostfile"): HOSTFILE,
        ("orte_keep_fqdn_hostnames", "prte_keep_fqdn_hostnames"): "true",
        ("orte_set_default_slots", "prte_set_default_slots"): str(slots),
        # Disable core binding, because pods may share a node and cannot see which cores other pods have bound.
        ("hwloc_base_binding_policy", "hwloc_default_binding_policy"): "none",
    }
    # A lost node does not close its connections; only keepalives detect the loss.
    keepalive = {"oob_tcp_keepalive_time": "5", "oob_tcp_keepalive_intvl": "5", "oob_tcp_keepalive_probes": "3"}
    return {
        **{
            f"{system}_MCA_{name}": value for names, value in values.items() for system, name in zip(_SYSTEMS, names, strict=True)
        },
        **{f"{system}_MCA_{name}": value for system in _SYSTEMS for name, value in keepalive.items()},
    }


_YIELD: Final = {"OMPI_MCA_mpi_yield_when_idle": "true"}
"""Ranks that share cores must yield, because a polling rank starves the others."""


_COPIED_TWICE: Final = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
"""For ranks in the same pod: the pod's seccomp profile forbids reading another process's memory. Without this option,
Open MPI 4 tries to read such memory, logs each failure, and falls back to the mechanism that this option selects:
https://github.com/open-mpi/ompi/issues/4948"""


_UCX_WITHOUT_TCP: Final = {"UCX_TLS": "^tcp"}
"""UCX may use every transport except TCP; pml ucx alone would still accept TCP. NOT VERIFIED on hardware (2026-11-23).
https://openucx.readthedocs.io/en/master/faq.html#which-transports-does-ucx-use"""


def _build_transport_variables(transport: Transport) -> dict[str, str]:
    """Select exactly one transport, so that MPI fails instead of silently falling back. Open MPI 5 renamed `vader` to
    `sm` and accepts both names.

    https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/ofi.html
    https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/ib-and-roce.html
    """
    if transport == "efa":
        return {"OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi", "OMPI_MCA_mtl_ofi_provider_include": "efa"}
    if transport == "infiniband":
        return {"OMPI_MCA_pml": "ucx", "OMPI_MCA_btl": "^tcp,openib"}
    return {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader,tcp", **_COPIED_TWICE}


def _build_intel_mpi_variables(slots: int) -> dict[str, str]:
    """https://www.intel.com/content/www/us/en/docs/mpi-library/developer-reference-linux/2021-13/hydra-environment-variables.html"""
    return {
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_HOST_FILE": HOSTFILE,
        "I_MPI_HYDRA_IFACE": rank_environment.INTERFACE,
        "I_MPI_PERHOST": str(slots),
    }


def _build_mpich_variables() -> dict[str, str]:
    """https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md"""
    return {"HYDRA_LAUNCHER": "ssh", "HYDRA_HOST_FILE": HOSTFILE, "HYDRA_IFACE": rank_environment.INTERFACE}


# --- command line ------------------------------------------------------------------------------------------------------


def build_launch_command(job: Job, namespace: str, slots: int, forwarded: Sequence[str]) -> list[str]:
    """Return a command such as `mpirun -np 16 ... program`. Commands that start ranks themselves stay unchanged."""
    if job.starts_ranks_itself:
        return list(job.command)
    if job.needs_horovodrun_options:
        return _build_horovodrun_command(job, namespace, slots)
    names = [host_name(job.name, namespace, number) for number in job.hosts or ()]
    # Open MPI rejects `-np` with `-npersocket` unless it matches the number of sockets, which is known only on the node.
    number = [] if job.per_socket is not None and job.ranks is None else ["-np", str(count_ranks(job, slots))]
    head = ["mpirun", *number]
    if job.mpi_implementation == "OpenMPI":
        return [*head, *_build_open_mpi_options(job, slots, names, forwarded), *build_shell_command("rank.sh", *job.command)]
    return [*head, *_build_hydra_options(job, slots, names, forwarded), *build_shell_command("rank.sh", *job.command)]


def count_ranks(job: Job, slots: int) -> int:
    """Return the total number of ranks: `ranks` if set, otherwise all slots that the job may use. `perSocket` can
    reduce the number of ranks."""
    hosts = job.workers if job.hosts is None else len(job.hosts)
    return job.ranks or hosts * (job.per_node or slots)


def _build_horovodrun_command(job: Job, namespace: str, slots: int) -> list[str]:
    """Add options to a horovodrun command. horovodrun checks each host over SSH, then runs `mpirun` and passes on its
    entire environment. With `--disable-cache`, horovodrun writes no cache to the home directory."""
    numbers = range(job.workers) if job.hosts is None else job.hosts
    hosts = ",".join(f"{host_name(job.name, namespace, number)}:{job.per_node or slots}" for number in numbers)
    options = ["--ssh-port", str(SSH_PORT), "--network-interfaces", rank_environment.INTERFACE, "--disable-cache"]
    program = starters.count_prefix_words(job.command) + 1
    return [*job.command[:program], "-np", str(count_ranks(job, slots)), "-H", hosts, *options, *job.command[program:]]


def _build_open_mpi_options(job: Job, slots: int, hosts: Sequence[str], forwarded: Sequence[str]) -> list[str]:
    options = ["--tag-output"] if job.rank_prefix else []
    if job.per_node is not None:
        options += ["--map-by", f"ppr:{job.per_node}:node"]
    if job.per_socket is not None:
        options += ["-npersocket", str(job.per_socket)]
    if hosts:
        options += ["--host", ",".join(f"{host}:{slots}" for host in hosts)]
    return [*options, *(part for name in forwarded for part in ("-x", name))]


def _build_hydra_options(job: Job, slots: int, hosts: Sequence[str], forwarded: Sequence[str]) -> list[str]:
    options = ["-prepend-rank"] if job.rank_prefix else []
    if job.mpi_implementation == "Intel" or job.per_node is not None:
        options += ["-ppn", str(job.per_node or slots)]
    if hosts:
        options += ["-hosts", ",".join(hosts if job.mpi_implementation == "Intel" else (f"{host}:{slots}" for host in hosts))]
    if forwarded:
        options += ["-genvlist", ",".join(forwarded)]
    return options
