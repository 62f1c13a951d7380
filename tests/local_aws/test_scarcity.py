"""Zones without capacity for an instance type."""

from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from localcloud.aws import clock, scarcity
from localcloud.aws.ec2 import capacity_reservations
from testkit.aws_clients import Client, LocalAws
from testkit.eks_world import World as EksWorld
from testkit.eks_world import list_health_issues
from tests.local_aws.ec2_world import World, make_world

NAME, ZONE = "g5.8xlarge", "us-west-2a"


@pytest.fixture
def world(aws: Client) -> World:
    return make_world(aws)


def test_a_launch_without_capacity_fails_and_names_the_zones_with_capacity(world: World) -> None:
    scarcity.add_scarcity(NAME, ZONE)
    with pytest.raises(ClientError) as caught:
        world.run()
    assert caught.value.response["Error"]["Code"] == "InsufficientInstanceCapacity"
    assert "do not have sufficient g5.8xlarge capacity in the Availability Zone you requested (us-west-2a)" in str(caught.value)
    assert "or choosing us-west-2b" in str(caught.value)
    world.run(SubnetId=world.subnets[1])
    world.run(InstanceType="g5.12xlarge")


def test_spot_instances_and_new_reservations_fail_without_capacity_too(world: World) -> None:
    scarcity.add_scarcity(NAME, ZONE)
    with pytest.raises(ClientError, match=r"InsufficientInstanceCapacity.*no Spot capacity available"):
        world.run(InstanceMarketOptions={"MarketType": "spot"})
    request = {"InstanceType": NAME, "InstancePlatform": "Linux/UNIX", "AvailabilityZone": ZONE, "InstanceCount": 1}
    with pytest.raises(ClientError, match="InsufficientInstanceCapacity"):
        world.ec2.create_capacity_reservation(**request)


def test_reserved_capacity_stays_usable_during_scarcity(world: World) -> None:
    capacity_reservations.seed_reservation(NAME, ZONE, 1)
    scarcity.add_scarcity(NAME, ZONE)
    world.run()
    with pytest.raises(ClientError, match="InsufficientInstanceCapacity"):
        world.run()


def test_scarcity_ends_after_the_configured_time(world: World) -> None:
    scarcity.add_scarcity(NAME, ZONE, seconds=600)
    clock.advance(timedelta(seconds=599))
    assert scarcity.is_scarce(NAME, ZONE)
    clock.advance(timedelta(seconds=1))
    world.run()


def test_a_node_group_reports_insufficient_capacity_as_a_health_issue(aws: Client) -> None:
    world = EksWorld(aws)
    world.cluster()
    for zone in ("us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d"):
        scarcity.add_scarcity("m7i.large", zone)
    sizes = {"minSize": 0, "maxSize": 4, "desiredSize": 1}
    [(code, message)] = list_health_issues(world.node_group(scalingConfig=sizes, instanceTypes=["m7i.large"]))
    assert code == "AsgInstanceLaunchFailures"
    assert "InsufficientInstanceCapacity - We currently do not have sufficient m7i.large capacity" in message


def test_only_offered_instance_types_and_zones_can_be_scarce() -> None:
    for name, zone in (("p9.metal", ZONE), ("p6-b300.48xlarge", "us-west-2c"), (NAME, "nowhere-1a")):
        with pytest.raises(ValueError, match="is not offered in"):
            scarcity.add_scarcity(name, zone)


def test_the_control_api_can_list_and_end_scarcity(server: LocalAws) -> None:
    body = {"type": NAME, "zone": ZONE}
    assert server.call_control_api("POST", "scarcity", body) == [{**body, "until": None}]
    assert server.call_control_api("DELETE", "scarcity", body) == []
    assert server.call_control_api("POST", "denials", {"action": "ec2:CreateVpc"}) == ["ec2:CreateVpc"]
    assert server.call_control_api("DELETE", "denials") == []
