"""What a cluster or a VPC of hosts holds outside its folder, written down before it is made.

Whoever comes after a crash finds what to remove.
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
    """`<pid> <start time>` of a process, the name of a network namespace, or a path: of a control group, a mount, a trace."""


class StillThere(Exception):
    """Something of a cluster cannot be removed; the text says what."""


class Ledger:
    """Lines `+ kind name` and `- kind name` in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()

    def add(self, kind: Kind, name: str | Path) -> None:
        self._write("+", Entry(kind, str(name)))

    def remove(self, kind: Kind, name: str | Path) -> None:
        """It is gone."""
        self._write("-", Entry(kind, str(name)))

    def entries(self) -> list[Entry]:
        """What is there, the oldest first."""
        if not self._file.exists():
            return []
        held: dict[Entry, None] = {}
        for line in self._file.read_text().splitlines():
            try:
                sign, kind, name = json.loads(line)
            except ValueError:  # cut off by a crash: what it was about was not made yet
                continue
            if sign == "+":
                held[Entry(kind, name)] = None
            else:
                held.pop(Entry(kind, name), None)
        return list(held)

    def clean(self) -> None:
        """End and remove everything. Raises StillThere."""
        entries = self.entries()
        waiting = Retrying(
            retry=retry_if_result(bool),
            wait=wait_fixed(0.05),
            stop=stop_after_delay(END_SECONDS),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else [],
        )
        if left := waiting(_kill_all, entries):
            raise StillThere(f"processes of the local cloud do not end: {', '.join(str(pid) for pid in left)}")
        for entry in reversed(entries):
            if entry.kind == "mount":
                network.unmount(Path(entry.name))
        for entry in reversed(entries):
            if entry.kind == "cgroup":
                remove_group(Path(entry.name))
            elif entry.kind == "namespace":
                network.remove(entry.name)
            elif entry.kind == "trace":
                remove_trace(Path(entry.name))
        self._file.unlink(missing_ok=True)

    def _write(self, sign: str, entry: Entry) -> None:
        with self._lock, self._file.open("a") as file:
            file.write(json.dumps([sign, entry.kind, entry.name]) + "\n")


def remove_trace(path: Path) -> None:
    """What a program leaves outside our folder when it is killed."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def process_name(pid: int, started: float) -> str:
    """A process as the ledger names it: a pid alone may have been given to somebody else since."""
    return f"{pid} {started!r}"


def _kill_all(entries: list[Entry]) -> list[int]:
    """Kill whatever still runs; who was found alive."""
    found = set(_members(entries))
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        except PermissionError as error:
            raise StillThere(f"process {pid} of the local cloud belongs to somebody else") from error
    return sorted(found)


def _members(entries: list[Entry]) -> Iterator[int]:
    namespaces = {entry.name for entry in entries if entry.kind == "namespace"}
    yield from network.processes_in(namespaces)
    for entry in entries:
        if entry.kind == "process":
            yield from _family(entry.name)
        elif entry.kind == "cgroup":
            yield from _group_members(Path(entry.name))


def _family(name: str) -> Iterator[int]:
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


def _group_members(folder: Path) -> Iterator[int]:
    for path, _, _ in os.walk(folder):  # goes on where a group is removed meanwhile
        try:
            yield from (int(line) for line in Path(path, "cgroup.procs").read_text().split())
        except OSError:  # removed meanwhile
            continue


def remove_group(folder: Path) -> None:
    """A control group and those below it. Raises StillThere."""
    try:
        cgroups.remove_tree(folder, GROUP_SECONDS)
    except OSError as error:
        raise StillThere(f"the control group {folder} of the local cloud cannot be removed") from error


def clean_all(folder: Path) -> None:
    """Remove what the clusters below a folder hold, and the folder."""
    for file in sorted(folder.glob("*/ledger")):
        Ledger(file).clean()
    shutil.rmtree(folder, ignore_errors=True)
