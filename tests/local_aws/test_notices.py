"""Notices that EC2 sends for instances: Spot interruptions, rebalance recommendations and retirements."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from localcloud.aws import clock, events, scarcity
from localcloud.aws.account import ACCOUNT
from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import instance_calls, notices
from testkit.aws_clients import REGION, Client
from testkit.eks_world import World

START = datetime(2026, 11, 23, 12, tzinfo=UTC)
TWO = {"minSize": 0, "maxSize": 3, "desiredSize": 2}


@pytest.fixture
def world(aws: Client, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(clock, "read_system_clock", lambda: START)
    eks_world = World(aws)
    eks_world.cluster()
    return eks_world


@pytest.fixture
def instance_events() -> Iterator[list[tuple[str, str]]]:
    published: list[tuple[str, str]] = []
    unregister = events.register_realizer(
        lambda event: published.append((event.name, event.action)) if event.kind == "instance" else None
    )
    yield published
    unregister()


def read_metadata(name: str) -> dict[str, str]:
    (instance,) = instance_calls.find_instances(backend_of("ec2", ACCOUNT, REGION), [name])
    return notices.list_metadata_paths(instance)


def test_eks_drains_a_spot_node_after_its_notice_and_ec2_terminates_it_two_minutes_later(
    world: World, instance_events: list[tuple[str, str]]
) -> None:
    world.node_group(capacityType="SPOT", scalingConfig=TWO)
    interrupted, other = sorted(world.list_instance_ids())
    instance_events.clear()
    assert read_metadata(interrupted) == {}
    for _ in range(2):
        assert notices.send_interruption_notice(None, interrupted) == {"instance": interrupted, "time": "2026-11-23T12:02:00Z"}
    assert instance_events == [(interrupted, "draining")], "a notice comes once"
    notice = {"action": "terminate", "time": "2026-11-23T12:02:00Z"}
    assert json.loads(read_metadata(interrupted)["meta-data/spot/instance-action"]) == notice
    clock.advance(timedelta(seconds=119))
    assert world.list_instance_ids() == {interrupted, other}
    clock.advance(timedelta(seconds=1))
    after = world.list_instance_ids()
    assert interrupted not in after and other in after and len(after) == 2
    (ended,) = world.ec2.describe_instances(InstanceIds=[interrupted])["Reservations"][0]["Instances"]
    assert ended["StateReason"]["Code"] == "Server.SpotInstanceTermination"


@pytest.fixture
def join_progress() -> Iterator[list[events.Progress]]:
    """Progress of node groups, as their realizer reports it; the last item is the current one."""
    reported = [events.DONE]
    unregister = events.register_realizer(
        lambda event: None, lambda kind, *_: reported[-1] if kind == "node-group" else events.DONE
    )
    yield reported
    unregister()


def test_eks_drains_a_rebalanced_spot_node_only_after_its_replacement_has_joined(
    world: World, instance_events: list[tuple[str, str]], join_progress: list[events.Progress]
) -> None:
    world.node_group(capacityType="SPOT", scalingConfig={**TWO, "maxSize": 2})
    old, other = sorted(world.list_instance_ids())
    instance_events.clear()
    join_progress.append(events.WAIT)
    for _ in range(2):
        assert notices.recommend_rebalance(None, old) == {"instance": old, "time": "2026-11-23T12:00:00Z"}
    recommended = {"meta-data/events/recommendations/rebalance": '{"noticeTime": "2026-11-23T12:00:00Z"}'}
    assert read_metadata(old) == recommended, "there is no two-minute notice"
    (new,) = world.list_instance_ids() - {old, other}
    assert (old, "draining") not in instance_events
    join_progress.append(events.DONE)
    assert world.list_instance_ids() == {other, new}
    assert instance_events.count((old, "draining")) == 1
    causes = [activity["Cause"] for activity in world.autoscaling.describe_scaling_activities()["Activities"]]
    assert sum("in response to an EC2 instance rebalance recommendation" in cause for cause in causes) == 2


def test_a_spot_notice_before_the_replacement_has_joined_drains_the_node_at_once(
    world: World, instance_events: list[tuple[str, str]], join_progress: list[events.Progress]
) -> None:
    world.node_group(capacityType="SPOT", scalingConfig=TWO)
    old, other = sorted(world.list_instance_ids())
    join_progress.append(events.WAIT)
    notices.recommend_rebalance(None, old)
    (new,) = world.list_instance_ids() - {old, other}
    notices.send_interruption_notice(None, old)
    assert (old, "draining") in instance_events
    clock.advance(timedelta(minutes=2))
    assert world.list_instance_ids() == {other, new}
    join_progress.append(events.DONE)
    assert world.list_instance_ids() == {other, new}


def test_a_spot_node_without_a_replacement_is_kept_until_its_notice(world: World) -> None:
    world.node_group(capacityType="SPOT", scalingConfig=TWO, instanceTypes=["g5.8xlarge"])
    before = world.list_instance_ids()
    for zone in ("us-west-2a", "us-west-2b", "us-west-2c"):
        scarcity.add_scarcity("g5.8xlarge", zone)
    notices.recommend_rebalance(None, min(before))
    assert world.list_instance_ids() == before


def test_only_running_spot_instances_can_be_interrupted(world: World) -> None:
    world.node_group(scalingConfig=TWO)
    name = min(world.list_instance_ids())
    for notify in (notices.send_interruption_notice, notices.recommend_rebalance):
        with pytest.raises(ValueError, match="is not a Spot Instance"):
            notify(None, name)
    world.ec2.terminate_instances(InstanceIds=[name])
    with pytest.raises(ValueError, match=f"no instance {name} is running"):
        notices.schedule_retirement(None, name)


def test_an_instance_retirement_is_announced_two_weeks_ahead(world: World) -> None:
    world.node_group(scalingConfig=TWO)
    name, other = sorted(world.list_instance_ids())
    notices.schedule_retirement(None, name)
    announced = world.ec2.describe_instance_status(Filters=[{"Name": "event.code", "Values": ["instance-retirement"]}])
    ((status,),) = [announced["InstanceStatuses"]]
    assert (status["InstanceId"], status["InstanceStatus"]["Status"]) == (name, "ok")
    assert status["Events"][0]["NotBefore"] == START + timedelta(days=14)
    (event,) = json.loads(read_metadata(name)["meta-data/events/maintenance/scheduled"])
    assert (event["Code"], event["NotBefore"]) == ("instance-retirement", "7 Dec 2026 12:00:00 GMT")
    everything = world.ec2.describe_instance_status()["InstanceStatuses"]
    assert {status["InstanceId"]: len(status.get("Events", [])) for status in everything} == {name: 1, other: 0}
    clock.advance(timedelta(days=14))
    assert name not in world.list_instance_ids()
