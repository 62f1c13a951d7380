"""Peak memory usage of a cluster's control-plane programs."""

import threading
from collections.abc import Iterator
from pathlib import Path

import psutil

from localcloud.instance import LocalCloud
from localcloud.kubernetes.cluster import namespace_of

EVERY_SECONDS = 1.0
PROGRAMS = {
    "kube-apiserver": "API server",
    "etcd": "etcd",
    "kube-controller": "controller manager",  # the kernel truncates process names
    "kube-controller-manager": "controller manager",
    "kube-scheduler": "scheduler",
    "kwok": "kwok",
    "manager": "Kueue",
    "mpi-operator": "mpi-operator",
}


class Peaks(threading.Thread):
    """Thread that samples memory usage once per second; `peaks` has the maximum for each program in MiB."""

    def __init__(self, cloud: LocalCloud) -> None:
        super().__init__(daemon=True)
        self._mark = namespace_of(cloud.folder / "kubernetes", 0).removesuffix("-0")
        self._folder, self._aws = str(cloud.folder), cloud.server("aws").pid
        self._is_over = threading.Event()
        self.peaks: dict[str, int] = {}

    def __enter__(self) -> "Peaks":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()

    def run(self) -> None:
        while not self._is_over.wait(EVERY_SECONDS):
            for process, name in self._ours():
                try:
                    used = process.memory_info().rss // 2**20
                except psutil.Error:
                    continue
                self.peaks[name] = max(used, self.peaks.get(name, 0))

    def _ours(self) -> Iterator[tuple[psutil.Process, str]]:
        """Yield the processes of this cloud's clusters, identified by command line or, for pods, by cgroup."""
        for process in psutil.process_iter(["name", "cmdline"]):
            if process.pid == self._aws:
                yield process, "local AWS"
                continue
            name = PROGRAMS.get(process.info["name"] or "")
            if name and (self._folder in " ".join(process.info["cmdline"] or ()) or self._mark in groups_of(process.pid)):
                yield process, name


def groups_of(pid: int) -> str:
    """Return the cgroups of a process, or an empty string if the process has ended."""
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""
