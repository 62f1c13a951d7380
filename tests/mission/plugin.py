"""Pytest plugin (`-p tests.mission.plugin`) that reports the result of each mission row.

`--mission-table FILE` writes the table of all rows to a file.

Each test report contains its row, so the plugin works under xdist. The run fails if a row does not pass, unless the row
needs hardware that this machine lacks. Rows whose tests did not all run keep the result of an earlier run.
"""

from pathlib import Path
from typing import Any

import pytest

from bench.platform_cluster import describe_machine
from tests.mission import table
from tests.mission.marks import find_marked_tests
from tests.mission.rows import ROWS, Row, find_row
from tests.mission.table import Outcome, Results

PROPERTY = "mission"
DESELECTED = "mission_deselected"
"""Key under which an xdist worker sends the rows with deselected tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mission-table", type=Path, help="Markdown file for the mission table")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--mission-table") and any("[" in argument for argument in config.args):
        raise pytest.UsageError("--mission-table needs whole tests: a row would pass although only some cases of a test ran")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reporter(config), "mission-reporter")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("mission"):
            system, name = mark.args
            find_row(system, name)
            item.user_properties.append((PROPERTY, [system, name]))


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Record the rows with deselected tests in the configuration, which all items share."""
    for item in items:
        rows = [value for name, value in item.user_properties if name == PROPERTY]
        _list_deselected_rows(item.config).extend(rows)


def _list_deselected_rows(config: pytest.Config) -> list[list[str]]:
    storage: dict[str, Any] = getattr(config, "workeroutput", None) or config.__dict__
    rows: list[list[str]] = storage.setdefault(DESELECTED, [])
    return rows


class Reporter:
    """Collect the test reports of all xdist workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._file: Path | None = config.getoption("--mission-table")
        self._results = Results()
        self._deselected = _list_deselected_rows(config)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._deselected.extend(getattr(node, "workeroutput", {}).get(DESELECTED, []))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome: Outcome = report.outcome
        for name, value in report.user_properties:
            if name == PROPERTY:
                system, row = value
                self._results.add((system, row), report.nodeid, outcome, report.duration, _get_skip_reason(report))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        whole = self._list_complete_rows()
        if self._file is not None:
            about = describe_machine()
            page = self._file.read_text() if self._file.exists() else ""
            previous = table.select_kept_lines(page, whole)
            self._file.write_text(table.render_markdown(self._results, str(about["date"]), str(about["machine"]), previous))
        bad = [row for row, verdict, _ in self._list_complete_verdicts(whole) if not table.is_passing(verdict)]
        if bad and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("mission")
        for row, verdict, seconds in self._list_complete_verdicts(self._list_complete_rows()):
            terminalreporter.line(f"{row.system}  {row.name:24} {seconds:6.0f} s  {verdict}", green=table.is_passing(verdict))

    def _list_complete_rows(self) -> set[tuple[str, str]]:
        """Return the rows whose tests all ran, and the rows without a test."""
        lost = {(system, name) for system, name in self._deselected}
        ran = {(row.system, row.name): {strip_parameters(name) for name in self._results.get_tests(row)} for row in ROWS}
        return {(row.system, row.name) for row in ROWS if find_marked_tests(row) <= ran[row.system, row.name]} - lost

    def _list_complete_verdicts(self, rows: set[tuple[str, str]]) -> list[tuple[Row, str, float]]:
        return [line for line in table.list_verdicts(self._results) if (line[0].system, line[0].name) in rows]


def strip_parameters(id: str) -> str:
    """Return a test's ID without the parameters in brackets and without the group name that xdist appends.

    >>> [strip_parameters(id) for id in ("t.py::test_a[1]@jobs", "t.py::test_a@jobs", "t.py::test_a")]
    ['t.py::test_a', 't.py::test_a', 't.py::test_a']
    """
    return id.partition("[")[0].partition("@")[0]


def _get_skip_reason(report: pytest.TestReport) -> str:
    if not report.skipped:
        return ""
    reason: Any = report.longrepr  # a tuple (file, line, reason), which xdist workers send as a list
    return str(reason[-1] if isinstance(reason, tuple | list) else reason).removeprefix("Skipped: ")
