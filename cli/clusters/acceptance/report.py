"""The report of an acceptance run, as JSON and as a Markdown table. Only `write` has side effects."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from cli import whole_files

SCHEMA: Final = 1
"""Version of the JSON format. Increase it when you remove or rename a key."""

Result = Literal["passed", "failed", "not on this hardware", "not run"]


@dataclass(frozen=True)
class Evidence:
    """One observation of a check."""

    source: str
    """Command, object or API call."""
    value: str


@dataclass(frozen=True)
class Row:
    """Result of one check."""

    name: str
    result: Result
    reason: str = ""
    """Why the check failed, needs other hardware or was not run; empty if it passed."""
    seconds: float = 0.0
    evidence: tuple[Evidence, ...] = ()

    def __post_init__(self) -> None:
        if self.result == "passed" and not self.evidence:
            raise ValueError(f"{self.name} passed without evidence")
        if self.result != "passed" and not self.reason:
            raise ValueError(f"{self.name} is {self.result} without a reason")


@dataclass(frozen=True)
class LeftOut:
    """A check that does not apply to the stack, such as a GPU check in a stack without GPUs."""

    name: str
    reason: str


@dataclass(frozen=True)
class Report:
    """The data of one run."""

    stack: str
    cluster: str
    target: str
    region: str
    level: str
    product: str
    """Version of this program and, in a clone, its commit."""
    started: datetime
    devices: str
    """`hardware`, or the local cloud's declaration that GPUs and EFA devices are emulated."""
    cost: dict[str, object]
    rows: tuple[Row, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    complete: bool = False
    """False while rows are missing; stays False if the run was interrupted."""
    notes: tuple[str, ...] = field(default=())
    """Problems outside the rows, such as jobs that could not be deleted."""

    @property
    def ok(self) -> bool:
        """True if the run is complete, every row ran, no row failed, and there are no problems outside the rows."""
        wrong = any(row.result in ("failed", "not run") for row in self.rows)
        return self.complete and bool(self.rows) and not wrong and not self.notes

    @property
    def file_stem(self) -> str:
        return f"acceptance-{self.stack}-{self.started:%Y-%m-%d}"

    def as_json(self) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "product": self.product,
            "stack": self.stack,
            "cluster": self.cluster,
            "target": self.target,
            "region": self.region,
            "date": self.started.isoformat(),
            "level": self.level,
            "devices": self.devices,
            "complete": self.complete,
            "ok": self.ok,
            "cost": self.cost,
            "rows": [asdict(row) for row in self.rows],
            "leftOut": [asdict(one) for one in self.left_out],
            "notes": list(self.notes),
        }

    def summary(self) -> str:
        """Return one line with the number of rows for each result."""
        counted = Counter(row.result for row in self.rows)
        order: tuple[Result, ...] = ("passed", "failed", "not on this hardware", "not run")
        counts = ", ".join(f"{counted[one]} {one}" for one in order if counted[one]) or "no rows"
        return counts if self.complete else f"incomplete: {counts}"

    def markdown(self) -> str:
        """Return the report as a Markdown page: header, table, evidence."""
        state = (
            "complete" if self.complete else "INCOMPLETE: the run is still in progress, was interrupted or ended with an error"
        )
        head = [
            f"# Acceptance of {self.stack}, {self.started:%Y-%m-%d %H:%M} UTC",
            "",
            f"- {state}; {self.summary()}",
            f"- cluster {self.cluster} ({self.target}) in {self.region}, level {self.level}; {self.product}",
            f"- devices: {self.devices}",
            f"- cost: {self.cost.get('text', 'unknown')}",
            *(f"- {note}" for note in self.notes),
            "",
        ]
        table = ["| check | result | seconds | reason |", "|---|---|---|---|"]
        table += [f"| {row.name} | {row.result} | {row.seconds:.1f} | {_cell(row.reason)} |" for row in self.rows]
        table += [f"| {one.name} | (left out) | | {_cell(one.reason)} |" for one in self.left_out]
        return "\n".join([*head, *table, "", "## Evidence", "", *_evidence(self.rows)]) + "\n"

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write both files atomically, and return their paths."""
        texts = {"json": json.dumps(self.as_json(), indent=1) + "\n", "md": self.markdown()}
        for ending, text in texts.items():
            whole_files.write(folder / f"{self.file_stem}.{ending}", text)
        return folder / f"{self.file_stem}.json", folder / f"{self.file_stem}.md"


def _evidence(rows: Sequence[Row]) -> list[str]:
    lines = ["| check | looked at | value |", "|---|---|---|"]
    return lines + [f"| {row.name} | {_cell(one.source)} | {_cell(one.value)} |" for row in rows for one in row.evidence]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
