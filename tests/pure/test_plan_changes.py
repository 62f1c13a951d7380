"""`plan` counts the changes that `pulumi preview` reports, and shows the effects of replacements on running jobs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cli.errors import CommandError, NotFound
from cli.exit_codes import NOT_RUN, OK
from cli.stacks import pulumi_program
from cli.stacks.plan.changes import Changes, parse_preview, preview_changes
from cli.stacks.plan.plan_report import Report
from infra.checks.model import Answer
from infra.inventory.bill import compute_bill
from tests.pure.bill_world import load_stack, make_prices

GROUP, CLUSTER, POLICY = "aws:eks/nodeGroup:NodeGroup", "aws:eks/cluster:Cluster", "aws:iam/rolePolicy:RolePolicy"


def make_step(op: str, type_name: str, name: str, **more: Any) -> dict[str, Any]:
    urn = f"urn:pulumi:local::gpumpi::{'gpumpi:infra:NodePool$' if ':' in type_name else ''}{type_name}::{name}"
    return {"op": op, "urn": urn, "newState": {"type": type_name}, **more}


def test_changed_resources_are_counted_without_components() -> None:
    steps = [
        make_step("create", "pulumi:pulumi:Stack", "gpumpi-local"),
        make_step("create", "gpumpi:infra:NodePool", "train"),
        make_step("create", CLUSTER, "cluster"),
        make_step("update", POLICY, "policy"),
        make_step("same", POLICY, "other"),
    ]
    assert parse_preview({"steps": steps}).sentence() == "1 created, 1 changed"


def test_steps_of_one_replacement_count_as_one_resource() -> None:
    steps = [make_step(op, GROUP, "train") for op in ("create-replacement", "replace", "delete-replaced")]
    changes = parse_preview({"steps": steps})
    assert changes.sentence() == "1 replaced"
    assert [str(change) for change in changes.notable] == [
        "train (NodeGroup) is replaced: EKS drains its nodes: running jobs restart on the new ones"
    ]


def test_new_launch_template_replaces_the_nodes() -> None:
    changes = parse_preview({"steps": [make_step("update", GROUP, "train", diffReasons=["launchTemplate"])]})
    assert [change.effect for change in changes.notable] == ["its nodes are replaced one by one: running jobs restart"]


def test_size_change_restarts_no_job() -> None:
    assert parse_preview({"steps": [make_step("update", GROUP, "train", diffReasons=["scalingConfig"])]}).notable == ()


@pytest.mark.parametrize(
    ("type_name", "effect"),
    [
        ("aws:efs/fileSystem:FileSystem", "the shared files are deleted"),
        ("aws:fsx/lustreFileSystem:LustreFileSystem", "the files on FSx for Lustre are deleted"),
    ],
)
@pytest.mark.parametrize("operation", ["delete", "replace"])
def test_deletion_of_stored_files_is_reported(type_name: str, effect: str, operation: str) -> None:
    changes = parse_preview({"steps": [make_step(operation, type_name, "storage")]})
    assert [change.effect for change in changes.notable] == [effect]


def test_preview_without_steps_reports_no_changes() -> None:
    assert parse_preview({"steps": [make_step("same", CLUSTER, "cluster")]}).sentence() == "no changes"


# --- previews that fail -------------------------------------------------------------------------------------------------


def compute_plan_exit_code(changes: Changes, *, strict: bool) -> int:
    """Return the exit code of a plan in which everything but the changes is known."""
    report = Report(
        "",
        "mine",
        "us-east-1",
        (Answer("stack file", "yes"),),
        compute_bill(load_stack("02-p4d-efa"), None, make_prices()),
        changes,
    )
    return report.code(strict=strict)


def preview_with_answer(monkeypatch: pytest.MonkeyPatch, answer: str | Exception) -> Changes:
    def return_answer(*_: str) -> str:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(pulumi_program, "run_pulumi", return_answer)
    return preview_changes("mine")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (CommandError("the passphrase of the stack is wrong"), "the passphrase of the stack is wrong"),
        (CommandError("pulumi is not on PATH"), "pulumi is not on PATH"),
        ("error: no JSON", "pulumi preview printed no JSON"),
    ],
)
def test_failed_preview_leaves_the_changes_unknown(answer: str | Exception, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = preview_with_answer(monkeypatch, answer)
    assert changes.sentence().startswith(f"changes unknown: {reason}")
    assert (compute_plan_exit_code(changes, strict=False), compute_plan_exit_code(changes, strict=True)) == (OK, NOT_RUN)


@pytest.mark.parametrize("answer", [NotFound("no stack named mine"), '{"steps": []}'])
def test_nonexistent_stack_needs_no_preview(answer: str | Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compute_plan_exit_code(preview_with_answer(monkeypatch, answer), strict=True) == OK


def test_skipped_preview_does_not_count_as_unknown() -> None:
    assert compute_plan_exit_code(Changes({}, not_previewed="--no-preview"), strict=True) == OK


def test_reason_for_failed_preview_is_the_program_output_without_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sentence = "pools[0].maxSize: 1 is less than desiredSize; set it to 2"
    printed = {
        "config": {"gpumpi:pools": "[]"},
        "diagnostics": [
            {"message": f"{sentence}\n", "severity": "info#err"},
            {"message": "error: an unhandled error occurred: Program exited with non-zero exit code: 2\n", "severity": "error"},
        ],
    }
    (tmp_path / "printed.json").write_text(json.dumps(printed))
    (tmp_path / "pulumi").write_text(f"#!/bin/sh\ncat {tmp_path / 'printed.json'}\nexit 255\n")
    (tmp_path / "pulumi").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert preview_changes("mine").sentence() == f"changes unknown: pulumi preview --json: {sentence}"
