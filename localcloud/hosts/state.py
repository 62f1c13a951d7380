"""State of all hosts, in a file that other processes can read."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from localcloud import whole_file

Phase = Literal["starting", "running", "stopped", "ending", "failed", "record"]
"""Phase in the lifecycle of a host. `record`: the instance does not run as a host, because the maximum number of hosts
was reached."""
FILE = "state.json"


@dataclass(frozen=True)
class HostState:
    instance_id: str
    hostname: str
    address: str
    phase: Phase
    problem: str = ""
    """Reason why the host failed or is only a record."""
    log: str = ""
    """Path of the console log."""

    @property
    def is_healthy(self) -> bool:
        return self.phase != "failed"


def save_host_states(hosts: Iterable[HostState], folder: Path) -> None:
    whole_file.write_atomically(folder / FILE, json.dumps([asdict(host) for host in hosts], indent=1))


def load_host_states(folder: Path) -> list[HostState]:
    file = folder / FILE
    return [HostState(**entry) for entry in json.loads(file.read_text())] if file.exists() else []
