"""Extraction of training steps from log lines."""

import re

import pytest

from cli.jobs.records import JobRecord
from infra.jobs.progress import find_pattern_problem
from infra.platform.job_controller.in_pod import progress, steps
from infra.platform.job_controller.in_pod.progress import Seen
from infra.platform.job_controller.in_pod.steps import Step
from tests.docs.tables import ROOT
from tests.pure.controlled_jobs import Controlled, make_job, make_launcher, make_main_object, make_timestamp, make_workers
from workloads import progress as helper

WITHIN = {"progress": {"pattern": r"step (\d+)", "within": 60}}


def test_pattern_that_takes_too_long_is_aborted() -> None:
    lines = [(make_timestamp(1), "a" * 100 + "!")]
    with pytest.raises(steps.TooSlow):
        steps.find_steps(lines, "(a+)+$", limit=0.1)
    loop = Controlled()
    managed = make_job(make_main_object(policy=WITHIN), [*make_workers(uid="uid"), make_launcher(1)])
    loop.run_round(managed, 20)
    loop.run_round(managed, 30, seen=Seen("uid-train-launcher-1", is_too_slow=True))
    assert loop["progressProblem"] == progress.TOO_SLOW
    assert loop.record is not None and progress.find_log(loop.record, managed) is None
    assert JobRecord("train-record", loop.record).hang == progress.TOO_SLOW


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"step (\d+)", "[1,0]<stdout>:step 12 loss 0.3", [Step("t", 12)]),
        (r"(?P<loss>\S+) at (?P<step>\d+), saved in (?P<saved>[\d.]+) s", "0.3 at 12, saved in 1.25 s", [Step("t", 12, 1250)]),
        (r"step (\w+)", "step one", []),
        (r"step (\d+)?", "step", []),
        ("(", "step 1", []),
    ],
)
def test_step_number_is_parsed_from_a_line(pattern: str, text: str, expected: list[Step]) -> None:
    assert steps.find_steps([("t", text)], pattern) == expected


def test_progress_helper_output_matches_the_documented_pattern(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = re.search(r"pattern: '(gpumpi-progress .*)'", (ROOT / "docs/guides/restarts.md").read_text())
    assert pattern
    for rank in ("0", "1"):
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", rank)
        helper.report(7, 1.25)
        helper.report(8, times=[0.5, 0.4, 1.2, 0.6])
    lines = [("t", line) for line in capsys.readouterr().out.splitlines()]
    assert steps.find_steps(lines, pattern[1]) == [Step("t", 7, 1250), Step("t", 8, 0, 2, 2.18)]
    assert find_pattern_problem(pattern[1]) is None
