"""A separate cgroup for each node and each host, with cgroup v1 (a tree per controller) and cgroup v2 (one tree).

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
    """The cgroup trees of this machine."""

    mount: Path = MOUNT

    @property
    def unified(self) -> bool:
        """True with cgroup v2 only; in hybrid mode the v2 tree is one of several."""
        return (self.mount / "cgroup.controllers").exists()

    def folders(self, name: str) -> list[Path]:
        """Return the folders of a cgroup below the root: one per tree."""
        return [tree / name for tree in self._trees()]

    def create(self, name: str) -> None:
        """Create an empty cgroup. With cgroup v2, the kubelet itself delegates controllers to it."""
        for folder in self.folders(name):
            folder.mkdir(exist_ok=True)
            if not self.unified:
                _inherit_cpus(folder)

    def remove(self, name: str) -> None:
        """Remove the cgroup and its children once their processes have ended. Raises OSError if any remain."""
        for folder in self.folders(name):
            remove_tree(folder)

    def _trees(self) -> list[Path]:
        if self.unified:
            return [self.mount]
        return [path for path in sorted(self.mount.iterdir()) if not path.is_symlink() and (path / "cgroup.procs").exists()]


def _inherit_cpus(folder: Path) -> None:
    """Copy the parent's CPUs and memory nodes: cgroup v1 accepts no process before they are set."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (folder.parent / file).exists():
            (folder / file).write_text((folder.parent / file).read_text())


def remove_tree(top: Path, seconds: float = END_SECONDS) -> None:
    """Remove a tree from the leaves up; the kernel owns the files. Raises OSError if one stays busy for `seconds`."""
    for path, _, _ in os.walk(top, topdown=False):  # continues if a cgroup disappears meanwhile
        _remove_folder(Path(path), seconds)


def _remove_folder(folder: Path, seconds: float) -> None:
    """Remove one cgroup, with retries: it stays busy for a moment after its last process ends."""
    for attempt in Retrying(
        retry=retry_if_exception_type(OSError), wait=wait_fixed(0.05), stop=stop_after_delay(seconds), reraise=True
    ):
        with attempt:
            try:
                folder.rmdir()
            except FileNotFoundError:
                return
