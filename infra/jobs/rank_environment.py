"""Environment variables of all ranks: NCCL's network, the libraries' cache folders, and what only launchers may set."""

import re
from collections.abc import Mapping
from typing import Final

from infra.jobs.cluster import PoolDescription

MASTER_PORT: Final = 29500
"""Port of PyTorch's rendezvous, on the pod of rank 0."""
STOP_SIGNAL: Final = "GPUMPI_STOP_SIGNAL"
INTERFACE: Final = "eth0"
"""Name of a pod's network interface, the same with every network plugin."""

CACHE_FOLDER: Final = "/tmp/.cache"
CACHES: Final[Mapping[str, str]] = {
    "XDG_CACHE_HOME": CACHE_FOLDER,
    "HF_HOME": f"{CACHE_FOLDER}/huggingface",
    "TRITON_CACHE_DIR": f"{CACHE_FOLDER}/triton",
    "CUDA_CACHE_PATH": f"{CACHE_FOLDER}/cuda",
    "MPLCONFIGDIR": f"{CACHE_FOLDER}/matplotlib",
}
"""Cache folders outside the home directory, which is read-only in a pod:
https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables
https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables
https://matplotlib.org/stable/install/environment_variables_faq.html"""

_SOCKETS: Final[Mapping[str, str]] = {
    # Keep NCCL's bootstrap and socket traffic off the interfaces of containers, of Amazon's VPC CNI (eni*) and Pod
    # Identity (pod-id-link0). https://github.com/aws-samples/aws-do-eks/issues/54
    "NCCL_SOCKET_IFNAME": "^lo,docker,veth,eni,pod-id-link",
    # Pods are not permitted to bind memory to NUMA nodes. If NCCL detects this in some ranks but not in others, the
    # ranks use different paths and fail: https://github.com/NVIDIA/nccl/issues/2190
    "NCCL_CUMEM_HOST_ENABLE": "0",
}


def build_variables(pool: PoolDescription) -> dict[str, str]:
    """Return the variables of ranks on this pool. Users may override each of them in `env`."""
    return {**_SOCKETS, **_build_nccl_variables(pool), **CACHES}


def _build_nccl_variables(pool: PoolDescription) -> dict[str, str]:
    """Set NCCL's network explicitly, so that NCCL fails instead of silently falling back to TCP.

    `Libfabric` is the name of the aws-ofi-nccl plugin: nccl_ofi_interface_nvidia.cpp in
    https://github.com/aws/aws-ofi-nccl. `IB` is the name of NCCL's own network for InfiniBand and RoCE: ncclNetIb in
    https://github.com/NVIDIA/nccl (NOT VERIFIED on hardware, 2026-11-23). A pool without EFA, InfiniBand and RoCE has
    only one network, so nothing is set.
    """
    if pool.nccl_transport == "infiniband":
        return {"NCCL_NET": "IB"}
    if not pool.efa:
        return {}
    return {"NCCL_NET": "Libfabric" if pool.nccl_transport == "efa" else "Socket"}


_RESERVED: Final = re.compile(
    r"HOME|HOSTNAME|K_MPI_JOB_ROLE|GPUMPI_.*"
    r"|OMPI_MCA_(orte|plm|oob|ess|prte)_.*|PRTE_.*|PMIX_.*|OMPI_COMM_WORLD_.*|PMI_.*"
    r"|HYDRA_.*|I_MPI_(HYDRA_.*|PERHOST)|MPI_LOCAL.*"
    r"|(GROUP_|ROLE_)(RANK|WORLD_SIZE)|NNODES|NODE_RANK|NPROC_PER_NODE|PET_.*|JOB_COMPLETION_INDEX"
    r"|NVIDIA_VISIBLE_DEVICES|KUBERNETES_.*"
)


def is_reserved_variable(name: str) -> bool:
    """True if a launcher uses this variable to place or identify ranks.

    Users may still set how ranks communicate (`OMPI_MCA_pml`, `NCCL_...`).
    """
    return _RESERVED.fullmatch(name) is not None
