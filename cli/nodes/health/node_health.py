"""Data classes for the health of nodes at one point in time."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from cli.console import to_json
from infra.health.annotation import TakenOut

State = Literal["healthy", "not ready", "broken", "cordoned", "draining", "repairing", "verifying", "gone"]
"""In the states `draining`, `repairing` and `verifying`, the job controller has taken the node out of service."""
Severity = Literal["good", "doubtful", "bad"]
SEVERITIES: Final[Mapping[State, Severity]] = {
    "not ready": "bad",
    "broken": "bad",
    "draining": "doubtful",
    "repairing": "doubtful",
    "gone": "doubtful",
    "verifying": "doubtful",
    "cordoned": "doubtful",
    "healthy": "good",
}
"""Maps a state to its severity; the most serious state comes first."""


@dataclass(frozen=True)
class Fault:
    """A bad condition of a node, or a warning about the node."""

    condition: str
    reason: str
    message: str
    since: datetime | None = None


@dataclass(frozen=True)
class NodeHealth:
    """Health of one node."""

    name: str
    state: State
    pool: str = ""
    instance: str = ""
    instance_type: str = ""
    is_cordoned: bool = False
    gpus: tuple[int, int] = (0, 0)
    """Number of GPUs that pods can use, and number of all GPUs of the node."""
    faults: tuple[Fault, ...] = ()
    """Sorted by severity, the most serious first."""
    warnings: tuple[Fault, ...] = ()
    """Events that leave the node in service: a scheduled event of EC2, then reports of EKS's node monitoring agent,
    newest first.
    """
    taken_out: TakenOut | None = None
    """Set if the job controller has taken the node out of service."""
    next: str = ""
    """The next step, automatic or manual."""
    jobs: tuple[str, ...] = ()
    """Jobs with a worker on the node, as NAMESPACE/NAME."""

    @property
    def since(self) -> datetime | None:
        if self.taken_out is not None:
            return self.taken_out.at
        return self.faults[0].since if self.faults else self.warnings[0].since if self.warnings else None

    @property
    def state_text(self) -> str:
        """The state as text: a broken node may also be cordoned."""
        return f"{self.state}, cordoned" if self.is_cordoned and self.state in ("broken", "not ready") else self.state

    @property
    def problem_text(self) -> str:
        """The faults, or the newest warning, or why the node was taken out of service."""
        shown = self.faults or self.warnings[:1]
        if not shown and self.taken_out is not None:
            return f"{self.taken_out.reason}, no fault now"
        return "; ".join(f"{fault.reason}: {fault.message}".rstrip(": ") for fault in shown)

    @property
    def has_nothing_to_report(self) -> bool:
        """True if there is nothing to report about the node."""
        return self.state == "healthy" and not self.warnings

    def as_json(self) -> dict[str, object]:
        document = to_json(replace(self, taken_out=None))
        cordoned, gpus = document.pop("isCordoned"), {"usable": self.gpus[0], "all": self.gpus[1]}
        taken_out = json.loads(self.taken_out.text()) if self.taken_out else None
        return {**document, "cordoned": cordoned, "gpus": gpus, "takenOut": taken_out}


@dataclass(frozen=True)
class Moment:
    """An entry in the history of a node."""

    at: datetime
    source: Literal["node", "condition", "controller", "event", "job"]
    text: str
