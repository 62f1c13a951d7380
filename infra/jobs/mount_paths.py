"""Where a volume may be mounted in pods and on nodes."""

import re

SYSTEM_FOLDERS = frozenset(
    {
        *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr"),
        *("/var/lib/kubelet", "/var/run"),
    }
)
"""A volume over these hides what programs, the container runtime or the kernel need."""
_PLAIN = re.compile(r"(/[A-Za-z0-9_.-]+)+/?")


def problem_of(path: str) -> str | None:
    """What is wrong with a path as a mount point; None if nothing is."""
    if not _PLAIN.fullmatch(path) or any(part in (".", "..") for part in path.split("/")):
        return "is not an absolute path of letters, digits and . _ -"
    if any(f"{path}/".startswith(f"{folder}/") for folder in SYSTEM_FOLDERS):
        return "is a system folder"
    return None
