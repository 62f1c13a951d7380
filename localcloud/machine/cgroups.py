"""A cgroup of its own for each node and each host, with version 1 (a tree per controller) and version 2 (one tree).

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
    """Where this machine has its cgroups."""

    mount: Path = MOUNT

    @property
    def unified(self) -> bool:
        """Version 2 alone; beside version 1 its tree is one of several."""
        return (self.mount / "cgroup.controllers").exists()

    def folders(self, name: str) -> list[Path]:
        """The folders of a cgroup below the root: one in every tree."""
        return [tree / name for tree in self._trees()]

    def create(self, name: str) -> None:
        """An empty cgroup. The kubelet delegates controllers to it (version 2) by itself."""
        for folder in self.folders(name):
            folder.mkdir(exist_ok=True)
            if not self.unified:
                _inherit_cpus(folder)

    def remove(self, name: str) -> None:
        """The cgroup and those below it, once their processes are gone. Raises OSError when some stay."""
        for folder in self.folders(name):
            remove_tree(folder)

    def _trees(self) -> list[Path]:
        if self.unified:
            return [self.mount]
        return [path for path in sorted(self.mount.iterdir()) if not path.is_symlink() and (path / "cgroup.procs").exists()]


def _inherit_cpus(folder: Path) -> None:
    """Version 1 lets no process into a cgroup before its CPUs and memory nodes are set."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (folder.parent / file).exists():
            (folder / file).write_text((folder.parent / file).read_text())


def remove_tree(top: Path, seconds: float = END_SECONDS) -> None:
    """From the leaves up; files in them are the kernel's. Raises OSError for one that is busy for longer than so many seconds."""
    for path, _, _ in os.walk(top, topdown=False):  # goes on where one is removed meanwhile
        _remove_folder(Path(path), seconds)


def _remove_folder(folder: Path, seconds: float) -> None:
    """A cgroup is busy for a moment after its last process ended."""
    for attempt in Retrying(
        retry=retry_if_exception_type(OSError), wait=wait_fixed(0.05), stop=stop_after_delay(seconds), reraise=True
    ):
        with attempt:
            try:
                folder.rmdir()
            except FileNotFoundError:
                return
