"""State file of a cluster, read by processes other than the local AWS."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from localcloud import whole_file
from localcloud.machine.supervisor import Crash
from localcloud.processes import Server

Phase = Literal["starting", "ready", "failed", "stopping"]
FILE = "state.json"


@dataclass(frozen=True)
class ClusterState:
    name: str
    region: str
    phase: Phase
    endpoint: str = ""
    namespace: str | None = None
    problem: str = ""
    """Why the cluster failed or could not be repaired; empty if neither happened."""
    network_policies: str = ""
    """Whether network policies are enforced, and the reason if they are not."""
    processes: list[Server] = field(default_factory=list)
    crashes: list[Crash] = field(default_factory=list)
    repairs: int = 0
    """Number of completed requests to restart crashed processes."""

    @property
    def is_healthy(self) -> bool:
        return self.phase != "failed" and not self.crashes and not self.problem

    def save(self, folder: Path) -> None:
        whole_file.write_atomically(folder / FILE, json.dumps(asdict(self), indent=1))


def load_cluster_states(folder: Path) -> list[ClusterState]:
    """Return the states of all clusters in the folder, oldest first."""
    states = []
    for file in sorted(folder.glob(f"*/{FILE}"), key=lambda file: int(file.parent.name.split("-", 1)[0])):
        raw = json.loads(file.read_text())
        processes = [Server(**entry) for entry in raw.pop("processes")]
        crashes = [Crash(**entry) for entry in raw.pop("crashes")]
        states.append(ClusterState(**raw, processes=processes, crashes=crashes))
    return states
