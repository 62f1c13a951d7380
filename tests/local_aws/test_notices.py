"""Notices that EC2 sends for instances: Spot interruptions and retirements."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from localcloud.aws import clock, events
from localcloud.aws.account import ACCOUNT
from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import instance_calls, notices
from testkit.aws_clients import REGION, Client
from testkit.eks_world import World

START = datetime(2026, 11, 23, 12, tzinfo=UTC)
TWO = {"minSize": 0, "maxSize": 3, "desiredSize": 2}


@pytest.fixture
def world(aws: Client, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(clock, "system", lambda: START)
    made = World(aws)
    made.cluster()
    return made


@pytest.fixture
def seen() -> Iterator[list[tuple[str, str]]]:
    found: list[tuple[str, str]] = []
    unregister = events.register(lambda event: found.append((event.name, event.action)) if event.kind == "instance" else None)
    yield found
    unregister()


def metadata(name: str) -> dict[str, str]:
    (instance,) = instance_calls.find(backend_of("ec2", ACCOUNT, REGION), [name])
    return notices.metadata(instance)


def test_eks_drains_a_spot_node_at_its_notice_and_ec2_ends_it_two_minutes_later(
    world: World, seen: list[tuple[str, str]]
) -> None:
    world.node_group(capacityType="SPOT", scalingConfig=TWO)
    interrupted, other = sorted(world.instance_ids())
    seen.clear()
    assert metadata(interrupted) == {}
    for _ in range(2):
        assert notices.interrupt(None, interrupted) == {"instance": interrupted, "time": "2026-11-23T12:02:00Z"}
    assert seen == [(interrupted, "draining")], "a notice comes once"
    notice = {"action": "terminate", "time": "2026-11-23T12:02:00Z"}
    assert json.loads(metadata(interrupted)["meta-data/spot/instance-action"]) == notice
    clock.advance(timedelta(seconds=119))
    assert world.instance_ids() == {interrupted, other}
    clock.advance(timedelta(seconds=1))
    after = world.instance_ids()
    assert interrupted not in after and other in after and len(after) == 2
    (ended,) = world.ec2.describe_instances(InstanceIds=[interrupted])["Reservations"][0]["Instances"]
    assert ended["StateReason"]["Code"] == "Server.SpotInstanceTermination"


def test_only_spot_instances_that_run_are_interrupted(world: World) -> None:
    world.node_group(scalingConfig=TWO)
    name = min(world.instance_ids())
    with pytest.raises(ValueError, match="is not a Spot Instance"):
        notices.interrupt(None, name)
    world.ec2.terminate_instances(InstanceIds=[name])
    with pytest.raises(ValueError, match=f"no instance {name} is running"):
        notices.retire(None, name)


def test_a_retirement_is_announced_two_weeks_ahead(world: World) -> None:
    world.node_group(scalingConfig=TWO)
    name, other = sorted(world.instance_ids())
    notices.retire(None, name)
    announced = world.ec2.describe_instance_status(Filters=[{"Name": "event.code", "Values": ["instance-retirement"]}])
    ((status,),) = [announced["InstanceStatuses"]]
    assert (status["InstanceId"], status["InstanceStatus"]["Status"]) == (name, "ok")
    assert status["Events"][0]["NotBefore"] == START + timedelta(days=14)
    (event,) = json.loads(metadata(name)["meta-data/events/maintenance/scheduled"])
    assert (event["Code"], event["NotBefore"]) == ("instance-retirement", "7 Dec 2026 12:00:00 GMT")
    everything = world.ec2.describe_instance_status()["InstanceStatuses"]
    assert {one["InstanceId"]: len(one.get("Events", [])) for one in everything} == {name: 1, other: 0}
    clock.advance(timedelta(days=14))
    assert name not in world.instance_ids()
