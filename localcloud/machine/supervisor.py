"""Start the processes of one cluster and report unexpected exits."""

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from localcloud import problems
from localcloud.machine import network
from localcloud.machine.ledger import Ledger, build_process_name
from localcloud.processes import Server, StartError, read_tail

log = logging.getLogger(__name__)

STOP_SECONDS = 10.0
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ")
"""Environment variables passed to daemons. Credentials and proxy settings are not passed."""


@dataclass(frozen=True)
class Crash:
    """A process that exited unexpectedly."""

    name: str
    code: int
    """Exit code; -N means that signal N terminated the process."""
    log: str
    last_words: str
    """Last lines of the log."""

    def __str__(self) -> str:
        how = f"was ended by {signal.Signals(-self.code).name}" if self.code < 0 else f"exited with code {self.code}"
        return f"{self.name} {how}; the end of {self.log}:\n{self.last_words}"


class Ended(Exception):
    """The cluster is stopping, so the supervisor starts no more processes and aborts all waits."""


class Supervisor:
    """Start, watch and stop the processes of one cluster. Each process has a unique name."""

    def __init__(self, logs: Path, ledger: Ledger, namespace: str | None, on_change: Callable[[], None]) -> None:
        self._logs, self._ledger, self._namespace, self._on_change = logs, ledger, namespace, on_change
        self._running: dict[str, tuple[subprocess.Popen[bytes], Server]] = {}
        self._wanted: set[str] = set()
        self._starts: dict[str, Callable[[], Server]] = {}
        """Maps a process name to the function that starts the process, in the order in which the processes were first started."""
        self._crashes: dict[str, Crash] = {}
        self._closed = False
        self._lock = threading.Lock()

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        namespace: str | None = None,
        outside: bool = False,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Server:
        """Start a program in the cluster's network namespace, in `namespace`, or with `outside` in the current
        namespace. The program's output goes to logs/<name>.log."""
        if self._closed:
            raise Ended(f"cannot start {name}: the cluster is stopping")
        self._logs.mkdir(parents=True, exist_ok=True)
        path = self._logs / f"{name}.log"
        inside = None if outside else namespace or self._namespace
        # nsenter replaces itself with the program (exec), so the child's pid is the program's pid.
        enter = [] if inside is None else ["nsenter", f"--net={network.build_namespace_path(inside)}", "--"]
        own = {key: os.environ[key] for key in _ENVIRONMENT if key in os.environ}
        options: dict[str, Any] = {"namespace": namespace, "outside": outside, "environment": environment, "folder": folder}
        with path.open("ab") as output:
            process = subprocess.Popen(
                [*enter, *map(str, command)],
                cwd=folder or self._logs,
                env={**own, "HOME": str(self._logs.parent), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        server = Server(name, process.pid, psutil.Process(process.pid).create_time(), 0, str(path))
        self._ledger.add("process", build_process_name(server.pid, server.started))
        with self._lock:
            self._running[name] = process, server
            self._starts[name] = partial(self.start, name, command, **options)
            self._wanted.add(name)
            self._crashes.pop(name, None)
        threading.Thread(target=self._wait_for_exit, args=(name, process, server), name=f"watch-{name}", daemon=True).start()
        self._on_change()
        return server

    def restart(self, name: str) -> Server:
        """Restart a crashed process with its original command."""
        return self._starts[name]()

    def stop(self, name: str, *, seconds: float = STOP_SECONDS) -> None:
        """Stop a process and its descendants with SIGTERM, then SIGKILL. Do nothing if the process is not running."""
        with self._lock:
            self._wanted.discard(name)
            entry = self._running.get(name)
        if entry is None:
            return
        process, server = entry
        family = _list_descendants(server)
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(family, timeout=STOP_SECONDS)

    def stop_supervising(self, name: str) -> None:
        """Stop treating the exit of this process as a crash, and discard its recorded crash, if any."""
        with self._lock:
            self._wanted.discard(name)
            self._crashes.pop(name, None)

    def close(self) -> None:
        """Reject further starts of processes, record no more crashes, and end all calls to `await_ready`."""
        with self._lock:
            self._closed = True
            self._wanted.clear()

    def await_ready(self, name: str, check: Callable[[], bool], seconds: float, *, needs: Sequence[str] = ()) -> None:
        """Wait until the readiness check of a process returns true.

        Raises StartError on a timeout, or if the process or a process in `needs` has exited unexpectedly. The message
        contains the end of the log.
        """

        def check_state() -> str:
            if self._closed:
                raise Ended(f"stopped waiting for {name}: the cluster is stopping")
            for needed in (*needs, name):  # check dependencies first, so that the error names the root cause
                if (crash := self._crashes.get(needed)) is not None:
                    raise StartError(str(crash))
            return "" if check() else "waiting"

        try:
            Retrying(retry=retry_if_result(bool), wait=wait_fixed(0.05), stop=stop_after_delay(seconds))(check_state)
        except RetryError:
            path = self._logs / f"{name}.log"
            raise StartError(f"{name} was not ready within {seconds:.0f} s; the end of {path}:\n{read_tail(path)}") from None

    def list_running_servers(self) -> list[Server]:
        with self._lock:
            return [server for _, server in self._running.values()]

    def list_crashes(self) -> list[Crash]:
        """Return the crashes of processes that have not been restarted, in the order in which the processes were first
        started."""
        with self._lock:
            return [self._crashes[name] for name in self._starts if name in self._crashes]

    def _wait_for_exit(self, name: str, process: "subprocess.Popen[bytes]", server: Server) -> None:
        code = process.wait()
        with self._lock:
            crashed = name in self._wanted and self._running.get(name, (None,))[0] is process
            if self._running.get(name, (None,))[0] is process:
                del self._running[name]
            if crashed:
                self._crashes[name] = Crash(name, code, server.log, read_tail(Path(server.log)))
        if crashed:
            log.error("%s", self._crashes[name])
        try:
            self._ledger.remove("process", build_process_name(server.pid, server.started))
            self._on_change()
        except Exception as error:
            problems.report_problem(f"the supervisor of {name}", error)


def _list_descendants(server: Server) -> list[psutil.Process]:
    """Return all descendants of a process, or an empty list if the process has exited."""
    try:
        process = server.find_process()
        return process.children(recursive=True) if process is not None else []
    except psutil.NoSuchProcess:
        return []
