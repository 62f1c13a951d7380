"""Environment variables for each MPI implementation: the ranks' hosts, how to connect to them, and the transport.

Open MPI 4 reads OMPI_MCA_*. Open MPI 5 starts ranks through PRRTE, which reads PRTE_MCA_* and silently ignores the old
names. If only the old names are set, every rank runs on the launcher
(https://github.com/kubeflow/mpi-operator/issues/842). This module always sets both names, so images may contain either
version."""

import re
from collections.abc import Mapping
from typing import Final

from infra.jobs import hostfile, rank_environment
from infra.jobs.cluster import PoolDescription, Transport
from infra.jobs.model import MpiImplementation

INTERFACE: Final = "eth0"
"""Name of a pod's network interface, the same with every network plugin."""


def of_launcher(implementation: MpiImplementation, slots: int, transport: Transport, *, shared_cpus: bool) -> dict[str, str]:
    """Return the launcher's environment variables."""
    match implementation:
        case "OpenMPI":
            return {**_open_mpi(slots), **_open_mpi_transport(transport), **(_YIELD if shared_cpus else {})}
        case "Intel":
            return _intel(slots)
        case "MPICH":
            return _mpich()


def of_ranks(implementation: MpiImplementation, pool: PoolDescription) -> Mapping[str, str]:
    """Return additional environment variables for the ranks, which the launcher must forward by name."""
    common, transport = rank_environment.of_ranks(pool), pool.transport
    match implementation:
        case "OpenMPI":  # Open MPI forwards its own variables
            return {**common, **(_UCX_WITHOUT_TCP if transport == "infiniband" else {})}
        case "Intel":
            provider = "mlx" if transport == "infiniband" else transport
            return {**common, "I_MPI_FABRICS": "shm:ofi", "I_MPI_OFI_PROVIDER": provider, "I_MPI_PIN": "off"}
        case "MPICH":
            return {**common, "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": transport}


def _open_mpi(slots: int) -> dict[str, str]:
    return {
        "OMPI_MCA_orte_default_hostfile": hostfile.PATH,
        "PRTE_MCA_prte_default_hostfile": hostfile.PATH,
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": str(slots),
        "PRTE_MCA_prte_set_default_slots": str(slots),
        # Disable core binding, because pods may share a node and cannot see which cores other pods have bound.
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        # A lost node does not close its connections; only keepalives detect the loss.
        "OMPI_MCA_oob_tcp_keepalive_time": "5",
        "OMPI_MCA_oob_tcp_keepalive_intvl": "5",
        "OMPI_MCA_oob_tcp_keepalive_probes": "3",
        "PRTE_MCA_oob_tcp_keepalive_time": "5",
        "PRTE_MCA_oob_tcp_keepalive_intvl": "5",
        "PRTE_MCA_oob_tcp_keepalive_probes": "3",
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


def _open_mpi_transport(transport: Transport) -> dict[str, str]:
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


def _intel(slots: int) -> dict[str, str]:
    """https://www.intel.com/content/www/us/en/docs/mpi-library/developer-reference-linux/2021-13/hydra-environment-variables.html"""
    return {
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_HOST_FILE": hostfile.PATH,
        "I_MPI_HYDRA_IFACE": INTERFACE,
        "I_MPI_PERHOST": str(slots),
    }


def _mpich() -> dict[str, str]:
    """https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md"""
    return {"HYDRA_LAUNCHER": "ssh", "HYDRA_HOST_FILE": hostfile.PATH, "HYDRA_IFACE": INTERFACE}


# --- reserved variables -------------------------------------------------------------------------------------------------

_RESERVED: Final = re.compile(
    r"HOME|HOSTNAME|K_MPI_JOB_ROLE|GPUMPI_.*"
    r"|OMPI_MCA_(orte|plm|oob|ess|prte)_.*|PRTE_.*|PMIX_.*|OMPI_COMM_WORLD_.*|PMI_.*"
    r"|HYDRA_.*|I_MPI_(HYDRA_.*|PERHOST)|MPI_LOCAL.*"
    r"|(GROUP_|ROLE_)(RANK|WORLD_SIZE)|NNODES|NODE_RANK|NPROC_PER_NODE|PET_.*|JOB_COMPLETION_INDEX"
    r"|NVIDIA_VISIBLE_DEVICES|KUBERNETES_.*"
)


def is_reserved(name: str) -> bool:
    """True if a launcher uses this variable to place or identify ranks.

    Users may still set how ranks communicate (`OMPI_MCA_pml`, `NCCL_...`).
    """
    return _RESERVED.fullmatch(name) is not None
