"""EKS node groups and add-ons: cases beyond those tested for every resource type."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from localcloud.aws import calls, durations, faults
from localcloud.aws.faults import Fault
from localcloud.engine.aws import lifecycle
from localcloud.engine.aws.lifecycle import InitializationFailed, OperationFailed
from localcloud.engine.aws.resource import RESOURCES, Args, State
from tests.engine.life import Life
from tests.engine.world import World, module_account, new_world  # noqa: F401

NODE_GROUP = RESOURCES["aws:eks/nodeGroup:NodeGroup"]
ADDON = RESOURCES["aws:eks/addon:Addon"]
NO_CAPACITY = "We currently do not have sufficient m7i.large capacity in the Availability Zone you requested."


@pytest.fixture
def shortened_delays(world: World) -> Iterator[None]:
    """An existing cluster, and AWS operations shortened to a thousandth of their real duration."""
    assert world.cluster
    durations.set_factor(0.001)
    yield
    durations.set_factor(0)


def build_node_group_inputs(world: World, **more: Any) -> Args:
    return {
        "clusterName": world.cluster,
        "nodeGroupName": world.name("train"),
        "nodeRoleArn": world.node_role,
        "subnetIds": world.subnets[:1],
        "instanceTypes": ["m7i.large"],
        "scalingConfig": {"desiredSize": 1, "maxSize": 2, "minSize": 0},
        **more,
    }


def make_failed_group(world: World) -> State:
    """Return the state of a node group in status CREATE_FAILED."""
    group_inputs = build_node_group_inputs(world)
    faults.add_fault(Fault("ec2", "RunInstances", "InsufficientInstanceCapacity", NO_CAPACITY, times=1000))
    try:
        Life(NODE_GROUP, world.aws, group_inputs)
    except InitializationFailed as failed:
        return failed.state
    finally:
        faults.clear_faults()
    pytest.fail("the node group was created without instances")


@pytest.mark.usefixtures("shortened_delays")
def test_creation_and_deletion_wait_for_the_nodes(world: World) -> None:
    group = Life(NODE_GROUP, world.aws, build_node_group_inputs(world))
    assert group.state["status"] == "ACTIVE"
    name = group.state["resources"][0]["autoscalingGroups"][0]["name"]
    autoscaling = world.client("autoscaling")
    scaling_groups = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
    assert [instance["LifecycleState"] for instance in scaling_groups[0]["Instances"]] == ["InService"]
    group.update(build_node_group_inputs(world, labels={"a": "b"}))
    group.delete()
    assert autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"] == []


def test_a_group_without_capacity_fails_with_its_health_issue_and_stays_in_the_state(world: World) -> None:
    group_inputs = build_node_group_inputs(world)
    faults.add_fault(Fault("ec2", "RunInstances", "InsufficientInstanceCapacity", NO_CAPACITY, times=1000))
    with pytest.raises(InitializationFailed) as failed:
        Life(NODE_GROUP, world.aws, group_inputs)
    faults.clear_faults()
    id = f"{world.cluster}:{world.name('train')}"
    scaling_group = failed.value.state["resources"][0]["autoscalingGroups"][0]["name"]
    assert str(failed.value) == (
        f"creating EKS Node Group ({world.name('train')}): waiting for EKS Node Group ({id}) create: "
        f"unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'. last error: {scaling_group}: AsgInstanceLaunchFailures: "
        f"Could not launch On-Demand Instances. InsufficientInstanceCapacity - {NO_CAPACITY} Launching EC2 instance failed."
    )
    assert failed.value.id == id
    assert failed.value.state["status"] == "CREATE_FAILED"


def test_the_next_update_keeps_a_failed_group_unchanged(world: World) -> None:
    """As with the official provider, only the option `replace_on_changes=["#initerror"]` recreates the group."""
    state = make_failed_group(world)
    calls.clear_counts()
    after = lifecycle.update(NODE_GROUP, world.aws, state["id"], state, build_node_group_inputs(world), ())
    assert after["status"] == "CREATE_FAILED"
    assert not calls.count_writes()


def test_a_failed_group_can_be_deleted_and_recreated_with_the_same_name(world: World) -> None:
    state = make_failed_group(world)
    lifecycle.delete(NODE_GROUP, world.aws, state["id"], state)
    again = Life(NODE_GROUP, world.aws, build_node_group_inputs(world))
    assert again.state["status"] == "ACTIVE"
    assert world.client("eks").list_nodegroups(clusterName=world.cluster)["nodegroups"] == [world.name("train")]


def test_creating_a_second_resource_with_the_same_name_is_refused(world: World) -> None:
    Life(NODE_GROUP, world.aws, build_node_group_inputs(world))
    with pytest.raises(OperationFailed, match="ResourceInUseException: NodeGroup already exists with name"):
        Life(NODE_GROUP, world.aws, build_node_group_inputs(world))


def test_a_size_set_by_the_autoscaler_survives_a_change_of_the_limits(world: World) -> None:
    """The program ignores changes to the desired size: an update of the maximum size sends the current desired size."""
    group = Life(NODE_GROUP, world.aws, build_node_group_inputs(world))
    name = group.state["resources"][0]["autoscalingGroups"][0]["name"]
    world.client("autoscaling").set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=2)
    group.refresh()
    new_inputs = build_node_group_inputs(world, scalingConfig={"desiredSize": 1, "maxSize": 5, "minSize": 0})
    group.update(new_inputs, ignored=["scalingConfig.desiredSize"])
    assert group.state["scalingConfig"] == {"desiredSize": 2, "maxSize": 5, "minSize": 0}


def test_an_update_changes_only_modified_labels_and_taints(world: World) -> None:
    unchanged, changed, gone = (
        {"key": "kept", "value": "1", "effect": "NO_SCHEDULE"},
        {"key": "changed", "value": "1", "effect": "NO_SCHEDULE"},
        {"key": "gone", "effect": "NO_EXECUTE"},
    )
    before = build_node_group_inputs(world, labels={"kept": "1", "changed": "1", "gone": "1"}, taints=[unchanged, changed, gone])
    group = Life(NODE_GROUP, world.aws, before)
    taints = [unchanged, {**changed, "value": "2"}, {"key": "new", "value": "1", "effect": "NO_EXECUTE"}]
    group.update(build_node_group_inputs(world, labels={"kept": "1", "changed": "2", "new": "1"}, taints=taints))
    assert group.state["labels"] == {"kept": "1", "changed": "2", "new": "1"}
    assert sorted(taint["key"] for taint in group.state["taints"]) == ["changed", "kept", "new"]
    assert group.find_differences() == set()


def test_new_limits_and_a_new_template_version_take_two_requests(world: World) -> None:
    template = {"id": world.launch_template, "version": "1"}
    group = Life(NODE_GROUP, world.aws, build_node_group_inputs(world, launchTemplate=template))
    assert group.state["launchTemplate"]["name"] == world.launch_template_name
    calls.clear_counts()
    new = build_node_group_inputs(
        world, launchTemplate={**template, "version": "2"}, scalingConfig={"desiredSize": 1, "maxSize": 9, "minSize": 0}
    )
    group.update(new)
    asked = {name: count for name, count in calls.count_writes().items() if name.startswith("eks.")}
    assert asked == {"eks.UpdateNodegroupConfig": 1, "eks.UpdateNodegroupVersion": 1}
    assert group.find_differences() == set()


@pytest.mark.parametrize("before", [True, False], ids=["taken-away", "added"])
def test_adding_or_removing_a_launch_template_replaces_the_node_group(world: World, before: bool) -> None:
    template = {"launchTemplate": {"id": world.launch_template, "version": "1"}}
    group = Life(NODE_GROUP, world.aws, build_node_group_inputs(world, **(template if before else {})))
    assert group.find_replacements(build_node_group_inputs(world, **({} if before else template))) == {"launchTemplate"}


def test_an_unchanged_node_group_causes_no_write_requests(world: World) -> None:
    group = Life(NODE_GROUP, world.aws, build_node_group_inputs(world))
    calls.clear_counts()
    group.refresh()
    group.update(group.program_inputs())
    assert calls.count_reads() and not calls.count_writes()


def test_changing_only_conflict_resolution_makes_no_request(world: World) -> None:
    """If only a conflict rule changes, the handler does not call EKS."""
    addon_inputs = {"clusterName": world.cluster, "addonName": "vpc-cni", "resolveConflictsOnCreate": "OVERWRITE"}
    addon = Life(ADDON, world.aws, addon_inputs)
    calls.clear_counts()
    addon.update({**addon_inputs, "resolveConflictsOnUpdate": "OVERWRITE"})
    assert not calls.count_writes()
    assert addon.state["resolveConflictsOnUpdate"] == "OVERWRITE"


def test_an_addon_of_a_deleted_cluster_is_gone(world: World) -> None:
    addon = Life(ADDON, world.aws, {"clusterName": world.cluster, "addonName": "kube-proxy"})
    assert addon.id == f"{world.cluster}:kube-proxy"
    world.client("eks").delete_cluster(name=world.cluster)
    assert addon.refresh() is None
    addon.delete()


def test_version_and_pod_identity_of_an_addon_change_together(world: World) -> None:
    before = {"clusterName": world.cluster, "addonName": "vpc-cni", "addonVersion": "v1.23.1-eksbuild.1"}
    addon = Life(ADDON, world.aws, before)
    identity = [{"roleArn": world.pod_role, "serviceAccount": "aws-node"}]
    values = json.dumps({"enableNetworkPolicy": "true"})
    new = {**before, "addonVersion": "v1.23.2-eksbuild.1", "podIdentityAssociations": identity, "configurationValues": values}
    addon.update(new)
    assert {name: addon.state[name] for name in new} == new
