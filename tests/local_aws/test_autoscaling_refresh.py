"""Instance refreshes of Auto Scaling groups: batches, protection, standby, failures.

https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_RefreshPreferences.html
"""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.aws import durations, faults
from testkit.aws_clients import Client
from tests.local_aws.ec2_world import World, make_world

STEP = 10
"""Seconds of the test's clock between two checks. An instance takes 12 seconds to start."""


class Group:
    """The Auto Scaling group `nodes`, with methods that advance the local AWS's clock."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, desired: int) -> None:
        self.world, self.now = world, 0.0
        self.client: Any = world.client("autoscaling")
        monkeypatch.setattr(durations, "now", lambda: self.now)
        self.client.create_auto_scaling_group(
            AutoScalingGroupName="nodes",
            MinSize=0,
            MaxSize=desired,
            DesiredCapacity=desired,
            DefaultInstanceWarmup=0,
            VPCZoneIdentifier=world.subnets[0],
            LaunchTemplate={"LaunchTemplateId": world.template(), "Version": "$Latest"},
        )
        self.before = self.list_instance_ids()
        durations.set_factor(1)
        self.id = ""

    def list_instance_ids(self) -> set[str]:
        return {item["InstanceId"] for item in self.list_instances() if not item["LifecycleState"].startswith("Terminat")}

    def list_instances(self) -> list[dict[str, Any]]:
        groups = self.client.describe_auto_scaling_groups(AutoScalingGroupNames=["nodes"])["AutoScalingGroups"]
        return list(groups[0]["Instances"])

    def start_refresh(self, **preferences: Any) -> None:
        started = self.client.start_instance_refresh(AutoScalingGroupName="nodes", Preferences=preferences)
        self.id = started["InstanceRefreshId"]

    def set_protection(self, *ids: str, protected: bool = True) -> None:
        self.client.set_instance_protection(AutoScalingGroupName="nodes", InstanceIds=list(ids), ProtectedFromScaleIn=protected)

    def advance_and_read_status(self, later: float = 0.0) -> dict[str, Any]:
        """Advance the clock by `later` seconds and return the instance refresh.

        The clock advances in steps, because the local AWS evaluates conditions only when a request arrives, not
        retroactively.
        """
        for _ in range(int(later) // STEP):
            self.now += STEP
            self.list_instances()
        self.now += later % STEP
        answer = self.client.describe_instance_refreshes(AutoScalingGroupName="nodes", InstanceRefreshIds=[self.id])
        return dict(answer["InstanceRefreshes"][0])

    def watch_refresh(self) -> tuple[str, int, int]:
        """Run the refresh to its end. Return the refresh's status, the minimum number of instances in service, and the
        maximum number of instances.
        """
        least, most = len(self.before), 0
        for _ in range(2000):
            status = self.advance_and_read_status(later=STEP)["Status"]
            present = [
                item["LifecycleState"] for item in self.list_instances() if not item["LifecycleState"].startswith("Terminat")
            ]
            least, most = min(least, present.count("InService")), max(most, len(present))
            if status in ("Successful", "Failed"):
                return status, least, most
        raise AssertionError("the refresh has not ended")


@pytest.fixture
def world(aws: Client) -> World:
    return make_world(aws)


@pytest.mark.parametrize(
    ("preferences", "least", "most"),
    [
        ({}, 4, 5),
        ({"MinHealthyPercentage": 50}, 3, 5),
        ({"MinHealthyPercentage": 100}, 4, 5),
        ({"MinHealthyPercentage": 100, "MaxHealthyPercentage": 140}, 5, 7),
        ({"MinHealthyPercentage": 80, "MaxHealthyPercentage": 120}, 4, 6),
        ({"MinHealthyPercentage": 100, "MaxHealthyPercentage": 100}, 5, 6),
    ],
)
def test_a_refresh_respects_the_minimum_and_maximum_healthy_percentage(
    world: World, monkeypatch: pytest.MonkeyPatch, preferences: dict[str, int], least: int, most: int
) -> None:
    group = Group(world, monkeypatch, 5)
    group.start_refresh(**preferences)
    assert group.watch_refresh() == ("Successful", least, most)
    assert len(group.list_instance_ids()) == 5 and not group.before & group.list_instance_ids()


def test_a_refresh_reports_its_progress_and_waits_for_instance_warmup(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(world, monkeypatch, 4)
    group.start_refresh(MinHealthyPercentage=50, InstanceWarmup=1000)
    group.advance_and_read_status(later=60)
    halfway = group.advance_and_read_status(later=900)
    assert (halfway["Status"], halfway["PercentageComplete"], halfway["InstancesToUpdate"]) == ("InProgress", 0, 4)
    assert len(group.before & group.list_instance_ids()) == 2
    later = group.advance_and_read_status(later=200)
    assert (later["PercentageComplete"], later["InstancesToUpdate"]) == (50, 2)
    assert group.watch_refresh()[0] == "Successful"
    assert group.advance_and_read_status()["PercentageComplete"] == 100


def test_a_refresh_replaces_protected_instances_if_requested(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(world, monkeypatch, 2)
    group.set_protection(*group.before)
    group.start_refresh(ScaleInProtectedInstances="Refresh")
    assert group.watch_refresh()[0] == "Successful"
    assert not group.before & group.list_instance_ids()


def test_a_refresh_ignores_protected_instances_if_requested(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(world, monkeypatch, 3)
    first = sorted(group.before)[0]
    group.set_protection(first)
    group.start_refresh(ScaleInProtectedInstances="Ignore")
    assert group.watch_refresh()[0] == "Successful"
    assert group.before & group.list_instance_ids() == {first}


def test_by_default_a_refresh_waits_an_hour_for_protected_instances(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(world, monkeypatch, 3)
    first = sorted(group.before)[0]
    group.set_protection(first)
    group.start_refresh()
    assert group.advance_and_read_status(later=300)["Status"] == "InProgress"
    assert group.before & group.list_instance_ids() == {first}
    group.now += 3000
    assert group.watch_refresh()[0] == "Failed"
    assert first in group.advance_and_read_status()["StatusReason"]
    assert group.before & group.list_instance_ids() == {first}
    group.start_refresh(SkipMatching=False)
    group.advance_and_read_status(later=200)
    group.set_protection(first, protected=False)
    assert group.watch_refresh()[0] == "Successful"


@pytest.mark.parametrize(("preference", "stays"), [("Ignore", True), ("Terminate", False)])
def test_standby_instances_are_ignored_or_terminated_if_requested(
    world: World, monkeypatch: pytest.MonkeyPatch, preference: str, stays: bool
) -> None:
    group = Group(world, monkeypatch, 2)
    first = sorted(group.before)[0]
    group.client.enter_standby(AutoScalingGroupName="nodes", InstanceIds=[first], ShouldDecrementDesiredCapacity=True)
    group.start_refresh(StandbyInstances=preference)
    assert group.watch_refresh()[0] == "Successful"
    assert (first in group.list_instance_ids()) == stays


def test_a_refresh_fails_if_no_instance_launches_for_an_hour(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(world, monkeypatch, 3)
    faults.add_fault(faults.Fault("ec2", "RunInstances", "InsufficientInstanceCapacity", times=1000))
    group.start_refresh()
    assert group.advance_and_read_status(later=300)["Status"] == "InProgress"
    assert len(group.before & group.list_instance_ids()) == 2, "the other instances stay"
    group.now += 3000
    assert group.watch_refresh()[0] == "Failed"
    assert len(group.before & group.list_instance_ids()) == 2


@pytest.mark.parametrize(
    ("preferences", "error"),
    [
        ({"MinHealthyPercentage": 101}, "between 0 and 100"),
        ({"MaxHealthyPercentage": 120}, "requires MinHealthyPercentage"),
        ({"MinHealthyPercentage": 50, "MaxHealthyPercentage": 160}, "exceed it by at most 100"),
        ({"CheckpointPercentages": [50, 100]}, "does not support CheckpointPercentages"),
    ],
)
def test_invalid_refresh_preferences_are_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, preferences: dict[str, Any], error: str
) -> None:
    group = Group(world, monkeypatch, 0)
    with pytest.raises(ClientError, match=error):
        group.start_refresh(**preferences)
