"""Create and remove the cgroups of nodes and hosts, with cgroup v1 (one hierarchy per controller) and v2 (one
hierarchy).

https://docs.kernel.org/admin-guide/cgroup-v1/cgroups.html
https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

import os
from dataclasses import dataclass
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

MOUNT = Path("/sys/fs/cgroup")
END_SECONDS = 10.0


@dataclass(frozen=True)
class Cgroups:
    """Cgroup hierarchies of this machine."""

    mount: Path = MOUNT

    @property
    def is_unified(self) -> bool:
        """Whether cgroup v2 is the only hierarchy. In hybrid mode, cgroup v2 is one of several hierarchies."""
        return (self.mount / "cgroup.controllers").exists()

    def list_folders(self, name: str) -> list[Path]:
        """Return the folders of a top-level cgroup, one per hierarchy."""
        return [tree / name for tree in self._list_hierarchies()]

    def create(self, name: str) -> None:
        """Create an empty cgroup. With cgroup v2, the kubelet enables the cgroup's controllers."""
        for folder in self.list_folders(name):
            folder.mkdir(exist_ok=True)
            if not self.is_unified:
                _inherit_cpus(folder)

    def remove(self, name: str) -> None:
        """Remove the cgroup and its descendants, whose processes must have exited. Raises OSError if any process
        remains."""
        for folder in self.list_folders(name):
            remove_tree(folder)

    def _list_hierarchies(self) -> list[Path]:
        if self.is_unified:
            return [self.mount]
        return [path for path in sorted(self.mount.iterdir()) if not path.is_symlink() and (path / "cgroup.procs").exists()]


def _inherit_cpus(folder: Path) -> None:
    """Copy the CPUs and memory nodes from the parent cgroup. With cgroup v1, a cpuset accepts no processes until both
    are set."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (folder.parent / file).exists():
            (folder / file).write_text((folder.parent / file).read_text())


def remove_tree(top: Path, seconds: float = END_SECONDS) -> None:
    """Remove a cgroup and its descendants, children first. Raises OSError if a cgroup is still busy after `seconds`."""
    for path, _, _ in os.walk(top, topdown=False):  # os.walk skips cgroups that disappear during the walk
        _remove_folder(Path(path), seconds)


def _remove_folder(folder: Path, seconds: float) -> None:
    """Remove one cgroup. Retry, because a cgroup remains busy for a moment after its last process exits."""
    for attempt in Retrying(
        retry=retry_if_exception_type(OSError), wait=wait_fixed(0.05), stop=stop_after_delay(seconds), reraise=True
    ):
        with attempt:
            try:
                folder.rmdir()
            except FileNotFoundError:
                return
