"""Every mission row has a test or is listed in NOT_YET, and the table shows the outcomes of the tests."""

import re
from pathlib import Path
from typing import get_args

import pytest

from cli.demo.ec2_demo import RANKS
from tests.mission import commands, table
from tests.mission.commands import Evidence
from tests.mission.marks import find_marked_tests, list_markers
from tests.mission.rows import NOT_YET, ROWS, SYSTEMS, Hardware, Row, find_row
from tests.mission.table import Results

TESTS = Path(__file__).parents[1]
INFRA = TESTS.parent / "infra"
PAGE = TESTS.parent / "docs" / "measurements" / "mission.md"
FRAMEWORKS = ("chainer", "tensorflow", "keras", "horovod", "pytorch", "jax")
FOREIGN_KINDS = ("pytorchjob",)
"""Job kinds of other operators that Kueue admits and whose names contain a framework's name."""
READS_DUMPS = "dump_nccl.py"
"""Script that reads the dumps of hanging jobs. It may name a framework, because only PyTorch has a flight recorder."""


@pytest.fixture(scope="module")
def evidence() -> dict[tuple[str, str], list[Evidence]]:
    """Maps a row to the programs that its tests run."""
    by_row: dict[tuple[str, str], list[Evidence]] = {}
    for row, file, function in list_markers():
        by_row.setdefault(row, []).append(commands.collect_evidence(file, function))
    return by_row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.system} {row.name}")
def test_the_tests_of_a_row_run_the_command_of_the_row(row: Row, evidence: dict[tuple[str, str], list[Evidence]]) -> None:
    for command in row.command.split("; "):
        assert any(test.has_command(command) for test in evidence[row.system, row.name]), f"no test of the row runs: {command}"


@pytest.mark.parametrize(
    ("row", "command"),
    [
        (("A", "rights"), "kubectl auth whoami"),
        (("A", "rights"), "kubectl auth can-i --list"),
        (("B", "every MPI"), "scripts/cluster smoke --mpi Cray"),
        (("B", "tensorflow-benchmarks"), "scripts/cluster submit workloads/pytorch-ddp/job.yaml --follow"),
        (("C", "placement group"), "pulumi up"),
        (("C", "placement group"), "pytest tests/program/test_storage.py"),
        (("C", "MNIST on four nodes"), "make mission"),
        (("E", "kubeadm"), "kubeadm join --token TOKEN"),
    ],
)
def test_a_command_that_no_test_of_the_row_runs_is_detected(
    row: tuple[str, str], command: str, evidence: dict[tuple[str, str], list[Evidence]]
) -> None:
    """Check that the previous test can fail."""
    assert not any(test.has_command(command) for test in evidence[row])


def test_the_ec2_demo_row_states_the_real_sizes_of_the_demo() -> None:
    row = find_row("C", "MNIST on four nodes")
    ranks = RANKS[RANKS.index("-n") + 1]
    assert f"{ranks} ranks on CPUs: `{' '.join(RANKS)}`" in row.emulated
    assert "-n 32 -N 8" in row.text and row.needs == "32 GPUs"


@pytest.mark.parametrize("system", ["D", "E"])
def test_device_plugin_rows_require_the_nvidia_runtime(system: str) -> None:
    row = find_row(system, "device plugin")
    assert row.needs == "NVIDIA container runtime" and "emulator" in row.emulated


def test_every_acceptance_row_has_a_test_or_is_listed_in_not_yet() -> None:
    proven = {row for row, _, _ in list_markers()}
    rows = {(row.system, row.name) for row in ROWS}
    assert proven <= rows, "a marker names a row that does not exist"
    assert rows - proven == NOT_YET, "NOT_YET must list exactly the rows without a test"


def test_row_names_are_unique_and_rows_require_only_known_hardware() -> None:
    assert len({(row.system, row.name) for row in ROWS}) == len(ROWS)
    assert {row.system for row in ROWS} == set(SYSTEMS)
    assert all(row.elsewhere for row in ROWS if row.needs)
    assert {row.needs for row in ROWS if row.needs} <= set(get_args(Hardware))


