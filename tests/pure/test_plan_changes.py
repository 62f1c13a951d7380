"""`plan` counts the changes that `pulumi preview` reports, and shows the effects of replacements on running jobs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cli.errors import CommandError, NotFound
from cli.exit_codes import NOT_RUN, OK
from cli.stacks import pulumi_program
from cli.stacks.plan.changes import Changes, of_preview, preview
from cli.stacks.plan.plan_report import Report
from infra.checks.model import Answer
from infra.inventory.bill import bill
from tests.pure.bill_world import prices, stack

GROUP, CLUSTER, POLICY = "aws:eks/nodeGroup:NodeGroup", "aws:eks/cluster:Cluster", "aws:iam/rolePolicy:RolePolicy"


def step(op: str, type_name: str, name: str, **more: Any) -> dict[str, Any]:
    urn = f"urn:pulumi:local::gpumpi::{'gpumpi:infra:NodePool$' if ':' in type_name else ''}{type_name}::{name}"
    return {"op": op, "urn": urn, "newState": {"type": type_name}, **more}


def test_resources_are_counted_without_components() -> None:
    steps = [
        step("create", "pulumi:pulumi:Stack", "gpumpi-local"),
        step("create", "gpumpi:infra:NodePool", "train"),
        step("create", CLUSTER, "cluster"),
        step("update", POLICY, "policy"),
        step("same", POLICY, "other"),
    ]
    assert of_preview({"steps": steps}).sentence() == "1 created, 1 changed"


def test_the_steps_of_one_replacement_are_one_resource() -> None:
    steps = [step(op, GROUP, "train") for op in ("create-replacement", "replace", "delete-replaced")]
    changes = of_preview({"steps": steps})
    assert changes.sentence() == "1 replaced"
    assert [str(change) for change in changes.notable] == [
        "train (NodeGroup) is replaced: EKS drains its nodes: running jobs restart on the new ones"
    ]


def test_a_new_launch_template_rolls_the_nodes() -> None:
    changes = of_preview({"steps": [step("update", GROUP, "train", diffReasons=["launchTemplate"])]})
    assert [change.effect for change in changes.notable] == ["its nodes are replaced one by one: running jobs restart"]


def test_a_new_size_restarts_nothing() -> None:
    assert of_preview({"steps": [step("update", GROUP, "train", diffReasons=["scalingConfig"])]}).notable == ()


@pytest.mark.parametrize(
    ("type_name", "effect"),
    [
        ("aws:efs/fileSystem:FileSystem", "the shared files are deleted"),
        ("aws:fsx/lustreFileSystem:LustreFileSystem", "the files on FSx for Lustre are deleted"),
    ],
)
@pytest.mark.parametrize("operation", ["delete", "replace"])
def test_deleted_files_are_named(type_name: str, effect: str, operation: str) -> None:
    changes = of_preview({"steps": [step(operation, type_name, "storage")]})
    assert [change.effect for change in changes.notable] == [effect]


def test_nothing_to_do_is_no_changes() -> None:
    assert of_preview({"steps": [step("same", CLUSTER, "cluster")]}).sentence() == "no changes"


# --- previews that fail -------------------------------------------------------------------------------------------------


def code(changes: Changes, *, strict: bool) -> int:
    """Return the exit code of a plan in which everything but the changes is known."""
    report = Report("", "mine", "us-east-1", (Answer("stack file", "yes"),), bill(stack("02-p4d-efa"), None, prices()), changes)
    return report.code(strict=strict)


def previewed(monkeypatch: pytest.MonkeyPatch, answer: str | Exception) -> Changes:
    def run(*_: str) -> str:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(pulumi_program, "run", run)
    return preview("mine")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (CommandError("the passphrase of the stack is wrong"), "the passphrase of the stack is wrong"),
        (CommandError("pulumi is not on PATH"), "pulumi is not on PATH"),
        ("error: no JSON", "pulumi preview printed no JSON"),
    ],
)
def test_a_preview_that_fails_leaves_the_changes_unknown(
    answer: str | Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = previewed(monkeypatch, answer)
    assert changes.sentence().startswith(f"changes unknown: {reason}")
    assert (code(changes, strict=False), code(changes, strict=True)) == (OK, NOT_RUN)


@pytest.mark.parametrize("answer", [NotFound("no stack named mine"), '{"steps": []}'])
def test_a_stack_that_does_not_exist_needs_no_preview(answer: str | Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    assert code(previewed(monkeypatch, answer), strict=True) == OK


def test_a_preview_that_was_not_asked_for_is_not_unknown() -> None:
    assert code(Changes({}, not_previewed="--no-preview"), strict=True) == OK


def test_the_reason_is_what_the_program_printed_and_not_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    assert preview("mine").sentence() == f"changes unknown: pulumi preview --json: {sentence}"
