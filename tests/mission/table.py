"""Convert the outcomes of marked tests to the mission table. Pure functions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from tests.mission.rows import NOT_YET, ROWS, SYSTEMS, Row

Outcome = Literal["passed", "failed", "skipped"]

BEGIN = """# The mission, row by row

Written by `make mission`, which runs the tests of each row in `tests/mission/rows.py`. A row passes if
all of its tests pass. `needs X`: the tests pass as far as possible on this machine; the rest needs hardware X.
`missing`: no test yet. `not run`: a test did not run here.

A run of some of the tests replaces only the rows whose tests all ran. Each row has the date of its run.
"""
HEAD = ["| must work | command | result | seconds | date |", "|---|---|---|---|---|"]


@dataclass
class Test:
    """Outcome of one test of a row, across its setup, call and teardown."""

    seconds: float = 0.0
    outcome: Outcome = "passed"
    reason: str = ""
    """Reason for skipping."""

    def add(self, outcome: Outcome, seconds: float, reason: str = "") -> None:
        self.seconds += seconds
        if outcome == "failed" or self.outcome == "passed":
            self.outcome, self.reason = outcome, reason or self.reason


@dataclass
class Results:
    """Results of one run."""

    tests: dict[tuple[str, str], dict[str, Test]] = field(default_factory=dict)
    """Row -> test -> outcome."""

    def add(self, row: tuple[str, str], test: str, outcome: Outcome, seconds: float, reason: str = "") -> None:
        self.tests.setdefault(row, {}).setdefault(test, Test()).add(outcome, seconds, reason)

    def get_tests(self, row: Row) -> Mapping[str, Test]:
        return self.tests.get((row.system, row.name), {})


def determine_row_verdict(row: Row, tests: Mapping[str, Test]) -> str:
    """Return the row's verdict: `passed`, `needs X`, `failed: test_x`, `not run: reason` or `missing`."""
    if not tests:
        return "missing" if (row.system, row.name) in NOT_YET else "not run"
    failed = [_shorten_test_name(name) for name, test in tests.items() if test.outcome == "failed"]
    if failed:
        return f"failed: {', '.join(dict.fromkeys(failed))}"
    skipped = [test.reason for test in tests.values() if test.outcome == "skipped"]
    if skipped:
        return f"not run: {skipped[0]}"
    return f"needs {row.needs}" if row.needs else "passed"


def is_passing(verdict: str) -> bool:
    return verdict == "passed" or verdict.startswith("needs ")


def _shorten_test_name(test: str) -> str:
    return test.rpartition("::")[2].partition("[")[0].partition("@")[0]


def list_verdicts(results: Results) -> list[tuple[Row, str, float]]:
    """Return each row with its verdict and the duration of its tests in seconds."""
    verdicts = []
    for row in ROWS:
        tests = results.get_tests(row)
        verdicts.append((row, determine_row_verdict(row, tests), sum(test.seconds for test in tests.values())))
    return verdicts


def render_markdown(
    results: Results, date: str, machine: str, previous: Mapping[tuple[str, str], str] = MappingProxyType({})
) -> str:
    """Return the text of docs/measurements/mission.md. `previous` maps rows to lines of earlier runs that remain valid."""
    text = [BEGIN, f"Machine: {machine}.", ""]
    every = list_verdicts(results)
    for system, title in SYSTEMS.items():
        text += [f"## {system}. {title}", "", *HEAD]
        text += [
            previous.get((row.system, row.name)) or _format_line(row, verdict, seconds, date)
            for row, verdict, seconds in every
            if row.system == system
        ]
        text.append("")
    text += ["## What is emulated here", "", *_list_emulated([row for row, _, _ in every])]
    return "\n".join(text) + "\n"


def select_kept_lines(page: str, replaced: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the lines to keep from an earlier page: rows that still exist and that this run does not replace."""
    begins = {(row.system, row.name): f"| {row.text} | `{row.command}` | " for row in ROWS}
    return {
        name: line
        for line in page.splitlines()
        for name, begin in begins.items()
        if line.startswith(begin) and name not in replaced
    }


def _format_line(row: Row, verdict: str, seconds: float, date: str) -> str:
    if row.needs and is_passing(verdict):
        verdict = f"{verdict}; elsewhere: {row.elsewhere}"
    safe = verdict.replace("|", "\\|").replace("\n", " ")
    return f"| {row.text} | `{row.command}` | {safe} | {f'{seconds:.0f}' if seconds else ''} | {date if seconds else ''} |"


def _list_emulated(rows: Sequence[Row]) -> list[str]:
    by_words: dict[str, list[str]] = {}
    for row in rows:
        for words in filter(None, row.emulated.split("; ")):
            by_words.setdefault(words, []).append(f"{row.system} {row.name}")
    return [f"- {words}: {', '.join(names)}" for words, names in by_words.items()]
