"""Rows of an acceptance run: checks run in order and become rows, and rows become a report in JSON and Markdown."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from cli import whole_files
from cli.aws_queries import explain_query_error
from cli.console import to_json
from cli.errors import CommandError
from infra.facts.clients import Denied
from infra.facts.model import FactsError

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
    """The data of one acceptance run."""

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
        document = to_json(self)
        return {"schema": SCHEMA, "date": document.pop("started"), "ok": self.ok, **document}

    def summary(self) -> str:
        """Return one line with the number of rows for each result."""
        counted = Counter(row.result for row in self.rows)
        order: tuple[Result, ...] = ("passed", "failed", "not on this hardware", "not run")
        counts = ", ".join(f"{counted[result]} {result}" for result in order if counted[result]) or "no rows"
        return counts if self.complete else f"incomplete: {counts}"

    def render_markdown(self) -> str:
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
        table += [f"| {row.name} | {row.result} | {row.seconds:.1f} | {escape_cell(row.reason)} |" for row in self.rows]
        table += [f"| {check.name} | (left out) | | {escape_cell(check.reason)} |" for check in self.left_out]
        return "\n".join([*head, *table, "", "## Evidence", "", *render_evidence(self.rows)]) + "\n"

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write both files atomically, and return their paths."""
        texts = {"json": json.dumps(self.as_json(), indent=1) + "\n", "md": self.render_markdown()}
        for ending, text in texts.items():
            whole_files.write_file(folder / f"{self.file_stem}.{ending}", text)
        return folder / f"{self.file_stem}.json", folder / f"{self.file_stem}.md"


def render_evidence(rows: Sequence[Row]) -> list[str]:
    lines = ["| check | source | value |", "|---|---|---|"]
    return lines + [
        f"| {row.name} | {escape_cell(evidence.source)} | {escape_cell(evidence.value)} |"
        for row in rows
        for evidence in row.evidence
    ]


def escape_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


UNDECLARED = "Hardware is missing, but the nodes do not declare emulated devices, so a device or its driver is broken"


@dataclass
class Notebook:
    """Evidence and findings of one acceptance check."""

    evidence: list[Evidence] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)
    """Sentences about hardware that the check needs but did not find."""
    not_run: str = ""
    """Why the check could not run, such as an earlier failure."""
    left_out: str = ""
    """Why the check does not apply to the stack."""
    parts: "dict[str, Notebook]" = field(default_factory=dict)
    """Additional rows that the check produced, keyed by name."""

    def create_part(self, name: str) -> "Notebook":
        return self.parts.setdefault(name, Notebook())

    def record_evidence(self, source: str, value: object) -> None:
        self.evidence.append(Evidence(source, str(value)))

    def record_failure(self, sentence: str) -> None:
        self.failures.append(sentence)

    def record_missing_hardware(self, sentence: str) -> None:
        """Record missing hardware. The row still fails, unless the local cloud declares that devices are emulated."""
        self.lacks.append(sentence)


@dataclass(frozen=True)
class Check:
    """A planned row."""

    name: str
    run: Callable[[Notebook], None]
    """Fills the notebook. A CommandError fails the row; other exceptions are bugs and end the run."""
    needs: tuple[str, ...] = ()
    """Names of earlier checks that must pass. If one of them failed or was not run, this check is not run."""


Emulated = Callable[[], Mapping[str, str]]
"""Function that returns the nodes' current declarations about their devices (see `emulation`); empty on real hardware.
"""


def make_row(name: str, notes: Notebook, emulated: Mapping[str, str], seconds: float) -> Row:
    """Return the row for a check. Missing hardware is a failure, unless `emulated` declares that it is emulated."""
    evidence = tuple(notes.evidence)
    if notes.lacks and not emulated:
        notes.failures.append(f"{'; '.join(notes.lacks)}. {UNDECLARED}")
    if notes.not_run and not notes.failures:
        return Row(name, "not run", notes.not_run, seconds, evidence)
    if notes.failures:
        return Row(name, "failed", "; ".join(notes.failures), seconds, evidence)
    if notes.lacks:
        declared = "; ".join(dict.fromkeys(emulated.values()))
        return Row(name, "not on this hardware", f"{'; '.join(notes.lacks)} ({declared})", seconds, evidence)
    if not evidence:
        return Row(name, "failed", "the check inspected nothing", seconds)
    return Row(name, "passed", "", seconds, evidence)


def run_checks(
    checks: Iterable[Check],
    emulated: Emulated,
    *,
    report: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Row | LeftOut]:
    """Run the checks and yield their rows. A check is not run if one of its prerequisites failed or was not run."""
    bad: set[str] = set()
    for check in checks:
        if broken := [name for name in check.needs if name in bad]:
            bad.add(check.name)
            yield Row(check.name, "not run", f"an earlier check did not pass: {broken[0]}")
            continue
        report(f"{check.name} ...")
        notes, started = Notebook(), clock()
        try:
            check.run(notes)
        except (CommandError, FactsError, Denied) as error:
            notes.record_failure(
                (str(error) if isinstance(error, CommandError) else explain_query_error(error)) or type(error).__name__
            )
        for outcome in make_rows(check.name, notes, emulated, round(clock() - started, 1)):
            result = outcome.result if isinstance(outcome, Row) else "left out"
            if result in ("failed", "not run"):
                bad.add(check.name)
            name = "" if outcome.name == check.name else f"{outcome.name}: "
            report(f"  {name}{result}{': ' + outcome.reason if outcome.reason else ''}")
            yield outcome


def make_rows(name: str, notes: Notebook, emulated: Emulated, seconds: float) -> Iterator[Row | LeftOut]:
    """Yield the row for a check, then one row per part. The parts have no durations of their own."""
    declared = emulated() if notes.lacks or any(part.lacks for part in notes.parts.values()) else {}
    yield make_row(name, notes, declared, seconds)
    for part, own in notes.parts.items():
        yield LeftOut(part, own.left_out) if own.left_out else make_row(part, own, declared, 0.0)
