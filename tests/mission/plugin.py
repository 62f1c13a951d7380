"""Pytest plugin (`-p tests.mission.plugin`) that reports the result of each mission row; `--mission-table FILE` writes it.

Test reports contain their rows, so the plugin works under xdist. The run fails if a row does not pass, unless it needs
hardware that this machine lacks.
"""

from pathlib import Path
from typing import Any

import pytest

from bench.platform_cluster import machine
from tests.mission import table
from tests.mission.rows import row_of
from tests.mission.table import Outcome, Results

PROPERTY = "mission"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mission-table", type=Path, help="Markdown file for the mission table")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reporter(config), "mission-reporter")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("mission"):
            system, name = mark.args
            row_of(system, name)
            item.user_properties.append((PROPERTY, [system, name]))


class Reporter:
    """Collect the test reports of all xdist workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._file: Path | None = config.getoption("--mission-table")
        self._results = Results()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome: Outcome = report.outcome
        for name, value in report.user_properties:
            if name == PROPERTY:
                system, row = value
                self._results.add((system, row), report.nodeid, outcome, report.duration, _reason(report))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._file is not None:
            about = machine()
            self._file.write_text(table.markdown(self._results, f"{about['date']}, on {about['machine']}"))
        bad = [row for row, verdict, _ in table.lines(self._results) if not table.is_good(verdict)]
        if bad and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("mission")
        for row, verdict, seconds in table.lines(self._results):
            terminalreporter.line(f"{row.system}  {row.name:24} {seconds:6.0f} s  {verdict}", green=table.is_good(verdict))


def _reason(report: pytest.TestReport) -> str:
    if not report.skipped:
        return ""
    told: Any = report.longrepr  # a tuple (file, line, reason), which xdist workers send as a list
    return str(told[-1] if isinstance(told, tuple | list) else told).removeprefix("Skipped: ")
