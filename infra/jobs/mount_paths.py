"""Validation of mount paths in pods and on nodes."""

import re

SYSTEM_FOLDERS = frozenset(
    {
        *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr"),
        *("/var/lib/kubelet", "/var/run"),
    }
)
"""A volume mounted at one of these paths would hide files that programs, the container runtime or the kernel need."""
_PLAIN = re.compile(r"(/[A-Za-z0-9_.-]+)+/?")


def problem_of(path: str) -> str | None:
    """Return what is wrong with a mount path; None if it is valid."""
    if not _PLAIN.fullmatch(path) or any(part in (".", "..") for part in path.split("/")):
        return "is not an absolute path made of letters, digits and . _ -"
    if any(f"{path}/".startswith(f"{folder}/") for folder in SYSTEM_FOLDERS):
        return "is a system directory"
    return None
