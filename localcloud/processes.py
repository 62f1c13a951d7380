"""Start and stop background processes that outlive the starting command. Pid and start time identify a process."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from localcloud import whole_file

ROOT = Path(__file__).parent.parent
"""Root of the repository, which contains the servers' Python modules."""

START_SECONDS = 60.0
STOP_SECONDS = 10.0
LOG_TAIL_LINES = 12


class StartError(Exception):
    """A server did not start. The message contains the end of the server's log."""


@dataclass(frozen=True)
class Server:
    """One server process of a local cloud."""

    name: str
    pid: int
    started: float
    """Start time of the process, which distinguishes it from a later process with the same pid."""
    port: int
    """Port on which the server listens; 0 until the server is ready."""
    log: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def find_process(self) -> psutil.Process | None:
        """Return the process; None if it has ended."""
        try:
            process = psutil.Process(self.pid)
            alive = process.create_time() == self.started and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return process if alive else None

    def is_serving(self) -> bool:
        return self.port > 0 and self.find_process() is not None

    def read_log_tail(self) -> str:
        return read_tail(Path(self.log))


def read_tail(log: Path) -> str:
    """Return the last lines of a log file, or an empty string if the file does not exist."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
    except FileNotFoundError:
        return ""


def spawn_server(name: str, module: str, folder: Path, environment: Mapping[str, str], *options: str, port: int = 0) -> Server:
    """Start `python -m module --port P --ready-file F` as a daemon that logs to `folder`, without waiting for it."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    _get_ready_file(log).unlink(missing_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, "--port", str(port), "--ready-file", str(_get_ready_file(log)), *options],
            cwd=ROOT,
            env={**environment, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Server(name, process.pid, psutil.Process(process.pid).create_time(), 0, str(log))


def await_ready(server: Server, limit: float = START_SECONDS) -> Server:
    """Wait until the server has written its ready file; return the server with the port from this file. Raises
    StartError."""
    ready = _get_ready_file(Path(server.log))

    def read_port() -> int | None:
        text = ready.read_text() if ready.exists() else ""
        if text.strip():
            return int(json.loads(text)["port"])
        return None if server.find_process() else 0

    waiting = Retrying(retry=retry_if_result(lambda port: port is None), wait=wait_fixed(0.03), stop=stop_after_delay(limit))
    try:
        announced_port = waiting(read_port) or 0
    except RetryError:
        announced_port = 0
        reason = f"did not start within {limit:.0f} s"
    else:
        reason = "exited during startup"
    if announced_port:
        return replace(server, port=announced_port)
    stop_server(server)
    raise StartError(f"the {server.name} server {reason}. The end of {server.log}:\n{server.read_log_tail()}")


def _get_ready_file(log: Path) -> Path:
    return log.with_suffix(".ready")


def stop_server(server: Server) -> None:
    """Stop a server and all its child processes, first with SIGTERM, then with SIGKILL."""
    process = server.find_process()
    if process is None:
        return
    family = [process, *process.children(recursive=True)]
    process.send_signal(signal.SIGTERM)
    psutil.wait_procs([process], timeout=STOP_SECONDS)
    survivors = [member for member in family if member.is_running()]
    for member in survivors:
        with suppress(psutil.NoSuchProcess):  # it has exited
            member.kill()
    psutil.wait_procs(survivors, timeout=STOP_SECONDS)


def save_servers(servers: list[Server], file: Path) -> None:
    whole_file.write_atomically(file, json.dumps([asdict(server) for server in servers], indent=2))


def load_servers(file: Path) -> list[Server]:
    """Return the servers recorded in `file`, including crashed ones, or an empty list if the file does not exist."""
    if not file.exists():
        return []
    return [Server(**entry) for entry in json.loads(file.read_text())]
