"""What each MPI must be told by its environment: where ranks may run, how they are reached, what carries their messages.

Open MPI 4 reads OMPI_MCA_*; Open MPI 5 starts ranks through PRRTE, which reads PRTE_MCA_* and ignores the old names without a
word: with those alone every rank runs on the launcher (https://github.com/kubeflow/mpi-operator/issues/842). Both are always
set, so that the image alone decides which Open MPI it is.
"""

import re
from collections.abc import Mapping
from typing import Final

from infra.jobs import hostfile
from infra.jobs.cluster import Transport
from infra.jobs.model import MpiImplementation

INTERFACE: Final = "eth0"
"""Every network plugin gives a pod its interface under this name."""

NCCL: Final[Mapping[str, str]] = {"NCCL_SOCKET_IFNAME": "^lo,docker,veth"}
"""NCCL takes no interface of the node's own: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"""


def of_launcher(implementation: MpiImplementation, slots: int, transport: Transport, *, shared_cpus: bool) -> dict[str, str]:
    """What the launcher itself needs."""
    match implementation:
        case "OpenMPI":
            return {**_open_mpi(slots), **_open_mpi_transport(transport), **(_YIELD if shared_cpus else {})}
        case "Intel":
            return _intel(slots)
        case "MPICH":
            return _mpich()


def of_ranks(implementation: MpiImplementation, transport: Transport) -> Mapping[str, str]:
    """What ranks need beside it; the launcher must hand it on by name."""
    match implementation:
        case "OpenMPI":  # hands its own variables on by itself
            return NCCL
        case "Intel":
            return {**NCCL, "I_MPI_FABRICS": "shm:ofi", "I_MPI_OFI_PROVIDER": transport, "I_MPI_PIN": "off"}
        case "MPICH":
            return {**NCCL, "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": transport}


def _open_mpi(slots: int) -> dict[str, str]:
    return {
        "OMPI_MCA_orte_default_hostfile": hostfile.PATH,
        "PRTE_MCA_prte_default_hostfile": hostfile.PATH,
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": str(slots),
        "PRTE_MCA_prte_set_default_slots": str(slots),
        # Pods may share a node, and none knows which cores another one has bound
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        # A node that vanishes closes no connection
        "OMPI_MCA_oob_tcp_keepalive_time": "5",
        "OMPI_MCA_oob_tcp_keepalive_intvl": "5",
        "OMPI_MCA_oob_tcp_keepalive_probes": "3",
        "PRTE_MCA_oob_tcp_keepalive_time": "5",
        "PRTE_MCA_oob_tcp_keepalive_intvl": "5",
        "PRTE_MCA_oob_tcp_keepalive_probes": "3",
    }


_YIELD: Final = {"OMPI_MCA_mpi_yield_when_idle": "true"}
"""Where ranks have no core of their own, one that polls keeps its neighbour from answering."""


_COPIED_TWICE: Final = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
"""Between ranks of a pod. Reading another process's memory is forbidden by a container's seccomp profile; Open MPI 4 tries it all
the same, tells of each failure and does then what this says at once: https://github.com/open-mpi/ompi/issues/4948"""


def _open_mpi_transport(transport: Transport) -> dict[str, str]:
    """One way or an error, never a silent fallback. `vader` is what Open MPI 5 calls `sm`; it knows both names.

    https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/ofi.html
    """
    if transport == "efa":
        return {"OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi", "OMPI_MCA_mtl_ofi_provider_include": "efa"}
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


# --- what is not the user's to set --------------------------------------------------------------------------------------

_RESERVED: Final = re.compile(
    r"HOME|HOSTNAME|K_MPI_JOB_ROLE|GPUMPI_.*"
    r"|OMPI_MCA_(orte|plm|oob|ess|prte)_.*|PRTE_.*|PMIX_.*|OMPI_COMM_WORLD_.*|PMI_.*"
    r"|HYDRA_.*|I_MPI_(HYDRA_.*|PERHOST)|MPI_LOCAL.*"
    r"|MASTER_(ADDR|PORT)|(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|NNODES|NODE_RANK|PET_.*|JOB_COMPLETION_INDEX"
    r"|NVIDIA_VISIBLE_DEVICES|KUBERNETES_.*"
)


def is_reserved(name: str) -> bool:
    """Whether a launcher decides by this variable where ranks run or who they are.

    How they talk (`OMPI_MCA_pml`, `NCCL_...`) is the user's to change.
    """
    return _RESERVED.fullmatch(name) is not None
