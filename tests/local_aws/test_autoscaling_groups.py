"""Auto Scaling groups launch the desired number of instances, spread over zones, from the launch template."""

import json
from typing import Any

import pytest

from localcloud.aws import durations, events, faults, inventory
from localcloud.aws.autoscaling import capacity
from localcloud.aws.call import backend_of
from testkit.aws_clients import REGION, Client
from tests.local_aws.ec2_world import World, make_world

CAPACITY = "We currently do not have sufficient g5.8xlarge capacity in the Availability Zone you requested (us-west-2a)."


@pytest.fixture
def world(aws: Client) -> World:
    return make_world(aws)


def make(world: World, desired: int = 2, **changes: Any) -> None:
    """Create the group `nodes` across three zones. `changes` override parameters; None removes a parameter."""
    params: dict[str, Any] = {
        "AutoScalingGroupName": "nodes",
        "MinSize": 0,
        "MaxSize": 9,
        "DesiredCapacity": desired,
        "VPCZoneIdentifier": ",".join(world.subnets),
        **({} if {"LaunchTemplate", "MixedInstancesPolicy"} & set(changes) else {"LaunchTemplate": template(world)}),
        **changes,
    }
    world.client("autoscaling").create_auto_scaling_group(**{key: value for key, value in params.items() if value is not None})


def template(world: World, **data: Any) -> dict[str, str]:
    return {"LaunchTemplateId": world.template(**data), "Version": "$Latest"}


def group(world: World) -> dict[str, Any]:
    return dict(world.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=["nodes"])["AutoScalingGroups"][0])


def zones(world: World) -> list[str]:
    return sorted(item["AvailabilityZone"][-1] for item in group(world)["Instances"])


def activities(world: World) -> list[dict[str, Any]]:
    return list(world.client("autoscaling").describe_scaling_activities(AutoScalingGroupName="nodes")["Activities"])


def scale(world: World, desired: int) -> None:
    world.client("autoscaling").set_desired_capacity(AutoScalingGroupName="nodes", DesiredCapacity=desired)


def test_instances_are_spread_over_the_zones(world: World) -> None:
    make(world, desired=5)
    shown = group(world)
    assert zones(world) == ["a", "a", "b", "b", "c"]
    assert {item["LifecycleState"] for item in shown["Instances"]} == {"InService"}
    assert shown["AvailabilityZones"] == ["us-west-2a", "us-west-2b", "us-west-2c"]
    scale(world, 2)
    assert zones(world) in (["a", "b"], ["a", "c"], ["b", "c"])


def test_a_groups_instance_matches_the_launch_template(world: World) -> None:
    world.ec2.create_placement_group(GroupName="close")
    interfaces = [
        {"DeviceIndex": 0, "Groups": [world.group]},
        {"DeviceIndex": 1, "InterfaceType": "efa-only", "Groups": [world.group]},
    ]
    template_reference = template(
        world,
        SecurityGroupIds=None,
        NetworkInterfaces=interfaces,
        Placement={"GroupName": "close"},
        IamInstanceProfile={"Name": world.profile()},
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 200, "VolumeType": "gp3", "Encrypted": True}}],
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": "pool", "Value": "template"}, {"Key": "a", "Value": "1"}]}
        ],
    )
    tags = [
        {"Key": "pool", "Value": "group", "PropagateAtLaunch": True},
        {"Key": "secret", "Value": "kept", "PropagateAtLaunch": False},
    ]
    make(world, desired=2, LaunchTemplate=template_reference, Tags=tags)
    members = group(world)["Instances"]
    assert len({item["AvailabilityZone"] for item in members}) == 1, "a cluster placement group lies in one zone"
    assert members[0]["LaunchTemplate"]["Version"] == "1"
    instance = world.described(members[0]["InstanceId"])[0]
    assert [item["InterfaceType"] for item in instance["NetworkInterfaces"]] == ["interface", "efa-only"]
    assert (instance["Placement"]["GroupName"], instance["MetadataOptions"]["HttpTokens"]) == ("close", "required")
    assert instance["IamInstanceProfile"]["Arn"].endswith("/node")
    assert {volume["Size"] for volume in world.ec2.describe_volumes()["Volumes"]} == {200}
    shown = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert (shown["pool"], shown["a"], shown["aws:autoscaling:groupName"]) == ("group", "1", "nodes")
    assert "secret" not in shown


