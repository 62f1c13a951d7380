"""Cleanup ledger of a cluster or VPC. A resource outside the folder of the cluster or VPC is recorded in the ledger
before it is created.

After a crash, the next start removes all resources that are in the ledger.
"""

import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from localcloud.machine import cgroups, network

Kind = Literal["process", "namespace", "cgroup", "mount", "trace"]
END_SECONDS = 20.0
GROUP_SECONDS = 2.0


@dataclass(frozen=True)
class Entry:
    kind: Kind
    name: str
    """`<pid> <start time>` of a process, name of a network namespace, or path of a cgroup, mount or leftover file."""


class StillThere(Exception):
    """A recorded resource cannot be removed. The message names the resource."""


class Ledger:
    """Append-only file of JSON lines `["+", kind, name]` and `["-", kind, name]`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()

    def add(self, kind: Kind, name: str | Path) -> None:
        self._append_line("+", Entry(kind, str(name)))

    def remove(self, kind: Kind, name: str | Path) -> None:
        """Record that the resource no longer exists."""
        self._append_line("-", Entry(kind, str(name)))

    def list_entries(self) -> list[Entry]:
        """Return the entries of resources that have not been removed, oldest first."""
        if not self._file.exists():
            return []
        unremoved: dict[Entry, None] = {}
        for line in self._file.read_text().splitlines():
            try:
                sign, kind, name = json.loads(line)
            except ValueError:  # a crash truncated this line before the resource was created
                continue
            if sign == "+":
                unremoved[Entry(kind, name)] = None
            else:
                unremoved.pop(Entry(kind, name), None)
        return list(unremoved)

    def clean_up(self) -> None:
        """Kill all processes and remove all resources in the ledger. Raises StillThere."""
        entries = self.list_entries()
        waiting = Retrying(
            retry=retry_if_result(bool),
            wait=wait_fixed(0.05),
            stop=stop_after_delay(END_SECONDS),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else [],
        )
        if left := waiting(_kill_all, entries):
            raise StillThere(f"local cloud processes survived SIGKILL: {', '.join(str(pid) for pid in left)}")
        for entry in reversed(entries):
            if entry.kind == "mount":
                network.unmount(Path(entry.name))
        for entry in reversed(entries):
            if entry.kind == "cgroup":
                remove_cgroup(Path(entry.name))
            elif entry.kind == "namespace":
                network.remove_namespace(entry.name)
            elif entry.kind == "trace":
                remove_leftover(Path(entry.name))
        self._file.unlink(missing_ok=True)

    def _append_line(self, sign: str, entry: Entry) -> None:
        with self._lock, self._file.open("a") as file:
            file.write(json.dumps([sign, entry.kind, entry.name]) + "\n")


def remove_leftover(path: Path) -> None:
    """Remove a file or folder that a killed program left behind outside the local cloud's folder."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def build_process_name(pid: int, started: float) -> str:
    """Return the name under which the ledger records a process. The name includes the start time, because the kernel reuses
    pids."""
    return f"{pid} {started!r}"


def _kill_all(entries: list[Entry]) -> list[int]:
    """Kill the processes that are still running. Return their pids."""
    pids = set(_list_pids(entries))
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        except PermissionError as error:
            raise StillThere(f"cannot kill process {pid} of the local cloud: it belongs to another user") from error
    return sorted(pids)


def _list_pids(entries: list[Entry]) -> Iterator[int]:
    namespaces = {entry.name for entry in entries if entry.kind == "namespace"}
    yield from network.list_processes(namespaces)
    for entry in entries:
        if entry.kind == "process":
            yield from _list_process_tree(entry.name)
        elif entry.kind == "cgroup":
            yield from _list_cgroup_pids(Path(entry.name))


def _list_process_tree(name: str) -> Iterator[int]:
    pid, started = name.split()
    try:
        process = psutil.Process(int(pid))
        if process.create_time() != float(started) or process.status() == psutil.STATUS_ZOMBIE:
            return
        yield process.pid
        for child in process.children(recursive=True):
            yield child.pid
    except psutil.NoSuchProcess:
        return


def _list_cgroup_pids(folder: Path) -> Iterator[int]:
    for path, _, _ in os.walk(folder):  # os.walk skips cgroups that disappear during the walk
        try:
            yield from (int(line) for line in Path(path, "cgroup.procs").read_text().split())
        except OSError:  # removed meanwhile
            continue


def remove_cgroup(folder: Path) -> None:
    """Remove a cgroup and its descendants. Raises StillThere."""
    try:
        cgroups.remove_tree(folder, GROUP_SECONDS)
    except OSError as error:
        raise StillThere(f"cannot remove the cgroup {folder} of the local cloud") from error


def remove_all_resources(folder: Path) -> None:
    """Remove all resources in the ledgers below a folder, then remove the folder."""
    for file in sorted(folder.glob("*/ledger")):
        Ledger(file).clean_up()
    shutil.rmtree(folder, ignore_errors=True)
