"""Checks whether this machine can run real Kubernetes nodes, and reports what is missing."""

import os
from dataclasses import dataclass
from pathlib import Path

from localcloud.machine import capability

GROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
"""cgroup controllers that the kubelet and runc need: https://kubernetes.io/docs/concepts/architecture/cgroups/"""


@dataclass(frozen=True)
class Capability:
    """Result of the check. `missing` lists the reasons why real nodes cannot run here; empty if they can."""

    missing: tuple[str, ...]

    @property
    def real_nodes(self) -> bool:
        """True if nodes can run kubelets and containers. Otherwise, a cluster consists of a control plane and simulated
        nodes."""
        return not self.missing

    def __str__(self) -> str:
        if self.real_nodes:
            return "this machine can run Kubernetes with real nodes"
        return f"this machine can run Kubernetes only with simulated nodes, which cannot run jobs: {'; '.join(self.missing)}"


def check_machine() -> Capability:
    """Check this machine without changing it."""
    uses = "each node has its own network namespace, mounts and cgroups"
    return Capability(capability.find_obstacles("real nodes", uses, _check_programs, capability.check_namespaces, _check_cgroups))


def _check_programs() -> str:
    return capability.check_programs("nsenter", "unshare", "mount")


def _check_cgroups() -> str:
    if (GROUPS / "cgroup.controllers").exists():
        offered = (GROUPS / "cgroup.controllers").read_text().split()
    else:
        offered = [path.name for path in GROUPS.iterdir()] if GROUPS.is_dir() else []
    missing = [name for name in CONTROLLERS if name not in offered]
    if missing:
        return f"the cgroup controllers {', '.join(missing)} are missing below {GROUPS}"
    first = GROUPS if (GROUPS / "cgroup.controllers").exists() else GROUPS / CONTROLLERS[0]
    return "" if os.access(first, os.W_OK) and not _is_read_only(first) else f"{first} is read-only"


def _is_read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