def test_launches_and_terminations_appear_as_activities(world: World) -> None:
    make(world, desired=1)
    launched = activities(world)[0]
    assert (launched["StatusCode"], launched["Progress"]) == ("Successful", 100)
    assert launched["Description"] == f"Launching a new EC2 instance: {group(world)['Instances'][0]['InstanceId']}"
    assert json.loads(launched["Details"]) == {"Subnet ID": world.subnets[0], "Availability Zone": "us-west-2a"}
    scale(world, 0)
    assert activities(world)[0]["Description"].startswith("Terminating EC2 instance: i-")
    assert activities(world)[0]["Cause"].endswith("shrinking the capacity from 1 to 0.")


def test_a_refused_launch_appears_as_an_activity_with_ec2s_message(world: World) -> None:
    faults.add(faults.Fault("ec2", "RunInstances", "InsufficientInstanceCapacity", CAPACITY, times=3))
    make(world, desired=1)
    assert group(world)["Instances"] == []
    assert [item["StatusCode"] for item in activities(world)] == ["Failed"] * 3, "the launch is tried in each zone"
    assert activities(world)[0]["StatusMessage"] == f"{CAPACITY} Launching EC2 instance failed."
    errors = capacity.refusals(backend_of("autoscaling", "123456789012", REGION).autoscaling_groups["nodes"])
    assert {error.code for error in errors} == {"InsufficientInstanceCapacity"}
    scale(world, 2)
    assert len(group(world)["Instances"]) == 2, "there is capacity again"


def test_without_capacity_in_one_zone_instances_launch_in_the_others(world: World) -> None:
    match = {"SubnetId": world.subnets[0]}
    faults.add(faults.Fault("ec2", "RunInstances", "InsufficientInstanceCapacity", CAPACITY, times=99, match=match))
    make(world, desired=4)
    assert zones(world) == ["b", "b", "c", "c"]


def mix_types(world: World, on_demand_percent: int, *types: str) -> dict[str, Any]:
    specification = {"LaunchTemplateSpecification": template(world), "Overrides": [{"InstanceType": name} for name in types]}
    return {"LaunchTemplate": specification, "InstancesDistribution": {"OnDemandPercentageAboveBaseCapacity": on_demand_percent}}


def test_a_mixed_instances_group_launches_the_first_available_type(world: World) -> None:
    match = {"InstanceType": "g5.8xlarge"}
    faults.add(faults.Fault("ec2", "RunInstances", "InsufficientInstanceCapacity", CAPACITY, times=99, match=match))
    make(world, desired=2, MixedInstancesPolicy=mix_types(world, 100, "g5.8xlarge", "g5.12xlarge"))
    assert [item["InstanceType"] for item in group(world)["Instances"]] == ["g5.12xlarge"] * 2


@pytest.mark.parametrize(("percent", "spot"), [(0, 4), (50, 2), (100, 0)])
def test_a_mixed_instances_group_launches_its_share_of_spot_instances(world: World, percent: int, spot: int) -> None:
    make(world, desired=4, MixedInstancesPolicy=mix_types(world, percent, "g5.8xlarge"))
    ids = [item["InstanceId"] for item in group(world)["Instances"]]
    assert [item.get("InstanceLifecycle") for item in world.described(*ids)].count("spot") == spot


def test_a_mixed_instances_groups_failure_names_the_types_that_could_not_launch(world: World) -> None:
    faults.add(faults.Fault("ec2", "RunInstances", "InsufficientInstanceCapacity", CAPACITY, times=9))
    make(world, desired=1, MixedInstancesPolicy=mix_types(world, 0, "g5.8xlarge"))
    expected = f"Could not launch Spot Instances. InsufficientInstanceCapacity - {CAPACITY} Launching EC2 instance failed."
    assert activities(world)[0]["StatusMessage"] == expected


def test_a_terminated_instance_is_replaced(world: World) -> None:
    make(world, desired=2)
    lost = group(world)["Instances"][0]["InstanceId"]
    world.ec2.terminate_instances(InstanceIds=[lost])
    ids = [item["InstanceId"] for item in group(world)["Instances"]]
    assert len(ids) == 2
    assert lost not in ids


def test_suspended_processes_do_nothing(world: World) -> None:
    make(world, desired=1)
    autoscaling = world.client("autoscaling")
    autoscaling.suspend_processes(AutoScalingGroupName="nodes", ScalingProcesses=["Launch"])
    scale(world, 3)
    assert len(group(world)["Instances"]) == 1
    autoscaling.resume_processes(AutoScalingGroupName="nodes")
    scale(world, 3)
    assert len(group(world)["Instances"]) == 3


def test_a_new_minimum_or_maximum_adjusts_the_desired_capacity(world: World) -> None:
    make(world, desired=2)
    autoscaling = world.client("autoscaling")
    autoscaling.update_auto_scaling_group(AutoScalingGroupName="nodes", MinSize=4, MaxSize=6)
    assert (group(world)["DesiredCapacity"], len(group(world)["Instances"])) == (4, 4)
    autoscaling.update_auto_scaling_group(AutoScalingGroupName="nodes", MinSize=0, MaxSize=1)
    assert (group(world)["DesiredCapacity"], len(group(world)["Instances"])) == (1, 1)


