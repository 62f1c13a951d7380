"""What this machine can do for a local Kubernetes, in sentences for whoever asks why it cannot do more."""

import os
from dataclasses import dataclass
from pathlib import Path

from localcloud.machine import capability

GROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
"""What kubelet and runc need of control groups: https://kubernetes.io/docs/concepts/architecture/cgroups/"""


@dataclass(frozen=True)
class Capability:
    """What keeps real nodes from running here; empty where they can."""

    missing: tuple[str, ...]

    @property
    def real_nodes(self) -> bool:
        """Namespaces, kubelets and containers; without them an API server with simulated nodes."""
        return not self.missing

    def __str__(self) -> str:
        if self.real_nodes:
            return "Kubernetes runs here with real nodes"
        return f"Kubernetes runs here as an API server with simulated nodes, which run no jobs: {'; '.join(self.missing)}"


def examine() -> Capability:
    """Look; changes nothing."""
    uses = "network namespaces, mounts and control groups"
    return Capability(capability.obstacles("real nodes", uses, _programs, capability.namespaces, _control_groups))


def _programs() -> str:
    return capability.programs("nsenter", "unshare", "mount")


def _control_groups() -> str:
    if (GROUPS / "cgroup.controllers").exists():
        offered = (GROUPS / "cgroup.controllers").read_text().split()
    else:
        offered = [path.name for path in GROUPS.iterdir()] if GROUPS.is_dir() else []
    missing = [name for name in CONTROLLERS if name not in offered]
    if missing:
        return f"control groups without {', '.join(missing)} below {GROUPS}"
    first = GROUPS if (GROUPS / "cgroup.controllers").exists() else GROUPS / CONTROLLERS[0]
    return "" if os.access(first, os.W_OK) and not _is_read_only(first) else f"{first} is read-only"


def _is_read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
