"""`acceptance`: cost estimate, confirmation prompts and report."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cli import prompts
from cli.clusters.acceptance.acceptance_command import Run, describe_program_version
from cli.clusters.acceptance.report import Check, Evidence, LeftOut, Notebook, Report, Row
from cli.clusters.acceptance.target import Bill, Cost, Plan
from cli.errors import CommandError

PASSED = Row("versions", "passed", "", 2.0, (Evidence("node a", "v1.35.0"),))
FIRST = Report(
    stack="local",
    cluster="gpumpi-local",
    target="eks",
    region="us-west-2",
    level="nccl",
    product="gpumpi 0.1.0",
    started=datetime(2026, 11, 23, 3, 4, 5, tzinfo=UTC),
    devices="hardware",
    cost={"text": "now 1.00 USD/h"},
)
NO_COST = Cost(Bill("us-east-1", {}, eks=True), Bill("us-east-1", {}, eks=True))


# --- cost


def test_total_cost_is_sum_of_prices() -> None:
    bill = Bill("us-east-1", {"g6.8xlarge": 2, "m7i.large": 1}, eks=True)
    assert bill.known_total == pytest.approx(2 * 2.0144 + 0.1008 + 0.10)
    assert str(bill) == "4.23 USD/h"
    assert bill.plus({"g6.8xlarge": 1}).known_total == pytest.approx(bill.known_total + 2.0144)


def test_unlisted_price_is_unknown_rather_than_zero() -> None:
    bill = Bill("us-west-2", {"p5e.48xlarge": 2, "m7i.large": 1}, eks=False)
    assert str(bill) == "unknown: 0.10 USD/h and the price of 2 x p5e.48xlarge in us-west-2"
    assert bill.as_json() == {"usdPerHour": None, "unknown": ["p5e.48xlarge"], "instances": {"p5e.48xlarge": 2, "m7i.large": 1}}
    assert str(Bill("us-west-2", {"c8g.large": 4}, eks=False)) == "unknown: the price of 4 x c8g.large in us-west-2"
    assert bill.lines() == ["1 x m7i.large: 0.10 USD/h", "2 x p5e.48xlarge: unknown"]
    assert Bill("eu-west-1", {"p5.48xlarge": 1}, eks=True).unknown == ["p5.48xlarge"]
    assert str(Bill("mx-central-1", {}, eks=True)) == "unknown: the price of EKS in mx-central-1"


def test_types_without_instances_leave_cost_known() -> None:
    assert str(Bill("us-east-1", {"never-heard.of": 0}, eks=True)) == "0.10 USD/h"


def test_cost_estimate_shows_price_date_and_excluded_items() -> None:
    lines = Cost(Bill("us-east-1", {}, eks=True), Bill("us-east-1", {"p5.48xlarge": 1}, eks=True), ["starts one"]).lines()
    assert lines[0] == "cost of what runs: 0.10 USD/h"
    assert "at most during acceptance: 55.14 USD/h" in lines
    assert "prices of 2026-07-20" in lines[-1] and "without NAT gateways" in lines[-1]


# --- questions


def test_noninteractive_run_starts_only_with_yes_flag() -> None:
    prompts.confirm("Start?", "cost", "started", yes=True, terminal=False)
    with pytest.raises(CommandError, match=r"stdin is not a terminal\. Add --yes") as refused:
        prompts.confirm("Start?", "cost", "started", yes=False, terminal=False)
    assert refused.value.code == 3


@pytest.mark.parametrize(("answer", "starts"), [("y", True), ("Yes", True), ("", False), ("n", False)])
def test_cost_must_be_confirmed_before_start(answer: str, starts: bool) -> None:
    if starts:
        prompts.confirm("Start?", "cost", "started", yes=False, terminal=True, ask=lambda question: answer)
    else:
        with pytest.raises(CommandError, match="nothing was started"):
            prompts.confirm("Start?", "cost", "started", yes=False, terminal=True, ask=lambda question: answer)


@pytest.mark.parametrize("typed", ["", "y", "yes", "loca", "LOCAL"])
def test_destroy_requires_exact_stack_name(typed: str) -> None:
    prompts.confirm_destroy("local", terminal=True, ask=lambda question: "local")
    with pytest.raises(CommandError, match="nothing was started or destroyed"):
        prompts.confirm_destroy("local", terminal=True, ask=lambda question: typed)
    with pytest.raises(CommandError, match="--destroy needs a terminal"):
        prompts.confirm_destroy("local", terminal=False, ask=lambda question: "local")


# --- report


def test_report_is_ok_only_if_complete_and_every_check_ran() -> None:
    done = replace(FIRST, rows=(PASSED,), complete=True)
    other = Row("cuda", "not on this hardware", "no GPU")
    assert done.ok and replace(done, rows=(PASSED, other)).ok
    for wrong in (
        replace(done, complete=False),
        replace(done, rows=()),
        replace(done, rows=(PASSED, Row("x", "failed", "broken"))),
        replace(done, rows=(PASSED, Row("x", "not run", "an earlier check did not pass"))),
        replace(done, notes=("a job is left",)),
    ):
        assert not wrong.ok


def test_json_and_markdown_reports_contain_results_evidence_and_skipped_checks(tmp_path: Path) -> None:
    report = replace(
        FIRST,
        rows=(PASSED, Row("cuda", "not on this hardware", "no | GPU", 0.5)),
        left_out=(LeftOut("scale", "no autoscaler"),),
        complete=True,
    )
    files = report.write(tmp_path / "new")
    assert [file.name for file in files] == ["acceptance-local-2026-11-23.json", "acceptance-local-2026-11-23.md"]
    document = json.loads(files[0].read_text())
    assert (document["schema"], document["ok"], document["complete"], document["product"]) == (1, True, True, "gpumpi 0.1.0")
    assert document["date"] == "2026-11-23T03:04:05+00:00"
    assert document["rows"][0]["evidence"] == [{"source": "node a", "value": "v1.35.0"}]
    assert document["leftOut"] == [{"name": "scale", "reason": "no autoscaler"}]
    text = files[1].read_text()
    assert "| versions | passed | 2.0 |  |" in text
    assert "| cuda | not on this hardware | 0.5 | no \\| GPU |" in text
    assert "| scale | (left out) | | no autoscaler |" in text
    assert "| versions | node a | v1.35.0 |" in text
    assert "complete; 1 passed, 1 not on this hardware" in text


def test_product_description_has_version_and_commit() -> None:
    assert describe_program_version().startswith("gpumpi 0.") and "commit" in describe_program_version()


class FakeTarget:
    kind, cluster, region = "eks", "gpumpi-local", "us-west-2"

    def __init__(self, *left: str) -> None:
        self.cleaned, self.left = 0, list(left)

    def list_foreign_jobs(self) -> list[str]:
        return []

    def read_device_declarations(self) -> dict[str, str]:
        return {}

    def plan(self) -> Plan:
        raise NotImplementedError

    def clean_up(self) -> list[str]:
        self.cleaned += 1
        return self.left


def discard_line(line: str) -> None:
    """Report nothing."""


def record_observation(notes: Notebook) -> None:
    notes.record_evidence("a command", "a value")


def test_interrupt_triggers_cleanup_and_leaves_incomplete_report(tmp_path: Path) -> None:
    def raise_interrupt(notes: Notebook) -> None:
        raise KeyboardInterrupt

    target = FakeTarget()
    plan = Plan([Check("one", record_observation), Check("two", raise_interrupt), Check("three", record_observation)], NO_COST)
    destroyed: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        Run(target, plan, FIRST, tmp_path).run_all_rows(Check("destroy", destroyed.append), discard_line)
    assert target.cleaned == 1 and destroyed == []
    document = json.loads((tmp_path / f"{FIRST.file_stem}.json").read_text())
    assert (document["complete"], document["ok"], [row["name"] for row in document["rows"]]) == (False, False, ["one"])
    assert "INCOMPLETE" in (tmp_path / f"{FIRST.file_stem}.md").read_text()


def test_complete_run_cleans_up_before_destroying(tmp_path: Path) -> None:
    target = FakeTarget()
    report = Run(target, Plan([Check("one", record_observation)], NO_COST), FIRST, tmp_path).run_all_rows(
        Check("destroy", record_observation), discard_line
    )
    assert report.ok and target.cleaned == 1
    assert [row.name for row in report.rows] == ["one", "destroy"]


def test_report_lists_failed_cleanup(tmp_path: Path) -> None:
    report = Run(FakeTarget("job x is left"), Plan([Check("one", record_observation)], NO_COST), FIRST, tmp_path).run_all_rows(
        None, discard_line
    )
    assert not report.ok and report.notes == ("job x is left",)
