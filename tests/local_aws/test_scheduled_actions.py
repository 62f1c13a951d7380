"""Scheduled actions of Auto Scaling groups, including those of node groups in a Capacity Block."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.aws import clock
from localcloud.aws.autoscaling.scheduled_actions import END_OF_BLOCK
from localcloud.aws.ec2 import capacity_reservations
from testkit.aws_clients import Client
from tests.local_aws.ec2_world import World, make_world

NOW = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(clock, "read_system_clock", lambda: NOW)
    yield


@pytest.fixture
def world(aws: Client) -> World:
    return make_world(aws)


def create_group(world: World, **sizes: int) -> Any:
    client, template = world.client("autoscaling"), world.template()
    request = {"MinSize": 0, "MaxSize": 4, "DesiredCapacity": 0, **sizes}
    client.create_auto_scaling_group(
        AutoScalingGroupName="nodes", LaunchTemplate={"LaunchTemplateId": template}, VPCZoneIdentifier=world.subnets[0], **request
    )
    return client


def read_sizes(client: Any) -> tuple[int, int]:
    [scaling_group] = client.describe_auto_scaling_groups(AutoScalingGroupNames=["nodes"])["AutoScalingGroups"]
    return scaling_group["MinSize"], scaling_group["DesiredCapacity"]


def put_action(client: Any, name: str, after: timedelta, **sizes: int) -> None:
    request = {"AutoScalingGroupName": "nodes", "ScheduledActionName": name, "StartTime": NOW + after}
    client.put_scheduled_update_group_action(**request, **sizes)


def list_action_names(client: Any) -> list[str]:
    actions = client.describe_scheduled_actions(AutoScalingGroupName="nodes")["ScheduledUpdateGroupActions"]
    return [action["ScheduledActionName"] for action in actions]


def test_a_scheduled_action_changes_the_group_sizes_once(world: World) -> None:
    client = create_group(world)
    put_action(client, "starts", HOUR, DesiredCapacity=2)
    put_action(client, "ends", 2 * HOUR, MinSize=0, DesiredCapacity=0)
    clock.advance(HOUR - timedelta(seconds=1))
    assert (read_sizes(client), list_action_names(client)) == ((0, 0), ["starts", "ends"])
    clock.advance(timedelta(seconds=1))
    assert (read_sizes(client), list_action_names(client)) == ((0, 2), ["ends"])
    clock.advance(HOUR)
    assert (read_sizes(client), list_action_names(client)) == ((0, 0), [])


def test_auto_scaling_rejects_invalid_scheduled_actions(world: World) -> None:
    client = create_group(world)
    for after, sizes, message in (
        (-HOUR, {"DesiredCapacity": 1}, "Given start time is in the past"),
        (HOUR, {}, "At least one of MinSize"),
    ):
        with pytest.raises(ClientError, match=message):
            put_action(client, "starts", after, **sizes)
    with pytest.raises(ClientError, match="Scheduled action name not found"):
        client.delete_scheduled_action(AutoScalingGroupName="nodes", ScheduledActionName="starts")


def test_deleting_a_group_deletes_its_scheduled_actions(world: World) -> None:
    client = create_group(world)
    put_action(client, "starts", HOUR, DesiredCapacity=2)
    client.delete_auto_scaling_group(AutoScalingGroupName="nodes", ForceDelete=True)
    clock.advance(2 * HOUR)
    assert client.describe_scheduled_actions()["ScheduledUpdateGroupActions"] == []


def test_eks_scales_a_node_group_to_zero_40_minutes_before_its_block_ends(aws: Client) -> None:
    from testkit.eks_world import World as EksWorld

    block = capacity_reservations.seed_reservation("p5.48xlarge", "us-west-2a", 2, kind="capacity-block")
    world = EksWorld(aws)
    world.cluster()
    market = {"InstanceMarketOptions": {"MarketType": "capacity-block"}, "InstanceType": "p5.48xlarge"}
    target = {"CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": block}}}
    data = {**market, **target}
    template = aws("ec2").create_launch_template(LaunchTemplateName="block", LaunchTemplateData=data)["LaunchTemplate"]
    named = {"id": template["LaunchTemplateId"], "version": "1"}
    sizes = {"minSize": 0, "maxSize": 2, "desiredSize": 1}
    world.node_group(
        capacityType="CAPACITY_BLOCK", launchTemplate=named, scalingConfig=sizes, subnets=[world.subnets[0]], instanceTypes=None
    )
    client = aws("autoscaling")
    [action] = client.describe_scheduled_actions()["ScheduledUpdateGroupActions"]
    assert (action["ScheduledActionName"], action["StartTime"]) == (END_OF_BLOCK, NOW + timedelta(days=1, minutes=-40))
    clock.advance(timedelta(days=1, minutes=-40))
    [scaling_group] = client.describe_auto_scaling_groups()["AutoScalingGroups"]
    assert scaling_group["DesiredCapacity"] == 0