def test_an_update_leaves_unnamed_parameters_alone(world: World) -> None:
    make(world, desired=1, MixedInstancesPolicy=mix_types(world, 100, "g5.8xlarge"), DefaultInstanceWarmup=60)
    before = group(world)
    world.client("autoscaling").update_auto_scaling_group(AutoScalingGroupName="nodes", MaxSize=5)
    assert group(world) == {**before, "MaxSize": 5}


def test_an_instance_can_be_detached_with_or_without_a_replacement(world: World) -> None:
    make(world, desired=2)
    autoscaling = world.client("autoscaling")
    first = group(world)["Instances"][0]["InstanceId"]
    autoscaling.terminate_instance_in_auto_scaling_group(InstanceId=first, ShouldDecrementDesiredCapacity=True)
    assert (group(world)["DesiredCapacity"], len(group(world)["Instances"])) == (1, 1)
    second = group(world)["Instances"][0]["InstanceId"]
    autoscaling.terminate_instance_in_auto_scaling_group(InstanceId=second, ShouldDecrementDesiredCapacity=False)
    assert [item["InstanceId"] == second for item in group(world)["Instances"]] == [False]


def test_describing_instances_shows_their_group(world: World) -> None:
    make(world, desired=1)
    autoscaling = world.client("autoscaling")
    instance_id = group(world)["Instances"][0]["InstanceId"]
    shown = autoscaling.describe_auto_scaling_instances(InstanceIds=[instance_id])["AutoScalingInstances"][0]
    assert (shown["AutoScalingGroupName"], shown["LifecycleState"], shown["HealthStatus"]) == ("nodes", "InService", "HEALTHY")
    assert autoscaling.describe_traffic_sources(AutoScalingGroupName="nodes")["TrafficSources"] == []


def test_tags_are_found_by_filter(world: World) -> None:
    make(world, desired=0, Tags=[{"Key": "a", "Value": "1", "PropagateAtLaunch": True}])
    autoscaling = world.client("autoscaling")
    tag = {"ResourceId": "nodes", "ResourceType": "auto-scaling-group", "Key": "b", "Value": "2", "PropagateAtLaunch": False}
    autoscaling.create_or_update_tags(Tags=[tag])

    def keys(name: str, value: str) -> list[str]:
        return [item["Key"] for item in autoscaling.describe_tags(Filters=[{"Name": name, "Values": [value]}])["Tags"]]

    assert (keys("auto-scaling-group", "nodes"), keys("key", "b"), keys("value", "1")) == (["a", "b"], ["b"], ["a"])
    assert (keys("propagate-at-launch", "true"), keys("propagate-at-launch", "false")) == (["a"], ["b"])
    autoscaling.delete_tags(Tags=[{**tag, "Key": "a"}])
    assert [item["Key"] for item in group(world)["Tags"]] == ["b"]


def test_instances_enter_service_after_their_launch_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(durations, "now", lambda: clock[0])
    durations.set_factor(1)
    make(world, desired=1)
    assert group(world)["Instances"][0]["LifecycleState"] == "Pending"
    clock[0] += durations.seconds("ec2-instance")
    assert group(world)["Instances"][0]["LifecycleState"] == "InService"
    world.client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="nodes", ForceDelete=True)
    assert (group(world)["Status"], group(world)["Instances"][0]["LifecycleState"]) == ("Delete in progress", "Terminating")
    clock[0] += durations.seconds("autoscaling-group-delete")
    assert world.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"] == []


def test_a_group_deleted_by_force_leaves_nothing(world: World) -> None:
    before = {str(item) for item in inventory.leftovers()}
    make(world, desired=3)
    world.client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="nodes", ForceDelete=True)
    world.ec2.delete_launch_template(LaunchTemplateName="nodes")
    assert {str(item) for item in inventory.leftovers()} == before


def test_realizers_receive_group_and_instance_events(world: World) -> None:
    heard: list[tuple[str, str]] = []
    unregister = events.register(lambda event: heard.append((event.kind, event.action)))
    try:
        make(world, desired=1)
        group(world)
        world.client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="nodes", ForceDelete=True)
        world.ec2.describe_instances()
    finally:
        unregister()
    assert heard[:3] == [("auto-scaling-group", "created"), ("instance", "created"), ("auto-scaling-group", "changed")]
    assert ("instance", "changed") in heard, "the instance runs"
    assert heard[-2:] == [("instance", "gone"), ("auto-scaling-group", "gone")]
