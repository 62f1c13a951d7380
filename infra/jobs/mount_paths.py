"""Validation of mount paths in pods and on nodes."""

import re
from typing import Final

SYSTEM_FOLDERS = frozenset(
    {
        *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/snap", "/sys"),
        *("/usr", "/var/lib/containerd", "/var/lib/kubelet", "/var/run"),
    }
)
"""A volume mounted at one of these paths would hide files that programs, the container runtime or the kernel need. On
Ubuntu, the SSM agent is in /snap."""
OUR_FOLDERS: Final = ("/gpumpi", "/keys")
"""Folders that pods of jobs mount (`infra.jobs.bucket_workdir`, `infra.jobs.key_exchange`)."""
_SOFTWARE = re.compile(
    r"/opt(/(amazon|aws|cni|conda|containerd|dlami|gdrcopy|gpumpi|hpcx|intel|mpi|nccl-tests|nvidia|ucx|venv"
    r"|(cuda|mpich|openmpi)[^/]*)(/.*)?)?"
)
"""/opt and the folders in /opt that AMIs, AWS's and NVIDIA's images, and the provisioners in amis/ install into."""
_PLAIN = re.compile(r"(/[A-Za-z0-9_.-]+)+/?")


def problem_of(path: str) -> str | None:
    """Return what is wrong with a mount path; None if it is valid."""
    if not _PLAIN.fullmatch(path) or any(part in (".", "..") for part in path.split("/")):
        return "is not an absolute path made of letters, digits and . _ -"
    if any(contains(folder, path) for folder in SYSTEM_FOLDERS):
        return "is a system directory"
    if hidden := sorted(folder for folder in SYSTEM_FOLDERS if contains(path, folder)):
        return f"would hide {hidden[0]}"
    if _SOFTWARE.fullmatch(path.rstrip("/")):
        return "would hide programs of the AMI or image, such as Open MPI"
    if any(contains(folder, path) for folder in OUR_FOLDERS):
        return "is used by the pods of jobs"
    return None


def problem_of_home(path: str, home: str) -> str | None:
    """Return why a mount path breaks logins to a home directory: the volume would hide the home, or the SSH server's
    files in it. None if it does not."""
    if contains(path, home):
        return f"would hide the home directory {home}"
    if path.startswith(f"{home}/.ssh"):  # also .sshd_config
        return f"would hide the SSH configuration in {home}"
    return None


def contains(folder: str, path: str) -> bool:
    """Return whether a path is the folder or below it.

    >>> contains("/opt", "/opt/mpi/"), contains("/opt", "/optional")
    (True, False)
    """
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
