"""Auto Scaling groups launch the desired number of instances, spread across zones, from the launch template."""

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


def create_group(world: World, desired: int = 2, **changes: Any) -> None:
    """Create the group `nodes` across three zones. `changes` override parameters; None removes a parameter."""
    params: dict[str, Any] = {
        "AutoScalingGroupName": "nodes",
        "MinSize": 0,
        "MaxSize": 9,
        "DesiredCapacity": desired,
        "VPCZoneIdentifier": ",".join(world.subnets),
        **({} if {"LaunchTemplate", "MixedInstancesPolicy"} & set(changes) else {"LaunchTemplate": create_template(world)}),
        **changes,
    }
    world.client("autoscaling").create_auto_scaling_group(**{key: value for key, value in params.items() if value is not None})


def create_template(world: World, **data: Any) -> dict[str, str]:
    return {"LaunchTemplateId": world.template(**data), "Version": "$Latest"}


def describe_group(world: World) -> dict[str, Any]:
    return dict(world.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=["nodes"])["AutoScalingGroups"][0])


def list_zones(world: World) -> list[str]:
    return sorted(item["AvailabilityZone"][-1] for item in describe_group(world)["Instances"])


def list_activities(world: World) -> list[dict[str, Any]]:
    return list(world.client("autoscaling").describe_scaling_activities(AutoScalingGroupName="nodes")["Activities"])


def scale_group(world: World, desired: int) -> None:
    world.client("autoscaling").set_desired_capacity(AutoScalingGroupName="nodes", DesiredCapacity=desired)


def test_instances_are_spread_over_the_zones(world: World) -> None:
    create_group(world, desired=5)
    shown = describe_group(world)
    assert list_zones(world) == ["a", "a", "b", "b", "c"]
    assert {item["LifecycleState"] for item in shown["Instances"]} == {"InService"}
    assert shown["AvailabilityZones"] == ["us-west-2a", "us-west-2b", "us-west-2c"]
    scale_group(world, 2)
    assert list_zones(world) in (["a", "b"], ["a", "c"], ["b", "c"])


