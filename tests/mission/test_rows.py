"""Every mission row has a test or is listed in NOT_YET, and the table shows the outcomes of the tests."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from tests.mission import table
from tests.mission.rows import NOT_YET, ROWS, SYSTEMS, Hardware, Row, row_of
from tests.mission.table import Results

TESTS = Path(__file__).parents[1]
INFRA = TESTS.parent / "infra"
PAGE = TESTS.parent / "docs" / "mission.md"
FRAMEWORKS = ("chainer", "tensorflow", "keras", "horovod", "pytorch", "jax")


def marked() -> Iterator[tuple[str, str]]:
    """Yield the rows that `mission` markers name in all test files."""
    for file in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "mission":
                system, name = (ast.literal_eval(argument) for argument in node.args)
                yield system, name


def test_every_row_has_a_test_or_is_listed_in_not_yet() -> None:
    proven = set(marked())
    rows = {(row.system, row.name) for row in ROWS}
    assert proven <= rows, "a marker names a row that does not exist"
    assert rows - proven == NOT_YET, "NOT_YET must list exactly the rows without a test"


def test_row_names_are_unique_and_rows_lack_only_known_hardware() -> None:
    assert len({(row.system, row.name) for row in ROWS}) == len(ROWS)
    assert {row.system for row in ROWS} == set(SYSTEMS)
    assert all(row.elsewhere for row in ROWS if row.needs)
    assert {row.needs for row in ROWS if row.needs} <= set(get_args(Hardware))


ROW = Row("A", "hostfile", "text", "command")
NEEDY = Row("A", "hostfile", "text", "command", needs="EFA", elsewhere="there")


def results(*outcomes: tuple[str, table.Outcome, str]) -> Results:
    found = Results()
    for test, outcome, reason in outcomes:
        found.add(("A", "hostfile"), test, outcome, 1.5, reason)
    return found


VERDICTS = [
    (ROW, [], "not run"),
    (Row("E", "unproven", "text", "command"), [], "missing"),
    (ROW, [("t.py::test_a", "passed", ""), ("t.py::test_a", "passed", "")], "passed"),
    (ROW, [("t.py::test_a[1]", "passed", ""), ("t.py::test_a[2]", "failed", "")], "failed: test_a"),
    (ROW, [("t.py::test_a", "passed", ""), ("t.py::test_a", "failed", "")], "failed: test_a"),
    (ROW, [("t.py::test_a", "passed", ""), ("t.py::test_b", "skipped", "no root")], "not run: no root"),
    (NEEDY, [("t.py::test_a", "passed", "")], "needs EFA"),
    (NEEDY, [], "not run"),
    (NEEDY, [("t.py::test_a", "skipped", "no GPU")], "not run: no GPU"),
]


@pytest.mark.parametrize(("row", "outcomes", "expected"), VERDICTS, ids=[str(number) for number in range(len(VERDICTS))])
def test_a_row_passes_only_if_all_its_tests_ran_and_passed(
    monkeypatch: pytest.MonkeyPatch, row: Row, outcomes: list[tuple[str, table.Outcome, str]], expected: str
) -> None:
    monkeypatch.setattr(table, "NOT_YET", frozenset({("E", "unproven")}))
    verdict = table.result(row, results(*outcomes).of(row))
    assert verdict == expected
    assert table.is_good(verdict) == (expected in ("passed", "needs EFA"))


def test_the_table_has_every_row_with_its_result_and_seconds() -> None:
    text = table.markdown(results(("t.py::test_a", "passed", ""), ("t.py::test_a", "passed", "")), "today, here")
    assert (text.count("| missing |  |"), text.count("| not run |  |")) == (len(NOT_YET), len(ROWS) - len(NOT_YET) - 1)
    row = row_of("A", "hostfile")
    assert f"| {row.text} | `{row.command}` | passed | 3 |" in text
    assert "Taken: today, here." in text


def test_the_committed_table_has_the_current_rows() -> None:
    if not PAGE.exists():
        pytest.skip("make mission has not been completed yet")
    committed = re.findall(r"^\| (.+?) \| `(.+?)` \| ", PAGE.read_text(), re.MULTILINE)
    assert committed == [(row.text, row.command) for row in ROWS], "update it with: make mission"


@pytest.mark.mission("B", "any framework")
def test_nothing_in_the_platform_depends_on_a_framework() -> None:
    """Frameworks appear only in jobs' commands; the launchers are torchrun and MPI."""
    files = [file for folder in ("platform", "components", "boot") for file in (INFRA / folder).rglob("*.py")]
    assert len(files) > 20
    found = [f"{file.name}: {word}" for file in files for word in FRAMEWORKS if word in file.read_text().lower()]
    assert found == []
