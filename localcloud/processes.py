"""Processes that outlive the command that started them, found again by pid and start time."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

ROOT = Path(__file__).parent.parent
"""The project: servers run its modules."""

STOP_SECONDS = 10.0
LOG_TAIL_LINES = 12


class StartError(Exception):
    """A server did not come up; the text has the end of its log."""


@dataclass(frozen=True)
class Server:
    """One running server of an instance."""

    name: str
    pid: int
    started: float
    """The process's start time: a pid alone may have been given to somebody else since."""
    port: int
    log: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def process(self) -> psutil.Process | None:
        """The process while it lives; None after."""
        try:
            process = psutil.Process(self.pid)
            alive = process.create_time() == self.started and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return process if alive else None

    def log_tail(self) -> str:
        return tail(Path(self.log))


def tail(log: Path) -> str:
    """The last lines of a log file; empty if there is none."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
    except FileNotFoundError:
        return ""


def start(name: str, module: str, folder: Path, *, environment: dict[str, str], options: tuple[str, ...] = (), limit: float = 60.0) -> Server:
    """Start `python -m module --port 0 --ready-file F` detached and wait until it has written its port there."""
    folder.mkdir(parents=True, exist_ok=True)
    log, ready = folder / f"{name}.log", folder / f"{name}.ready"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", module, "--port", "0", "--ready-file", str(ready), *options]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | environment | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    port = _await_port(process, ready, limit)
    if port is None:
        if process.poll() is None:
            process.kill()
        process.wait()
        raise StartError(f"the {name} server did not start within {limit:.0f} s; the end of {log}:\n{tail(log)}")
    return Server(name, process.pid, psutil.Process(process.pid).create_time(), port, str(log))


def _await_port(process: subprocess.Popen[bytes], ready: Path, limit: float) -> int | None:
    def look() -> int | None:
        if process.poll() is not None:
            return -1
        text = ready.read_text() if ready.exists() else ""
        return int(json.loads(text)["port"]) if text.strip() else None

    retrying = Retrying(retry=retry_if_result(lambda port: port is None), wait=wait_fixed(0.03), stop=stop_after_delay(limit))
    try:
        port = retrying(look)
    except RetryError:
        return None
    return port if port is not None and port > 0 else None


def stop(server: Server) -> None:
    """End a server and everything it started: politely, then not."""
    process = server.process()
    if process is None:
        return
    family = [process, *process.children(recursive=True)]
    process.send_signal(signal.SIGTERM)
    psutil.wait_procs([process], timeout=STOP_SECONDS)
    survivors = [member for member in family if member.is_running()]
    for member in survivors:
        member.kill()
    psutil.wait_procs(survivors, timeout=STOP_SECONDS)


def save(servers: list[Server], file: Path) -> None:
    file.write_text(json.dumps([asdict(server) for server in servers], indent=2))


def load(file: Path) -> list[Server]:
    """The servers recorded in `file`, alive or not; none without the file."""
    if not file.exists():
        return []
    return [Server(**entry) for entry in json.loads(file.read_text())]