def test_an_instance_in_a_group_matches_the_launch_template(world: World) -> None:
    world.ec2.create_placement_group(GroupName="close")
    interfaces = [
        {"DeviceIndex": 0, "Groups": [world.group]},
        {"DeviceIndex": 1, "InterfaceType": "efa-only", "Groups": [world.group]},
    ]
    template_reference = create_template(
        world,
        SecurityGroupIds=None,
        NetworkInterfaces=interfaces,
        Placement={"GroupName": "close"},
        IamInstanceProfile={"Name": world.create_instance_profile()},
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
    create_group(world, desired=2, LaunchTemplate=template_reference, Tags=tags)
    members = describe_group(world)["Instances"]
    assert len({item["AvailabilityZone"] for item in members}) == 1, "a cluster placement group is in one zone"
    assert members[0]["LaunchTemplate"]["Version"] == "1"
    instance = world.describe_instances(members[0]["InstanceId"])[0]
    assert [item["InterfaceType"] for item in instance["NetworkInterfaces"]] == ["interface", "efa-only"]
    assert (instance["Placement"]["GroupName"], instance["MetadataOptions"]["HttpTokens"]) == ("close", "required")
    assert instance["IamInstanceProfile"]["Arn"].endswith("/node")
    assert {volume["Size"] for volume in world.ec2.describe_volumes()["Volumes"]} == {200}
    shown = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert (shown["pool"], shown["a"], shown["aws:autoscaling:groupName"]) == ("group", "1", "nodes")
    assert "secret" not in shown


def test_launches_and_terminations_appear_in_the_scaling_activities(world: World) -> None:
    create_group(world, desired=1)
    launched = list_activities(world)[0]
    assert (launched["StatusCode"], launched["Progress"]) == ("Successful", 100)
    assert launched["Description"] == f"Launching a new EC2 instance: {describe_group(world)['Instances'][0]['InstanceId']}"
    assert json.loads(launched["Details"]) == {"Subnet ID": world.subnets[0], "Availability Zone": "us-west-2a"}
    scale_group(world, 0)
    assert list_activities(world)[0]["Description"].startswith("Terminating EC2 instance: i-")
    assert list_activities(world)[0]["Cause"].endswith("shrinking the capacity from 1 to 0.")


def test_a_refused_launch_appears_as_an_activity_with_the_ec2_error_message(world: World) -> None:
    faults.add_fault(faults.Fault("ec2", "RunInstances", "InsufficientInstanceCapacity", CAPACITY, times=3))
    create_group(world, desired=1)
    assert describe_group(world)["Instances"] == []
    assert [item["StatusCode"] for item in list_activities(world)] == ["Failed"] * 3, "the launch is tried in each zone"
    assert list_activities(world)[0]["StatusMessage"] == f"{CAPACITY} Launching EC2 instance failed."
    errors = capacity.list_recent_errors(backend_of("autoscaling", "123456789012", REGION).autoscaling_groups["nodes"])
    assert {error.code for error in errors} == {"InsufficientInstanceCapacity"}
    scale_group(world, 2)
    assert len(describe_group(world)["Instances"]) == 2, "there is capacity again"


def test_instances_launch_in_the_other_zones_if_one_zone_lacks_capacity(world: World) -> None:
    match = {"SubnetId": world.subnets[0]}
    faults.add_fault(faults.Fault("ec2", "RunInstances", "InsufficientInstanceCapacity", CAPACITY, times=99, match=match))
    create_group(world, desired=4)
    assert list_zones(world) == ["b", "b", "c", "c"]


def build_mixed_instances_policy(world: World, on_demand_percent: int, *types: str) -> dict[str, Any]:
    specification = {
        "LaunchTemplateSpecification": create_template(world),
        "Overrides": [{"InstanceType": name} for name in types],
    }
    return {"LaunchTemplate": specification, "InstancesDistribution": {"OnDemandPercentageAboveBaseCapacity": on_demand_percent}}


def test_a_mixed_instances_group_launches_the_first_available_type(world: World) -> None:
    match = {"InstanceType": "g5.8xlarge"}
    faults.add_fault(faults.Fault("ec2", "RunInstances", "InsufficientInstanceCapacity", CAPACITY, times=99, match=match))
    create_group(world, desired=2, MixedInstancesPolicy=build_mixed_instances_policy(world, 100, "g5.8xlarge", "g5.12xlarge"))
    assert [item["InstanceType"] for item in describe_group(world)["Instances"]] == ["g5.12xlarge"] * 2


@pytest.mark.parametrize(("percent", "spot"), [(0, 4), (50, 2), (100, 0)])
def test_a_mixed_instances_group_launches_the_configured_share_of_spot_instances(world: World, percent: int, spot: int) -> None:
    create_group(world, desired=4, MixedInstancesPolicy=build_mixed_instances_policy(world, percent, "g5.8xlarge"))
    ids = [item["InstanceId"] for item in describe_group(world)["Instances"]]
    assert [item.get("InstanceLifecycle") for item in world.describe_instances(*ids)].count("spot") == spot


def test_the_failure_of_a_mixed_instances_group_names_the_types_that_could_not_launch(world: World) -> None:
    faults.add_fault(faults.Fault("ec2", "RunInstances", "InsufficientInstanceCapacity", CAPACITY, times=9))
    create_group(world, desired=1, MixedInstancesPolicy=build_mixed_instances_policy(world, 0, "g5.8xlarge"))
    expected = f"Could not launch Spot Instances. InsufficientInstanceCapacity - {CAPACITY} Launching EC2 instance failed."
    assert list_activities(world)[0]["StatusMessage"] == expected


def test_a_terminated_instance_is_replaced(world: World) -> None:
    create_group(world, desired=2)
    lost = describe_group(world)["Instances"][0]["InstanceId"]
    world.ec2.terminate_instances(InstanceIds=[lost])
    ids = [item["InstanceId"] for item in describe_group(world)["Instances"]]
    assert len(ids) == 2
    assert lost not in ids


def test_suspended_processes_take_no_action(world: World) -> None:
    create_group(world, desired=1)
    autoscaling = world.client("autoscaling")
    autoscaling.suspend_processes(AutoScalingGroupName="nodes", ScalingProcesses=["Launch"])
    scale_group(world, 3)
    assert len(describe_group(world)["Instances"]) == 1
    autoscaling.resume_processes(AutoScalingGroupName="nodes")
    scale_group(world, 3)
    assert len(describe_group(world)["Instances"]) == 3


def test_a_new_minimum_or_maximum_adjusts_the_desired_capacity(world: World) -> None:
    create_group(world, desired=2)
    autoscaling = world.client("autoscaling")
    autoscaling.update_auto_scaling_group(AutoScalingGroupName="nodes", MinSize=4, MaxSize=6)
    assert (describe_group(world)["DesiredCapacity"], len(describe_group(world)["Instances"])) == (4, 4)
    autoscaling.update_auto_scaling_group(AutoScalingGroupName="nodes", MinSize=0, MaxSize=1)
    assert (describe_group(world)["DesiredCapacity"], len(describe_group(world)["Instances"])) == (1, 1)


def test_an_update_keeps_parameters_that_the_request_omits(world: World) -> None:
    create_group(
        world, desired=1, MixedInstancesPolicy=build_mixed_instances_policy(world, 100, "g5.8xlarge"), DefaultInstanceWarmup=60
    )
    before = describe_group(world)
    world.client("autoscaling").update_auto_scaling_group(AutoScalingGroupName="nodes", MaxSize=5)
    assert describe_group(world) == {**before, "MaxSize": 5}


def test_an_instance_can_be_detached_with_or_without_replacement(world: World) -> None:
    create_group(world, desired=2)
    autoscaling = world.client("autoscaling")
    first = describe_group(world)["Instances"][0]["InstanceId"]
    autoscaling.terminate_instance_in_auto_scaling_group(InstanceId=first, ShouldDecrementDesiredCapacity=True)
    assert (describe_group(world)["DesiredCapacity"], len(describe_group(world)["Instances"])) == (1, 1)
    second = describe_group(world)["Instances"][0]["InstanceId"]
    autoscaling.terminate_instance_in_auto_scaling_group(InstanceId=second, ShouldDecrementDesiredCapacity=False)
    assert [item["InstanceId"] == second for item in describe_group(world)["Instances"]] == [False]


def test_describe_auto_scaling_instances_shows_the_group_of_each_instance(world: World) -> None:
    create_group(world, desired=1)
    autoscaling = world.client("autoscaling")
    instance_id = describe_group(world)["Instances"][0]["InstanceId"]
    shown = autoscaling.describe_auto_scaling_instances(InstanceIds=[instance_id])["AutoScalingInstances"][0]
    assert (shown["AutoScalingGroupName"], shown["LifecycleState"], shown["HealthStatus"]) == ("nodes", "InService", "HEALTHY")
    assert autoscaling.describe_traffic_sources(AutoScalingGroupName="nodes")["TrafficSources"] == []


def test_tags_can_be_found_with_filters(world: World) -> None:
    create_group(world, desired=0, Tags=[{"Key": "a", "Value": "1", "PropagateAtLaunch": True}])
    autoscaling = world.client("autoscaling")
    tag = {"ResourceId": "nodes", "ResourceType": "auto-scaling-group", "Key": "b", "Value": "2", "PropagateAtLaunch": False}
    autoscaling.create_or_update_tags(Tags=[tag])

    def find_tag_keys(name: str, value: str) -> list[str]:
        return [item["Key"] for item in autoscaling.describe_tags(Filters=[{"Name": name, "Values": [value]}])["Tags"]]

    assert (find_tag_keys("auto-scaling-group", "nodes"), find_tag_keys("key", "b"), find_tag_keys("value", "1")) == (
        ["a", "b"],
        ["b"],
        ["a"],
    )
    assert (find_tag_keys("propagate-at-launch", "true"), find_tag_keys("propagate-at-launch", "false")) == (["a"], ["b"])
    autoscaling.delete_tags(Tags=[{**tag, "Key": "a"}])
    assert [item["Key"] for item in describe_group(world)["Tags"]] == ["b"]


def test_instances_enter_service_after_their_launch_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(durations, "now", lambda: clock[0])
    durations.set_factor(1)
    create_group(world, desired=1)
    assert describe_group(world)["Instances"][0]["LifecycleState"] == "Pending"
    clock[0] += durations.compute_scaled_seconds("ec2-instance")
    assert describe_group(world)["Instances"][0]["LifecycleState"] == "InService"
    world.client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="nodes", ForceDelete=True)
    assert (describe_group(world)["Status"], describe_group(world)["Instances"][0]["LifecycleState"]) == (
        "Delete in progress",
        "Terminating",
    )
    clock[0] += durations.compute_scaled_seconds("autoscaling-group-delete")
    assert world.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"] == []


def test_force_deleting_a_group_leaves_nothing_behind(world: World) -> None:
    before = {str(item) for item in inventory.list_leftovers()}
    create_group(world, desired=3)
    world.client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="nodes", ForceDelete=True)
    world.ec2.delete_launch_template(LaunchTemplateName="nodes")
    assert {str(item) for item in inventory.list_leftovers()} == before


def test_emulators_receive_group_and_instance_events(world: World) -> None:
    heard: list[tuple[str, str]] = []
    unregister = events.register_realizer(lambda event: heard.append((event.kind, event.action)))
    try:
        create_group(world, desired=1)
        describe_group(world)
        world.client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName="nodes", ForceDelete=True)
        world.ec2.describe_instances()
    finally:
        unregister()
    assert heard[:3] == [("auto-scaling-group", "created"), ("instance", "created"), ("auto-scaling-group", "changed")]
    assert ("instance", "changed") in heard, "the instance runs"
    assert heard[-2:] == [("instance", "gone"), ("auto-scaling-group", "gone")]
