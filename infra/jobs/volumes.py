"""Volumes of a job: what its pods mount, and which mount paths are valid, in pods and on nodes."""

import re
from collections.abc import Sequence
from typing import Any, Final

from infra.jobs.cluster import NamespaceDescription
from infra.jobs.model import Job, Mount
from infra.naming import PROJECT

SYSTEM_FOLDERS = frozenset(
    {
        *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/snap", "/sys"),
        *("/usr", "/var/lib/containerd", "/var/lib/kubelet", "/var/run"),
    }
)
"""A volume mounted at one of these paths would hide files that programs, the container runtime or the kernel need. On
Ubuntu, the SSM agent is in /snap."""
OUR_FOLDERS: Final = ("/gpumpi", "/keys")
"""Folders that the pods of jobs mount (`infra.jobs.storage`, `infra.jobs.key_exchange`)."""
_SOFTWARE = re.compile(
    r"/opt(/(amazon|aws|cni|conda|containerd|dlami|gdrcopy|gpumpi|hpcx|intel|mpi|nccl-tests|nvidia|ucx|venv"
    r"|(cuda|mpich|openmpi)[^/]*)(/.*)?)?"
)
"""/opt, and the folders in /opt where AMIs, images of AWS and NVIDIA, and the provisioners in amis/ install software."""
_PLAIN = re.compile(r"(/[A-Za-z0-9_.-]+)+/?")


# --- mounts ------------------------------------------------------------------------------------------------------------


def list_mounts(job: Job, namespace: NamespaceDescription) -> Sequence[Mount]:
    """Return the job's mounts; by default all volumes of the namespace."""
    if job.volumes is not None:
        return job.volumes
    return [Mount(name=volume.name) for volume in namespace.volumes]


def find_writable_path(job: Job, namespace: NamespaceDescription) -> str | None:
    """Return the mount path of the job's first writable volume; None if it has none."""
    return next(iter(list_writable_paths(job, namespace)), None)


def list_writable_paths(job: Job, namespace: NamespaceDescription) -> list[str]:
    """Return the mount paths of the job's writable volumes."""
    writable = (mount for mount in list_mounts(job, namespace) if not mount.read_only)
    return [path for mount in writable if (path := find_mount_path(mount, namespace))]


def list_writable_shared_mounts(job: Job, namespace: NamespaceDescription) -> tuple[Mount, ...]:
    """Return the cluster's volumes that the job mounts as writable."""
    shared = {volume.name for volume in namespace.volumes}
    return tuple(mount for mount in list_mounts(job, namespace) if mount.name in shared and not mount.read_only)


def find_mount_path(mount: Mount, namespace: NamespaceDescription) -> str:
    """Return where the job mounts a volume; empty if neither the job nor the cluster sets a path."""
    default = next((volume.mount_path for volume in namespace.volumes if volume.name == mount.name), "")
    return mount.mount_path or default


def build_pod_volumes(job: Job, namespace: NamespaceDescription) -> list[dict[str, Any]]:
    """Return the volumes of a pod."""
    claims = dict.fromkeys(_find_claim_name(mount, namespace) for mount in list_mounts(job, namespace))
    return [{"name": _build_volume_name(claim), "persistentVolumeClaim": {"claimName": claim}} for claim in claims]


def build_container_mounts(job: Job, namespace: NamespaceDescription) -> list[dict[str, Any]]:
    """Return the mounts of a container."""
    return [
        {
            "name": _build_volume_name(_find_claim_name(mount, namespace)),
            "mountPath": find_mount_path(mount, namespace),
            **({"readOnly": True} if mount.read_only else {}),
        }
        for mount in list_mounts(job, namespace)
    ]


def _find_claim_name(mount: Mount, namespace: NamespaceDescription) -> str:
    return next((volume.claim for volume in namespace.volumes if volume.name == mount.name), mount.name)


def _build_volume_name(claim: str) -> str:
    return f"{PROJECT}-{claim}"[:63].rstrip("-.").replace(".", "-")


# --- paths -------------------------------------------------------------------------------------------------------------


def find_path_problem(path: str) -> str | None:
    """Return what is wrong with a mount path; None if it is valid."""
    if not _PLAIN.fullmatch(path) or any(part in (".", "..") for part in path.split("/")):
        return "is not an absolute path made of letters, digits and . _ -"
    if any(contains_path(folder, path) for folder in SYSTEM_FOLDERS):
        return "is a system directory"
    if hidden := sorted(folder for folder in SYSTEM_FOLDERS if contains_path(path, folder)):
        return f"would hide {hidden[0]}"
    if _SOFTWARE.fullmatch(path.rstrip("/")):
        return "would hide programs of the AMI or image, such as Open MPI"
    if any(contains_path(folder, path) for folder in OUR_FOLDERS):
        return "is used by the pods of jobs"
    return None


def find_home_problem(path: str, home: str) -> str | None:
    """Return why a mount path breaks logins to a home directory: the volume would hide the home directory, or the SSH
    server's files in it. None if the mount path does not break logins."""
    if contains_path(path, home):
        return f"would hide the home directory {home}"
    if path.startswith(f"{home}/.ssh"):  # also .sshd_config
        return f"would hide the SSH configuration in {home}"
    return None


def contains_path(folder: str, path: str) -> bool:
    """Return whether a path is the folder or below it.

    >>> contains_path("/opt", "/opt/mpi/"), contains_path("/opt", "/optional")
    (True, False)
    """
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
