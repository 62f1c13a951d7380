"""The GPUs of a local node, which localcloud/tools/nvml presents to NVIDIA's programs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from localcloud.kubernetes.nodes import kernel_log
from localcloud.kubernetes.nodes.finding import RunningNode
from localcloud.kubernetes.nodes.machine import Machine

FOLDER: Final = Path("var/lib/kubelet/device-plugins/gpumpi")
"""Folder on the node with the files that describe its GPUs. It is a subfolder of device-plugins, because a kubelet
deletes all files directly in device-plugins when it starts."""
OF_EXPORTERS: Final = Path("var/lib/kubelet/pod-resources/gpumpi")
"""Folder with the same files for exporters, which mount only pod-resources."""
GPUS_FILE: Final = "gpus"
XIDS_FILE: Final = "xids"
"""File with one GPU fault per line: the index of the GPU and the Xid. Appending a line breaks a GPU."""

CAPABILITIES: Final = {
    "V100": "7.0",
    **{"T4": "7.5", "T4g": "7.5"},
    "A100": "8.0",
    "A10G": "8.6",
    **{"L4": "8.9", "L40S": "8.9"},
    **{"H100": "9.0", "H200": "9.0"},
    **{"B200": "10.0", "B300": "10.3"},
}
"""Maps EC2's name for a GPU to its CUDA compute capability: https://developer.nvidia.com/cuda-gpus"""
UNKNOWN_CAPABILITY: Final = "0.0"


def list_gpu_uuids(machine: Machine) -> list[str]:
    """Return the UUIDs of the node's NVIDIA GPUs. A GPU keeps its UUID as long as its instance exists."""
    gpus = machine.type.gpus if machine.type.has_nvidia_gpus else 0
    return [f"GPU-{uuid5(NAMESPACE_URL, f'{machine.id}/{index}')}" for index in range(gpus)]


def format_gpus_file(machine: Machine) -> str:
    """Return the contents of GPUS_FILE. localcloud/tools/nvml/nvml.c documents its format."""
    name = machine.type.gpu_name or ""
    rest = f"{machine.type.gpu_memory_mib} {CAPABILITIES.get(name, UNKNOWN_CAPABILITY)} NVIDIA {name}"
    return "".join(f"{uuid} 00000000:{0x10 + index:02x}:00.0 {rest}\n" for index, uuid in enumerate(list_gpu_uuids(machine)))


def write_gpu_files(machine: Machine, folder: Path) -> None:
    """Write the files that a node's NVML library reads. Write no files for a node without GPUs, so that NVML cannot be
    initialized there.
    """
    if text := format_gpus_file(machine):
        (folder / GPUS_FILE).write_text(text)
        (folder / XIDS_FILE).touch()


def share_with_exporters(own: Path) -> None:
    """Make the files in `FOLDER` of a node's file system visible to exporters, too."""
    folder = own / OF_EXPORTERS
    folder.mkdir(parents=True)
    for name in (GPUS_FILE, XIDS_FILE):
        if (own / FOLDER / name).exists():
            (folder / name).hardlink_to(own / FOLDER / name)


class NoSuchGpu(Exception):
    """The node has no such GPU. The message lists the existing GPUs."""


def break_gpu(node: RunningNode, index: int, xid: int) -> str:
    """Make a GPU of a node report an Xid, in NVML and in the kernel log, and return its UUID. Raises NoSuchGpu."""
    described = node.own / FOLDER / GPUS_FILE
    gpus = described.read_text().splitlines() if described.exists() else []
    if not 0 <= index < len(gpus):
        has = f"GPUs 0 to {len(gpus) - 1}" if gpus else "no GPUs"
        raise NoSuchGpu(f"{node.name}: no GPU {index}; the node has {has}")
    uuid, address, *_ = gpus[index].split()
    with (node.own / FOLDER / XIDS_FILE).open("a") as file:
        file.write(f"{index} {xid}\n")
    kernel_log.append_message(node.own, node.name, kernel_log.format_xid_line(address, xid), datetime.now(UTC))
    return uuid
