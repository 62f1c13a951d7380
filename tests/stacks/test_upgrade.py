"""Kubernetes upgrades with the real Pulumi engine: first the control plane, then the nodes, then the add-ons."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcloud.aws.eks import addon_catalog
from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack, Run
from testkit.former_program import copy_program, use_program
from testkit.projects import create_client
from tests.stacks import editing
from tests.stacks.editing import Values

pytestmark = [pytest.mark.xdist_group("stacks"), pytest.mark.mission_only]

CLUSTER = "gpumpi-upgrade"
DENIED = {"service": "eks", "code": "AccessDeniedException", "message": "Not you."}


@pytest.fixture
def stack(cloud: LocalCloud) -> Iterator[LocalStack]:
    """A deployed cluster with Kubernetes 1.34."""
    made = LocalStack(cloud, "upgrade", Path(__file__).parent / "data")
    made.prepare()
    up = made.run("up")
    assert up.ok, up.output
    yield made


def make_values_for_version(version: str, stack: LocalStack) -> Values:
    return editing.apply_changes(editing.read_settings(stack), {"target.kubernetesVersion": version})


def read_versions(stack: LocalStack) -> dict[str, str]:
    """Return the Kubernetes versions of the control plane and of each pool."""
    eks = create_client(stack.cloud, "eks")
    groups = [
        eks.describe_nodegroup(clusterName=CLUSTER, nodegroupName=name)["nodegroup"]
        for name in eks.list_nodegroups(clusterName=CLUSTER)["nodegroups"]
    ]
    return {"control plane": eks.describe_cluster(name=CLUSTER)["cluster"]["version"]} | {
        group["tags"]["gpumpi:pool"]: group["version"] for group in groups
    }


def read_addon_versions(stack: LocalStack) -> dict[str, str]:
    eks: Any = create_client(stack.cloud, "eks")
    return {
        name: eks.describe_addon(clusterName=CLUSTER, addonName=name)["addon"]["addonVersion"]
        for name in eks.list_addons(clusterName=CLUSTER)["addons"]
    }


def read_update_times(run: Run, name: str) -> tuple[float, float]:
    """Return the start time and end time of a resource's update."""
    (step,) = [step for step in run.steps if step.name == f"{CLUSTER}-{name}" and step.operation == "update"]
    return step.began, step.ended


def test_nodes_are_upgraded_after_the_control_plane_and_before_add_ons(stack: LocalStack) -> None:
    before = read_addon_versions(stack)
    editing.write_settings(stack, make_values_for_version("1.35", stack))
    stack.cloud.control().reset_call_counts()
    up = stack.run("up")
    assert up.ok, up.output
    assert set(editing.group_operations(up)) == {"update"}, "nothing is replaced"
    assert stack.cloud.control().writes()["eks.UpdateClusterVersion"] == 1
    assert set(read_versions(stack).values()) == {"1.35"}
    defaults = {name: addon_catalog.find(name).default("1.35") for name in before}
    moved = ("coredns", "kube-proxy")
    assert read_addon_versions(stack) == {**before, **{name: defaults[name] for name in moved}}

    _, control_plane_done = read_update_times(up, "cluster")
    for pool in ("system", "train"):
        assert read_update_times(up, pool)[0] >= control_plane_done
    assert read_update_times(up, "service-kube-proxy")[0] >= read_update_times(up, "system")[1]

    again = stack.run("up")
    assert (again.ok, editing.group_operations(again)) == (True, {}), again.output


@pytest.mark.mission_only
def test_the_next_up_completes_an_interrupted_upgrade(stack: LocalStack) -> None:
    editing.write_settings(stack, make_values_for_version("1.35", stack))
    stack.cloud.control().plan_fault(operation="UpdateNodegroupVersion", **DENIED, match={"nodegroupName": "*-train-*"})
    failed = stack.run("up")
    assert not failed.ok
    assert any("gpumpi-upgrade-train" in error and "AccessDeniedException: Not you." in error for error in failed.errors)
    assert (read_versions(stack)["control plane"], read_versions(stack)["train"]) == ("1.35", "1.34")

    up = stack.run("up")
    assert up.ok, up.output
    assert set(read_versions(stack).values()) == {"1.35"}
    assert not {"replace", "create", "delete"} & set(editing.group_operations(up))


@pytest.mark.mission_only
def test_a_running_cluster_in_extended_support_can_be_upgraded_with_a_warning(cloud: LocalCloud, tmp_path: Path) -> None:
    stack = LocalStack(cloud, "upgrade", Path(__file__).parent / "data")
    stack.prepare()
    editing.write_settings(stack, make_values_for_version("1.33", stack))
    refused = stack.run("preview")
    assert not refused.ok and '"1.33" is only for running clusters' in refused.errors[0], refused.output

    permissive = {"if now is None and version in _list_extended_support_versions(facts):": "if False:"}
    use_program(stack, copy_program(tmp_path / "former", permissive, "infra/validation/cluster.py"))
    up = stack.run("up")
    assert up.ok, up.output
    use_program(stack)
    accepted = stack.run("preview")
    assert accepted.ok and not accepted.changed, accepted.output
    assert 'AWS bills the cluster for extended support. Set "1.34" to upgrade.' in " ".join(accepted.output.split())

    editing.write_settings(stack, make_values_for_version("1.34", stack))
    up = stack.run("up")
    assert up.ok, up.output
    assert set(read_versions(stack).values()) == {"1.34"}


def test_an_upgrade_that_skips_a_minor_version_is_refused_before_anything_starts(stack: LocalStack) -> None:
    editing.write_settings(stack, make_values_for_version("1.36", stack))
    stack.cloud.control().reset_call_counts()
    refused = stack.run("up")
    assert not refused.ok
    assert refused.errors[0] == (
        'target.kubernetesVersion: "1.36" skips a minor version: the cluster has 1.34. '
        'Set "1.35", run `pulumi up`, and continue from there.'
    )
    assert stack.cloud.control().writes() == {}
