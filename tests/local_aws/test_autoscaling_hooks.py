"""Lifecycle hooks and instance refreshes of Auto Scaling groups."""

import time
from typing import Any

import pytest

from testkit.aws_clients import Client
from tests.local_aws.ec2_world import World, make_world

LAUNCHING = "autoscaling:EC2_INSTANCE_LAUNCHING"
TERMINATING = "autoscaling:EC2_INSTANCE_TERMINATING"


@pytest.fixture
def world(aws: Client) -> World:
    return make_world(aws)


def create_group(world: World, *hooks: dict[str, Any], desired: int = 1) -> Any:
    """Create the group `nodes` with these hooks; return the Auto Scaling client."""
    autoscaling = world.client("autoscaling")
    autoscaling.create_auto_scaling_group(
        AutoScalingGroupName="nodes",
        MinSize=0,
        MaxSize=5,
        DesiredCapacity=desired,
        VPCZoneIdentifier=",".join(world.subnets),
        LaunchTemplate={"LaunchTemplateId": world.template(), "Version": "$Latest"},
        LifecycleHookSpecificationList=list(hooks),
    )
    return autoscaling


def build_hook(transition: str, result: str = "ABANDON", timeout: int = 300) -> dict[str, Any]:
    return {"LifecycleHookName": "wait", "LifecycleTransition": transition, "DefaultResult": result, "HeartbeatTimeout": timeout}


def list_members(autoscaling: Any) -> list[tuple[str, str]]:
    shown = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=["nodes"])["AutoScalingGroups"][0]
    return [(item["InstanceId"], item["LifecycleState"]) for item in shown["Instances"]]


def test_hooks_in_the_creation_request_are_stored(world: World) -> None:
    autoscaling = create_group(world, build_hook(LAUNCHING), desired=0)
    shown = autoscaling.describe_lifecycle_hooks(AutoScalingGroupName="nodes")["LifecycleHooks"]
    assert shown == [{**build_hook(LAUNCHING), "AutoScalingGroupName": "nodes", "GlobalTimeout": 30000}]
    autoscaling.put_lifecycle_hook(AutoScalingGroupName="nodes", LifecycleHookName="wait", HeartbeatTimeout=60)
    changed = autoscaling.describe_lifecycle_hooks(AutoScalingGroupName="nodes")["LifecycleHooks"][0]
    assert (changed["HeartbeatTimeout"], changed["LifecycleTransition"]) == (60, LAUNCHING)
    autoscaling.delete_lifecycle_hook(AutoScalingGroupName="nodes", LifecycleHookName="wait")
    assert autoscaling.describe_lifecycle_hooks(AutoScalingGroupName="nodes")["LifecycleHooks"] == []


def test_a_launched_instance_waits_for_its_lifecycle_action(world: World) -> None:
    autoscaling = create_group(world, build_hook(LAUNCHING))
    instance_id, state = list_members(autoscaling)[0]
    assert state == "Pending:Wait"
    action = {"AutoScalingGroupName": "nodes", "LifecycleHookName": "wait", "InstanceId": instance_id}
    autoscaling.record_lifecycle_action_heartbeat(**action)
    autoscaling.complete_lifecycle_action(**action, LifecycleActionResult="CONTINUE")
    assert list_members(autoscaling) == [(instance_id, "InService")]


def test_an_instance_with_an_abandoned_launch_is_replaced(world: World) -> None:
    autoscaling = create_group(world, build_hook(LAUNCHING))
    abandoned = list_members(autoscaling)[0][0]
    autoscaling.complete_lifecycle_action(
        AutoScalingGroupName="nodes", LifecycleHookName="wait", InstanceId=abandoned, LifecycleActionResult="ABANDON"
    )
    after = list_members(autoscaling)
    assert [state for _, state in after] == ["Pending:Wait"]
    assert after[0][0] != abandoned
    assert world.describe_instances(abandoned)[0]["State"]["Name"] == "terminated"


def test_a_termination_hook_delays_the_termination_of_an_instance(world: World) -> None:
    autoscaling = create_group(world, build_hook(TERMINATING))
    instance_id = list_members(autoscaling)[0][0]
    autoscaling.set_desired_capacity(AutoScalingGroupName="nodes", DesiredCapacity=0)
    assert list_members(autoscaling) == [(instance_id, "Terminating:Wait")]
    assert world.describe_instances(instance_id)[0]["State"]["Name"] == "running"
    autoscaling.complete_lifecycle_action(
        AutoScalingGroupName="nodes", LifecycleHookName="wait", InstanceId=instance_id, LifecycleActionResult="CONTINUE"
    )
    assert list_members(autoscaling) == []
    assert world.describe_instances(instance_id)[0]["State"]["Name"] == "terminated"


@pytest.mark.parametrize(("result", "state"), [("CONTINUE", "InService"), ("ABANDON", "Pending:Wait")])
def test_an_expired_hook_applies_its_default_result(
    world: World, monkeypatch: pytest.MonkeyPatch, result: str, state: str
) -> None:
    autoscaling = create_group(world, build_hook(LAUNCHING, result, timeout=30))
    before = list_members(autoscaling)[0][0]
    moment = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: moment + 31)
    autoscaling.describe_auto_scaling_groups()
    after = list_members(autoscaling)[0]
    assert (after[1], after[0] == before) == (state, result == "CONTINUE")


def test_force_deleting_a_group_does_not_wait_for_hooks(world: World) -> None:
    autoscaling = create_group(world, build_hook(TERMINATING))
    list_members(autoscaling)
    autoscaling.delete_auto_scaling_group(AutoScalingGroupName="nodes", ForceDelete=True)
    assert autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"] == []


def test_an_instance_refresh_replaces_instances_of_older_template_versions(world: World) -> None:
    autoscaling = create_group(world, desired=2)
    before = {instance_id for instance_id, _ in list_members(autoscaling)}
    world.ec2.create_launch_template_version(
        LaunchTemplateName="nodes", SourceVersion="1", LaunchTemplateData={"InstanceType": "g5.12xlarge"}
    )
    refresh = autoscaling.start_instance_refresh(AutoScalingGroupName="nodes", Preferences={"SkipMatching": True})[
        "InstanceRefreshId"
    ]
    for _ in range(3):
        shown = autoscaling.describe_instance_refreshes(AutoScalingGroupName="nodes", InstanceRefreshIds=[refresh])[
            "InstanceRefreshes"
        ]
    assert shown[0]["Status"] == "Successful"
    after = {instance_id for instance_id, _ in list_members(autoscaling)}
    assert (len(after), after & before) == (2, set())
    assert {item["InstanceType"] for item in world.describe_instances(*after)} == {"g5.12xlarge"}
    autoscaling.start_instance_refresh(AutoScalingGroupName="nodes", Preferences={"SkipMatching": True})
    assert {instance_id for instance_id, _ in list_members(autoscaling)} == after, "instances of the current version are kept"