ROW = Row("A", "hostfile", "text", "command")
NEEDY = Row("A", "hostfile", "text", "command", needs="EFA", elsewhere="there")


def make_results(*outcomes: tuple[str, table.Outcome, str]) -> Results:
    collected = Results()
    for test, outcome, reason in outcomes:
        collected.add(("A", "hostfile"), test, outcome, 1.5, reason)
    return collected


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
    verdict = table.determine_row_verdict(row, make_results(*outcomes).get_tests(row))
    assert verdict == expected
    assert table.is_passing(verdict) == (expected in ("passed", "needs EFA"))


def test_the_table_lists_every_row_with_result_seconds_and_date() -> None:
    text = table.render_markdown(make_results(("t.py::test_a", "passed", ""), ("t.py::test_a", "passed", "")), "today", "here")
    assert (text.count("| missing |  |"), text.count("| not run |  |")) == (len(NOT_YET), len(ROWS) - len(NOT_YET) - 1)
    row = find_row("A", "hostfile")
    assert f"| {row.text} | `{row.command}` | passed | 3 | today |" in text
    assert "Machine: here." in text


def test_a_partial_test_run_replaces_only_rows_whose_tests_all_ran() -> None:
    before = table.render_markdown(make_results(("t.py::test_a", "passed", "")), "yesterday", "here")
    rights = find_row("A", "rights")
    now = make_results(("t.py::test_a", "failed", ""))
    now.add(("A", "rights"), "t.py::test_b", "passed", 2.0)
    after = table.render_markdown(now, "today", "here", table.select_kept_lines(before, {("A", "rights")}))
    changed = set(after.splitlines()) - set(before.splitlines())
    assert changed == {f"| {rights.text} | `{rights.command}` | passed | 2 | today |"}


def test_a_row_is_complete_only_if_no_test_was_deselected() -> None:
    row = find_row("A", "rights")
    assert find_marked_tests(row) == {
        "tests/kubernetes/test_rights.py::" + name for name in find_test_names("kubernetes/test_rights.py", row)
    }


def find_test_names(file: str, row: Row) -> set[str]:
    marker = f'@pytest.mark.mission("{row.system}", "{row.name}")'
    return set(re.findall(re.escape(marker) + r"\n(?:@.*\n)*def (\w+)", (TESTS / file).read_text()))


def test_the_committed_table_has_the_current_rows() -> None:
    if not PAGE.exists():
        pytest.skip("make mission has not been completed yet")
    committed = re.findall(r"^\| (.+?) \| `(.+?)` \| ", PAGE.read_text(), re.MULTILINE)
    assert committed == [(row.text, row.command) for row in ROWS], "update it with: make mission"


def test_the_committed_page_states_what_is_emulated_in_the_current_rows() -> None:
    page = PAGE.read_text()
    assert [line for line in table._list_emulated(ROWS) if line not in page.splitlines()] == [], "update it with: make mission"


def test_every_mission_marker_is_a_decorator_of_a_test() -> None:
    """Only markers that are decorators are read. If the marker were elsewhere, for example on a single case, a row could
    pass without that test.
    """
    files = [file for file in TESTS.rglob("*.py") if file.parent.name != "mission"]
    written = sum(file.read_text().count("mark.mission(") for file in files)
    assert written == sum(file.parent.name != "mission" for _, file, _ in list_markers())


@pytest.mark.mission("B", "any framework")
def test_the_platform_does_not_depend_on_a_training_framework() -> None:
    """Frameworks appear only in jobs' commands; the launchers are torchrun and MPI."""
    files = [
        file
        for folder in ("platform", "components", "boot")
        for file in (INFRA / folder).rglob("*.py")
        if file.name != READS_DUMPS
    ]
    assert len(files) > 20
    mentions = [f"{file.name}: {word}" for file in files for word in FRAMEWORKS if word in remove_foreign_kinds(file)]
    assert mentions == []


def remove_foreign_kinds(file: Path) -> str:
    return re.sub("|".join(FOREIGN_KINDS), "", file.read_text().lower())
