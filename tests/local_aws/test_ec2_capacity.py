"""EC2 placement groups and capacity reservations."""

import pytest
from botocore.exceptions import ClientError

from localcloud.aws.ec2 import capacity_reservations
from testkit.aws_clients import Client
from tests.local_aws.ec2_world import World, make_world


@pytest.fixture
def world(aws: Client) -> World:
    return make_world(aws)


def count_available(world: World, reservation: str) -> int:
    shown = world.ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])["CapacityReservations"][0]
    return int(shown["AvailableInstanceCount"])


def build_capacity_target(reservation: str) -> dict[str, object]:
    return {"CapacityReservationTarget": {"CapacityReservationId": reservation}}


def test_a_placement_group_can_be_found_by_name_id_tag_and_strategy(aws: Client) -> None:
    ec2 = aws("ec2")
    tags = [{"ResourceType": "placement-group", "Tags": [{"Key": "pool", "Value": "train"}]}]
    placement_group = ec2.create_placement_group(GroupName="train", Strategy="cluster", TagSpecifications=tags)["PlacementGroup"]
    ec2.create_placement_group(GroupName="apart", Strategy="partition", PartitionCount=3)
    assert placement_group["State"] == "available"
    for question in (
        {"GroupNames": ["train"]},
        {"GroupIds": [placement_group["GroupId"]]},
        {"Filters": [{"Name": "tag:pool", "Values": ["train"]}]},
        {"Filters": [{"Name": "strategy", "Values": ["cluster"]}]},
    ):
        assert ec2.describe_placement_groups(**question)["PlacementGroups"] == [placement_group]
    ec2.create_tags(Resources=[placement_group["GroupId"]], Tags=[{"Key": "pool", "Value": "other"}])
    assert ec2.describe_placement_groups(GroupNames=["train"])["PlacementGroups"][0]["Tags"] == [
        {"Key": "pool", "Value": "other"}
    ]
    ec2.delete_placement_group(GroupName="train")
    assert [group["GroupName"] for group in ec2.describe_placement_groups()["PlacementGroups"]] == ["apart"]


def test_a_cluster_placement_group_stays_in_the_zone_of_its_first_instance(world: World) -> None:
    world.ec2.create_placement_group(GroupName="close")
    first = world.run(Placement={"GroupName": "close"})[0]["InstanceId"]
    with pytest.raises(ClientError, match="is in use in another availability zone: us-west-2a"):
        world.run(Placement={"GroupName": "close"}, SubnetId=world.subnets[1])
    world.ec2.terminate_instances(InstanceIds=[first])
    assert (
        world.run(Placement={"GroupName": "close"}, SubnetId=world.subnets[1])[0]["Placement"]["AvailabilityZone"] == "us-west-2b"
    )


def test_a_targeted_reservation_is_used_only_by_instances_that_target_it(world: World) -> None:
    reservation = capacity_reservations.seed_reservation("g5.8xlarge", "us-west-2a", 2, match="targeted")
    world.run()
    assert count_available(world, reservation) == 2
    launched = world.run(CapacityReservationSpecification=build_capacity_target(reservation))[0]
    assert (launched["CapacityReservationId"], count_available(world, reservation)) == (reservation, 1)
    world.ec2.terminate_instances(InstanceIds=[launched["InstanceId"]])
    assert count_available(world, reservation) == 2


def test_an_open_reservation_is_used_by_every_matching_instance(world: World) -> None:
    reservation = world.ec2.create_capacity_reservation(
        InstanceType="g5.8xlarge", InstancePlatform="Linux/UNIX", AvailabilityZone="us-west-2a", InstanceCount=1
    )["CapacityReservation"]["CapacityReservationId"]
    launched = world.run(MinCount=1, MaxCount=1)[0]
    assert launched["CapacityReservationId"] == reservation
    assert "CapacityReservationId" not in world.run()[0], "the reservation is full, so the next instance is On-Demand"
    assert count_available(world, reservation) == 0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"instance_type": "g5.12xlarge"}, "another type"),
        ({"zone": "us-west-2b"}, "another zone"),
        ({"count": 1}, "too small"),
        ({"state": "scheduled"}, "not active yet"),
        ({"state": "expired"}, "expired"),
    ],
)
def test_a_launch_into_a_mismatched_reservation_is_refused(world: World, change: dict[str, object], problem: str) -> None:
    options: dict[str, object] = {"instance_type": "g5.8xlarge", "zone": "us-west-2a", "count": 2, "match": "targeted", **change}
    reservation = capacity_reservations.seed_reservation(**options)  # type: ignore[arg-type]
    with pytest.raises(ClientError, match="ReservationCapacityExceeded"):
        world.run(MinCount=2, MaxCount=2, CapacityReservationSpecification=build_capacity_target(reservation))


def test_a_capacity_block_accepts_only_instances_with_its_market_type(world: World) -> None:
    block = capacity_reservations.seed_reservation(
        "p5.48xlarge", "us-west-2a", 1, kind="capacity-block", reservation_id="cr-0123456789abcdef0"
    )
    shown = world.ec2.describe_capacity_reservations(CapacityReservationIds=["cr-0123456789abcdef0"])["CapacityReservations"][0]
    assert (shown["ReservationType"], shown["InstanceMatchCriteria"], shown["EndDateType"]) == (
        "capacity-block",
        "targeted",
        "limited",
    )
    with pytest.raises(ClientError, match="the market type capacity-block must be specified"):
        world.run(InstanceType="p5.48xlarge", CapacityReservationSpecification=build_capacity_target(block))
    launched = world.run(
        InstanceType="p5.48xlarge",
        InstanceMarketOptions={"MarketType": "capacity-block"},
        CapacityReservationSpecification=build_capacity_target(block),
    )[0]
    assert (launched["InstanceLifecycle"], launched["CapacityReservationId"]) == ("capacity-block", block)


def test_a_resource_group_of_reservations_can_be_targeted(world: World) -> None:
    group = "arn:aws:resource-groups:us-west-2:123456789012:group/gpu-reservations"
    full = capacity_reservations.seed_reservation("g5.8xlarge", "us-west-2b", 1, match="targeted", resource_group_arn=group)
    fits = capacity_reservations.seed_reservation("g5.8xlarge", "us-west-2a", 1, match="targeted", resource_group_arn=group)
    specification = {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": group}}
    assert world.run(CapacityReservationSpecification=specification)[0]["CapacityReservationId"] == fits
    assert count_available(world, full) == 1


def test_a_reservation_can_be_modified_and_canceled(world: World) -> None:
    ec2 = world.ec2
    reservation = capacity_reservations.seed_reservation("g5.8xlarge", "us-west-2a", 1)
    ec2.modify_capacity_reservation(CapacityReservationId=reservation, InstanceCount=3, InstanceMatchCriteria="targeted")
    shown = ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])["CapacityReservations"][0]
    assert (shown["TotalInstanceCount"], shown["InstanceMatchCriteria"]) == (3, "targeted")
    ec2.cancel_capacity_reservation(CapacityReservationId=reservation)
    cancelled = ec2.describe_capacity_reservations(Filters=[{"Name": "state", "Values": ["cancelled"]}])["CapacityReservations"]
    assert [(item["CapacityReservationId"], item["AvailableInstanceCount"]) for item in cancelled] == [(reservation, 0)]
