"""A demo reports separately the steps that ran and the steps that this machine cannot run."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.demo.steps import Steps, StepSkipped, require

pytestmark = pytest.mark.usefixtures("restore_process_state")


class Three(Steps):
    """A demo whose second step needs another machine."""

    name, stack_name, title, goes_on = "demo", "local", "A demo.", "nothing"
    fails = False

    def steps(self) -> None:
        self.step("first", lambda: "done")
        self.step("second", self.skip_second_step)
        self.step("third", self.run_third_step)

    def skip_second_step(self) -> str:
        raise StepSkipped("this machine has no GPU")

    def run_third_step(self) -> str:
        require(not self.fails, "broken")
        return "done"


class Failing(Three):
    fails = True


def show_steps(steps: type[Steps], folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, Any]], str]:
    code = steps.run_and_report(as_json=True, folder=folder)
    said = capsys.readouterr()
    return code, json.loads(said.out), said.err


def test_demo_continues_after_a_skipped_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, steps, said = show_steps(Three, tmp_path, capsys)
    assert [(step["step"], step["ok"], step["skipped"]) for step in steps] == [
        ("first", True, False),
        ("second", False, True),
        ("third", True, False),
    ]
    assert (code, steps[1]["detail"]) == (0, "this machine has no GPU")
    rows = [line.split() for line in said.splitlines() if line.startswith("second ")]
    assert rows[-1][:2] == ["second", "skipped"]


def test_failed_step_after_a_skipped_step_fails_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, steps, _ = show_steps(Failing, tmp_path, capsys)
    assert (code, steps[2]["ok"], steps[2]["skipped"]) == (1, False, False)
