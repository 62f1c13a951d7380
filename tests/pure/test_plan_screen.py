"""Screen output of `plan` at three terminal widths. `UPDATE_GOLDEN=1` rewrites the golden files."""

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from cli.stacks.plan.changes import Change, Changes
from cli.stacks.plan.plan_report import Report
from cli.stacks.plan.plan_screen import render_report
from infra.checks.model import Answer, build_negative_answer, build_unknown_answer
from infra.inventory.bill import compute_bill
from tests.pure.bill_world import load_stack, make_prices

GOLDEN = Path(__file__).parents[1] / "golden" / "plan"
QUOTA = (
    'pools[0].maxSize: 4 p4d.24xlarge need 384 vCPUs, but the quota "Running On-Demand P instances" is 0. Request an increase '
    "(`aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-417A185B --desired-value 384 --region "
    "us-west-2`) or lower maxSize."
)
WARNING = 'target.endpointAccess.publicCidrs[0]: "203.0.113.0/24" is reserved for documentation (RFC 5737).'
REPORTS = {
    "refused": Report(
        "gpumpi-02-p4d-efa: EKS cluster, Kubernetes 1.35, in us-west-2; account 123456789012",
        "02-p4d-efa",
        "us-west-2",
        (
            Answer("stack file", "yes", warnings=(WARNING,)),
            Answer("instance types and zones", "yes"),
            build_negative_answer("vCPU quotas", QUOTA),
            build_unknown_answer("permissions", "you are not allowed to call iam:SimulatePrincipalPolicy"),
        ),
        compute_bill(load_stack("02-p4d-efa"), None, make_prices()),
        Changes({"create": 87}),
    ),
    "replaced": Report(
        "gpumpi-07-targeted-odcr: EKS cluster, Kubernetes 1.35, in us-west-2; account 123456789012",
        "07-targeted-odcr",
        "us-west-2",
        (Answer("stack file", "yes"), Answer("vCPU quotas", "yes")),
        compute_bill(load_stack("07-targeted-odcr"), None, make_prices()),
        Changes(
            {"replace": 1, "update": 2},
            (
                Change(
                    "train",
                    "aws:eks/nodeGroup:NodeGroup",
                    "replace",
                    "EKS drains its nodes: running jobs restart on the new ones",
                ),
            ),
        ),
        has_unreserved=False,
    ),
    "offline": Report(
        "gpumpi-03-p5-capacity-block: EKS cluster, Kubernetes 1.35, in us-west-2",
        "03-p5-capacity-block",
        "us-west-2",
        (
            Answer("stack file", "yes"),
            build_unknown_answer("instance types and zones", "only the file was checked"),
            build_unknown_answer("vCPU quotas", "only the file was checked"),
        ),
        compute_bill(load_stack("03-p5-capacity-block"), None, make_prices()),
        Changes({}, not_previewed="--offline"),
    ),
}


@pytest.mark.parametrize("width", [60, 100, 200])
@pytest.mark.parametrize("name", REPORTS)
def test_plan_screen_matches_golden_file(name: str, width: int) -> None:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False, soft_wrap=True).print(
        render_report(REPORTS[name], strict=False)
    )
    text = "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
    file = GOLDEN / f"{name}-{width}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, 100, 200])
@pytest.mark.parametrize("name", REPORTS)
def test_no_line_exceeds_the_terminal_width(name: str, width: int) -> None:
    lines = (GOLDEN / f"{name}-{width}.txt").read_text(encoding="utf-8").splitlines()
    assert lines and all(len(line) <= width for line in lines)
