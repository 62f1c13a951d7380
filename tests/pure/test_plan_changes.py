"""`plan` counts the changes that `pulumi preview` reports, and shows the effects of replacements on running jobs."""

from typing import Any

import pytest

from cli.plan.changes import of_preview

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
    found = of_preview({"steps": steps})
    assert found.sentence() == "1 replaced"
    assert [str(one) for one in found.notable] == [
        "train (NodeGroup) is replaced: EKS drains its nodes: running jobs restart on the new ones"
    ]


def test_a_new_launch_template_rolls_the_nodes() -> None:
    found = of_preview({"steps": [step("update", GROUP, "train", diffReasons=["launchTemplate"])]})
    assert [one.effect for one in found.notable] == ["its nodes are replaced one after the other: running jobs restart"]


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
    found = of_preview({"steps": [step(operation, type_name, "storage")]})
    assert [one.effect for one in found.notable] == [effect]


def test_nothing_to_do_is_no_changes() -> None:
    assert of_preview({"steps": [step("same", CLUSTER, "cluster")]}).sentence() == "no changes"
