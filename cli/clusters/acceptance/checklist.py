"""Runs the checks of an acceptance run in order and turns each result into a row."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from cli.clusters.acceptance.report import Evidence, LeftOut, Row
from cli.errors import CommandError
from infra.facts.clients import Denied
from infra.facts.model import FactsError

UNDECLARED = "Hardware is missing, but the nodes do not declare emulated devices, so a device or its driver is broken"


@dataclass
class Notebook:
    """Evidence and findings of one check."""

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

    def part(self, name: str) -> "Notebook":
        return self.parts.setdefault(name, Notebook())

    def saw(self, source: str, value: object) -> None:
        self.evidence.append(Evidence(source, str(value)))

    def fail(self, sentence: str) -> None:
        self.failures.append(sentence)

    def needs_hardware(self, sentence: str) -> None:
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


def row(name: str, notes: Notebook, emulated: Mapping[str, str], seconds: float) -> Row:
    """Return the row for a check. Missing hardware is a failure, unless `emulated` contains a declaration."""
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


def run(
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
            refused = f"you are not allowed to call {error}" if isinstance(error, Denied) else str(error)
            notes.fail(refused or type(error).__name__)
        for found in _rows(check.name, notes, emulated, round(clock() - started, 1)):
            result = found.result if isinstance(found, Row) else "left out"
            if result in ("failed", "not run"):
                bad.add(check.name)
            name = "" if found.name == check.name else f"{found.name}: "
            report(f"  {name}{result}{': ' + found.reason if found.reason else ''}")
            yield found


def _rows(name: str, notes: Notebook, emulated: Emulated, seconds: float) -> Iterator[Row | LeftOut]:
    """Yield the row for a check, then one row per part. The durations of parts are unknown."""
    declared = emulated() if notes.lacks or any(part.lacks for part in notes.parts.values()) else {}
    yield row(name, notes, declared, seconds)
    for part, own in notes.parts.items():
        yield LeftOut(part, own.left_out) if own.left_out else row(part, own, declared, 0.0)
