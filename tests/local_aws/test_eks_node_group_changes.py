"""Node group updates: sizes, labels, taints, AMIs and versions."""

import pytest
from botocore.exceptions import ClientError

from localcloud.aws import durations
from localcloud.aws.ec2 import capacity_reservations
from testkit.aws_clients import REGION, Client
from testkit.eks_world import World

GPU = "g5.xlarge"


@pytest.fixture
def world(aws: Client) -> World:
    world = World(aws)
    world.cluster()
    return world


def test_node_group_sizes_change_in_place(world: World) -> None:
    world.node_group()
    before = world.list_instance_ids()
    done = world.update_config(scalingConfig={"minSize": 1, "maxSize": 5, "desiredSize": 3})
    assert (done["type"], done["status"]) == ("ConfigUpdate", "Successful")
    assert {"type": "DesiredSize", "value": "3"} in done["params"]
    assert world.describe_node_group()["scalingConfig"] == {"minSize": 1, "maxSize": 5, "desiredSize": 3}
    assert before < world.list_instance_ids() and len(world.list_instance_ids()) == 3
    world.update_config(scalingConfig={"minSize": 0, "maxSize": 5, "desiredSize": 0})
    assert world.list_instance_ids() == set()


def test_the_desired_size_of_a_node_group_follows_its_auto_scaling_group(world: World) -> None:
    """The cluster autoscaler changes the desired size on the Auto Scaling group, not through EKS."""
    group = world.node_group()
    name = group["resources"]["autoScalingGroups"][0]["name"]
    world.autoscaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=2)
    assert world.describe_node_group()["scalingConfig"]["desiredSize"] == 2


def test_labels_and_taints_can_be_added_changed_and_removed(world: World) -> None:
    taint = {"key": "team", "value": "a", "effect": "NO_SCHEDULE"}
    world.node_group(labels={"keep": "1", "change": "1", "remove": "1"}, taints=[taint])
    world.update_config(
        labels={"addOrUpdateLabels": {"change": "2", "add": "1"}, "removeLabels": ["remove"]},
        taints={"addOrUpdateTaints": [{**taint, "value": "b"}, {**taint, "key": "more"}]},
    )
    group = world.describe_node_group()
    assert group["labels"] == {"keep": "1", "change": "2", "add": "1"}
    assert {(item["key"], item["value"]) for item in group["taints"]} == {("team", "b"), ("more", "a")}
    world.update_config(taints={"removeTaints": [{**taint, "value": "b"}, {**taint, "key": "more"}]})
    assert world.describe_node_group().get("taints", []) == []


def test_new_nodes_boot_with_changed_labels(world: World) -> None:
    world.node_group()
    old = world.list_instance_ids()
    world.update_config(labels={"addOrUpdateLabels": {"tier": "fast"}})
    world.update_config(scalingConfig={"desiredSize": 2})
    [new] = world.list_instance_ids() - old
    assert "tier=fast" in world.user_data(new)


def test_update_and_repair_settings_can_be_changed(world: World) -> None:
    world.node_group()
    world.update_config(updateConfig={"maxUnavailablePercentage": 25}, nodeRepairConfig={"enabled": True})
    group = world.describe_node_group()
    assert group["updateConfig"] == {"maxUnavailablePercentage": 25, "updateStrategy": "DEFAULT"}
    assert group["nodeRepairConfig"] == {"enabled": True}


def test_a_new_kubernetes_version_replaces_every_node(world: World) -> None:
    world.node_group(scalingConfig={"minSize": 0, "maxSize": 4, "desiredSize": 3})
    old = world.list_instance_ids()
    world.eks.update_cluster_version(name="demo", version="1.36")
    world.describe()
    done = world.update_version(version="1.36")
    assert (done["type"], done["status"]) == ("VersionUpdate", "Successful")
    group = world.describe_node_group()
    assert (group["version"], group["releaseVersion"], group["status"]) == ("1.36", "1.36.2-20260714", "ACTIVE")
    assert len(world.list_instance_ids()) == 3 and not old & world.list_instance_ids()
    assert (world.auto_scaling_group()["MaxSize"], world.auto_scaling_group()["DesiredCapacity"]) == (4, 3)


def test_a_new_template_version_replaces_every_node(world: World) -> None:
    template = world.template(EbsOptimized=True)
    world.node_group(launchTemplate=template)
    old = world.list_instance_ids()
    world.ec2.create_launch_template_version(
        LaunchTemplateId=template["id"], LaunchTemplateData={"Monitoring": {"Enabled": True}}
    )
    assert world.update_version(launchTemplate={"id": template["id"], "version": "2"})["status"] == "Successful"
    group = world.describe_node_group()
    assert group["launchTemplate"]["version"] == "2"
    [instance] = world.instances(group)
    assert instance["InstanceId"] not in old
    assert instance["Monitoring"]["State"] == "enabled"


def test_a_new_template_version_can_change_the_instance_type(world: World) -> None:
    template = world.template(InstanceType="m7i.large")
    world.node_group(launchTemplate=template)
    world.ec2.create_launch_template_version(LaunchTemplateId=template["id"], LaunchTemplateData={"InstanceType": "m7i.xlarge"})
    assert world.update_version(launchTemplate={"id": template["id"], "version": "2"})["status"] == "Successful"
    assert [instance["InstanceType"] for instance in world.instances(world.describe_node_group())] == ["m7i.xlarge"]


def test_a_version_update_without_changes_keeps_the_nodes(world: World) -> None:
    world.node_group()
    before = world.list_instance_ids()
    assert world.update_version()["status"] == "Successful"
    assert world.list_instance_ids() == before


@pytest.mark.parametrize(("strategy", "result", "version"), [("DEFAULT", "Failed", "1"), ("MINIMAL", "Successful", "2")])
def test_only_the_minimal_strategy_completes_an_update_without_spare_capacity(
    world: World, strategy: str, result: str, version: str
) -> None:
    reservation = capacity_reservations.seed_reservation(GPU, f"{REGION}a", 2, match="targeted")
    data = {"CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": reservation}}}
    template = world.template(**data)
    group = world.node_group(
        instanceTypes=[GPU],
        amiType="AL2023_x86_64_NVIDIA",
        launchTemplate=template,
        scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 2},
        updateConfig={"maxUnavailable": 1, "updateStrategy": strategy},
    )
    assert group["status"] == "ACTIVE"
    world.ec2.create_launch_template_version(LaunchTemplateId=template["id"], LaunchTemplateData={**data, "EbsOptimized": True})
    done = world.update_version(launchTemplate={"id": template["id"], "version": "2"})
    assert done["status"] == result
    assert [error["errorCode"] for error in done["errors"]] == ([] if result == "Successful" else ["NodeCreationFailure"])
    assert world.describe_node_group()["launchTemplate"]["version"] == version
    assert len(world.list_instance_ids()) == 2
    assert (world.auto_scaling_group()["MaxSize"], world.auto_scaling_group()["DesiredCapacity"]) == (2, 2)


def test_a_node_group_accepts_only_one_update_at_a_time(world: World) -> None:
    world.node_group()
    durations.set_factor(1)
    started = world.eks.update_nodegroup_config(clusterName="demo", nodegroupName="workers", scalingConfig={"desiredSize": 2})[
        "update"
    ]
    assert (started["status"], world.describe_node_group()["status"]) == ("InProgress", "UPDATING")
    with pytest.raises(ClientError, match=f"ResourceInUseException.*{started['id']}"):
        world.eks.update_nodegroup_version(clusterName="demo", nodegroupName="workers")
