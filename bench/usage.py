"""Peak memory usage and CPU time of a cluster's programs."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from localcloud.instance import LocalCloud
from localcloud.kubernetes.cluster import build_namespace_name

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
IN_PYTHON = {
    "localcloud.kubernetes.loopback": "proxy of the endpoint",
    "localcloud.kubernetes.network_policy": "network policy agent",
    "autoscaler": "cluster autoscaler (emulator)",
    "job_controller": "job controller",
}
"""Maps a part of a Python program's command line to the name of the program. The first match wins."""
Cpu = dict[str, float]
"""Maps each program to its CPU time in seconds."""


class Peaks(threading.Thread):
    """Thread that samples memory and CPU time once per second. `peaks` contains each program's peak memory in MiB."""

    def __init__(self, cloud: LocalCloud) -> None:
        super().__init__(daemon=True)
        self._mark = build_namespace_name(cloud.folder / "kubernetes", 0).removesuffix("-0")
        self._folder, self._aws = str(cloud.folder), cloud.server("aws").pid
        self._is_over = threading.Event()
        self.peaks: dict[str, int] = {}
        self._cpu: dict[tuple[int, str], float] = {}

    def __enter__(self) -> "Peaks":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()

    def run(self) -> None:
        while not self._is_over.wait(EVERY_SECONDS):
            for process, name in self._list_processes():
                with suppress(psutil.Error):
                    used, times = process.memory_info().rss // 2**20, process.cpu_times()
                    self.peaks[name] = max(used, self.peaks.get(name, 0))
                    self._cpu[(process.pid, name)] = times.user + times.system

    def cpu(self) -> Cpu:
        """Return each program's CPU time up to the last sample. Processes that started and ended between two samples
        are not included.
        """
        cpu_seconds: Cpu = {}
        for (_, name), seconds in list(self._cpu.items()):
            cpu_seconds[name] = cpu_seconds.get(name, 0.0) + seconds
        return cpu_seconds

    def _list_processes(self) -> Iterator[tuple[psutil.Process, str]]:
        """Yield the local AWS server and the processes of this cloud's clusters, each with its program's name. The
        processes are identified by command line or, in pods, by cgroup.
        """
        for process in psutil.process_iter(["name", "cmdline"]):
            if process.pid == self._aws:
                yield process, "local AWS"
                continue
            command = " ".join(process.info["cmdline"] or ())
            name = PROGRAMS.get(process.info["name"] or "") or _find_python_module(command)
            if name and (self._folder in command or self._mark in command or self._mark in read_cgroups(process.pid)):
                yield process, name


def _find_python_module(command: str) -> str | None:
    return next((name for part, name in IN_PYTHON.items() if part in command), None) if "python" in command else None


def compute_spent_cpu(before: Cpu, after: Cpu) -> Cpu:
    """Return each program's CPU time between two snapshots, if it is at least a tenth of a second."""
    used = {name: round(seconds - before.get(name, 0.0), 1) for name, seconds in after.items()}
    return {name: seconds for name, seconds in sorted(used.items(), key=lambda item: -item[1]) if seconds >= 0.1}


def read_cgroups(pid: int) -> str:
    """Return the text of /proc/PID/cgroup, or an empty string if the process has ended."""
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""
