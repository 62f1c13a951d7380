"""Follow the Pulumi engine's event log and collect changes, errors and the durations of resource operations."""

import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOOK_EVERY_SECONDS = 0.01
"""Polling interval. Arrival times serve as timestamps, since the timestamps in the log are rounded to seconds."""
PROVIDERS = ("aws:", "kubernetes:")
"""Type prefixes of provider resources. All other types belong to components, the stack and the providers themselves."""


@dataclass(frozen=True)
class Step:
    """Operation on one resource. Times are in seconds since the start of the Pulumi operation."""

    urn: str
    operation: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    @property
    def type(self) -> str:
        return self.urn.split("::")[2].split("$")[-1]

    @property
    def name(self) -> str:
        return self.urn.split("::")[-1]

    @property
    def is_component(self) -> bool:
        """Whether the resource is a component. Components take as long as their children."""
        return not self.type.startswith(PROVIDERS)


@dataclass
class EventLog:
    """State of a running Pulumi operation, updated as events arrive."""

    file: Path
    changes: dict[str, int] = field(default_factory=dict)
    """Maps a resource operation, such as `create`, to a number of resources."""
    steps: list[Step] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Error messages shown to the user."""
    _began: dict[tuple[str, str], float] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.file.unlink(missing_ok=True)
        self._start = time.monotonic()
        self._thread = threading.Thread(target=self._follow_file, daemon=True)
        self._thread.start()

    def list_running_resources(self) -> list[str]:
        """Return the names of the resources in progress, longest-running first."""
        ended = {(step.urn, step.operation) for step in self.steps}
        began = (Step(urn, operation, 0, 0) for urn, operation in list(self._began) if (urn, operation) not in ended)
        return [step.name for step in began if not step.is_component]

    def count_finished(self) -> int:
        """Return the number of finished resources."""
        return len({step.urn for step in self.steps if not step.is_component})

    def close(self) -> None:
        """Read the remaining events after the engine has exited, then stop."""
        self._ended.set()
        self._thread.join()
        self.file.unlink(missing_ok=True)

    def _follow_file(self) -> None:
        while not self.file.exists():
            if self._ended.wait(LOOK_EVERY_SECONDS):
                return
        with self.file.open() as log:
            part = ""
            while True:
                ended = self._ended.is_set()
                line = log.readline()
                if line.endswith("\n"):
                    self._process_event(json.loads(part + line))
                    part = ""
                elif ended:
                    return
                else:
                    part += line
                    self._ended.wait(LOOK_EVERY_SECONDS)

    def _process_event(self, event: dict[str, Any]) -> None:
        now = time.monotonic() - self._start
        if "summaryEvent" in event:
            counts = event["summaryEvent"].get("resourceChanges") or {}
            self.changes = {operation: count for operation, count in counts.items() if count}
        elif "resourcePreEvent" in event:
            metadata = event["resourcePreEvent"]["metadata"]
            self._began[metadata["urn"], metadata["op"]] = now
        elif "resOutputsEvent" in event:
            metadata = event["resOutputsEvent"]["metadata"]
            began = self._began.get((metadata["urn"], metadata["op"]), now)
            self.steps.append(Step(metadata["urn"], metadata["op"], began, now))
        elif "diagnosticEvent" in event and event["diagnosticEvent"].get("severity") == "error":
            self.errors.append(event["diagnosticEvent"]["message"].strip())
