"""`acceptance`: cost estimate, confirmation prompts and report."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cli import prompts
from cli.clusters.acceptance.acceptance_command import Run, describe_product
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


def test_prices_add_up() -> None:
    bill = Bill("us-east-1", {"g6.8xlarge": 2, "m7i.large": 1}, eks=True)
    assert bill.known == pytest.approx(2 * 2.0144 + 0.1008 + 0.10)
    assert str(bill) == "4.23 USD/h"
    assert bill.plus({"g6.8xlarge": 1}).known == pytest.approx(bill.known + 2.0144)


def test_a_price_that_is_not_listed_is_unknown_and_never_zero() -> None:
    bill = Bill("us-west-2", {"p5e.48xlarge": 2, "m7i.large": 1}, eks=False)
    assert str(bill) == "unknown: 0.10 USD/h and the price of 2 x p5e.48xlarge in us-west-2"
    assert bill.as_json() == {"usdPerHour": None, "unknown": ["p5e.48xlarge"], "instances": {"p5e.48xlarge": 2, "m7i.large": 1}}
    assert str(Bill("us-west-2", {"c8g.large": 4}, eks=False)) == "unknown: the price of 4 x c8g.large in us-west-2"
    assert bill.lines() == ["1 x m7i.large: 0.10 USD/h", "2 x p5e.48xlarge: unknown"]
    assert Bill("eu-west-1", {"p5.48xlarge": 1}, eks=True).unknown == ["p5.48xlarge"]
    assert str(Bill("mx-central-1", {}, eks=True)) == "unknown: the price of EKS in mx-central-1"


def test_types_without_instances_do_not_make_a_bill_unknown() -> None:
    assert str(Bill("us-east-1", {"never-heard.of": 0}, eks=True)) == "0.10 USD/h"


def test_the_cost_names_its_date_and_what_it_leaves_out() -> None:
    lines = Cost(Bill("us-east-1", {}, eks=True), Bill("us-east-1", {"p5.48xlarge": 1}, eks=True), ["starts one"]).lines()
    assert lines[0] == "cost of what runs: 0.10 USD/h"
    assert "at most during acceptance: 55.14 USD/h" in lines
    assert "prices of 2026-07-20" in lines[-1] and "without NAT gateways" in lines[-1]


# --- questions


def test_without_a_terminal_only_yes_starts() -> None:
    prompts.confirm("Start?", "cost", "started", yes=True, terminal=False)
    with pytest.raises(CommandError, match=r"stdin is not a terminal\. Add --yes") as refused:
        prompts.confirm("Start?", "cost", "started", yes=False, terminal=False)
    assert refused.value.code == 3


@pytest.mark.parametrize(("answer", "starts"), [("y", True), ("Yes", True), ("", False), ("n", False)])
def test_the_cost_must_be_confirmed(answer: str, starts: bool) -> None:
    if starts:
        prompts.confirm("Start?", "cost", "started", yes=False, terminal=True, ask=lambda question: answer)
    else:
        with pytest.raises(CommandError, match="nothing was started"):
            prompts.confirm("Start?", "cost", "started", yes=False, terminal=True, ask=lambda question: answer)


@pytest.mark.parametrize("typed", ["", "y", "yes", "loca", "LOCAL"])
def test_destroying_needs_the_exact_name(typed: str) -> None:
    prompts.confirm_destroy("local", terminal=True, ask=lambda question: "local")
    with pytest.raises(CommandError, match="nothing was started or destroyed"):
        prompts.confirm_destroy("local", terminal=True, ask=lambda question: typed)
    with pytest.raises(CommandError, match="--destroy needs a terminal"):
        prompts.confirm_destroy("local", terminal=False, ask=lambda question: "local")


# --- report


def test_a_report_is_ok_only_if_it_is_complete_and_every_row_ran() -> None:
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


def test_both_files_have_the_rows_the_evidence_and_what_was_left_out(tmp_path: Path) -> None:
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


def test_the_product_names_its_version_and_commit() -> None:
    assert describe_product().startswith("gpumpi 0.") and "commit" in describe_product()


class FakeTarget:
    kind, cluster, region = "eks", "gpumpi-local", "us-west-2"

    def __init__(self, *left: str) -> None:
        self.cleaned, self.left = 0, list(left)

    def foreign(self) -> list[str]:
        return []

    def emulated(self) -> dict[str, str]:
        return {}

    def plan(self) -> Plan:
        raise NotImplementedError

    def clean(self) -> list[str]:
        self.cleaned += 1
        return self.left


def silent(line: str) -> None:
    """Report nothing."""


def looks(notes: Notebook) -> None:
    notes.saw("a command", "a value")


def test_an_interrupt_cleans_up_and_leaves_an_incomplete_report(tmp_path: Path) -> None:
    def interrupted(notes: Notebook) -> None:
        raise KeyboardInterrupt

    target = FakeTarget()
    plan = Plan([Check("one", looks), Check("two", interrupted), Check("three", looks)], NO_COST)
    destroyed: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        Run(target, plan, FIRST, tmp_path).all(Check("destroy", destroyed.append), silent)
    assert target.cleaned == 1 and destroyed == []
    document = json.loads((tmp_path / f"{FIRST.file_stem}.json").read_text())
    assert (document["complete"], document["ok"], [row["name"] for row in document["rows"]]) == (False, False, ["one"])
    assert "INCOMPLETE" in (tmp_path / f"{FIRST.file_stem}.md").read_text()


def test_a_complete_run_cleans_up_and_then_destroys(tmp_path: Path) -> None:
    target = FakeTarget()
    report = Run(target, Plan([Check("one", looks)], NO_COST), FIRST, tmp_path).all(Check("destroy", looks), silent)
    assert report.ok and target.cleaned == 1
    assert [row.name for row in report.rows] == ["one", "destroy"]


def test_what_could_not_be_cleaned_up_is_in_the_report(tmp_path: Path) -> None:
    report = Run(FakeTarget("job x is left"), Plan([Check("one", looks)], NO_COST), FIRST, tmp_path).all(None, silent)
    assert not report.ok and report.notes == ("job x is left",)
