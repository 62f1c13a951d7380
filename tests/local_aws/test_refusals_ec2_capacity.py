"""Calls on placement groups and capacity reservations that EC2 refuses."""

from collections.abc import Iterator

import pytest

from tests.local_aws.ec2_refusals import API, BLOCK, EMPTY, ERRORS, GUIDE, check, launch, refusing_world
from tests.local_aws.ec2_world import World
from tests.local_aws.refusals import Refusal


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with refusing_world() as made:
        yield made


CAPACITY = [
    Refusal("a name in use", "create_placement_group", {"GroupName": "close"}, "InvalidPlacementGroup.Duplicate", ERRORS),
    Refusal(
        "no name", "create_placement_group", {"Strategy": "cluster"}, "MissingParameter", f"{API}/API_CreatePlacementGroup.html"
    ),
    Refusal(
        "a strategy that is not there",
        "create_placement_group",
        {"GroupName": "new", "Strategy": "tight"},
        "InvalidParameterValue",
        f"{API}/API_CreatePlacementGroup.html",
    ),
    Refusal(
        "partitions without the partition strategy",
        "create_placement_group",
        {"GroupName": "new", "Strategy": "cluster", "PartitionCount": 2},
        "InvalidParameterCombination",
        f"{API}/API_CreatePlacementGroup.html",
    ),
    Refusal(
        "eight partitions",
        "create_placement_group",
        {"GroupName": "new", "Strategy": "partition", "PartitionCount": 8},
        "InvalidParameterValue",
        f"{GUIDE}/placement-strategies.html",
    ),
    Refusal(
        "tags for something else",
        "create_placement_group",
        {"GroupName": "new", "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "b"}]}]},
        "InvalidParameterValue",
        f"{API}/API_TagSpecification.html",
    ),
    Refusal(
        "a group that is not there",
        "describe_placement_groups",
        {"GroupNames": ["nobody"]},
        "InvalidPlacementGroup.Unknown",
        ERRORS,
    ),
    Refusal(
        "a group that is not there", "delete_placement_group", {"GroupName": "nobody"}, "InvalidPlacementGroup.Unknown", ERRORS
    ),
    Refusal("a group with instances", "delete_placement_group", {"GroupName": "used"}, "InvalidPlacementGroup.InUse", ERRORS),
    Refusal(
        "a reservation that is not there",
        "describe_capacity_reservations",
        {"CapacityReservationIds": ["cr-00000000000000000"]},
        "InvalidCapacityReservationId.NotFound",
        ERRORS,
    ),
    Refusal(
        "an id that is none",
        "describe_capacity_reservations",
        {"CapacityReservationIds": ["mine"]},
        "InvalidCapacityReservationId.Malformed",
        ERRORS,
    ),
    Refusal(
        "a type that the zone does not offer",
        "create_capacity_reservation",
        {"InstanceType": "p5en.48xlarge", "InstancePlatform": "Linux/UNIX", "AvailabilityZone": "us-west-2b", "InstanceCount": 1},
        "Unsupported",
        f"{API}/API_CreateCapacityReservation.html",
    ),
    Refusal(
        "no instances",
        "create_capacity_reservation",
        {"InstanceType": "g5.8xlarge", "InstancePlatform": "Linux/UNIX", "AvailabilityZone": "us-west-2a", "InstanceCount": 0},
        "InvalidParameterValue",
        f"{API}/API_CreateCapacityReservation.html",
    ),
    Refusal(
        "no zone",
        "create_capacity_reservation",
        {"InstanceType": "g5.8xlarge", "InstancePlatform": "Linux/UNIX", "InstanceCount": 1},
        "MissingParameter",
        f"{API}/API_CreateCapacityReservation.html",
    ),
    Refusal(
        "a limited end without a date",
        "create_capacity_reservation",
        {
            "InstanceType": "g5.8xlarge",
            "InstancePlatform": "Linux/UNIX",
            "AvailabilityZone": "us-west-2a",
            "InstanceCount": 1,
            "EndDateType": "limited",
        },
        "InvalidParameterCombination",
        f"{API}/API_CreateCapacityReservation.html",
    ),
    Refusal(
        "a capacity block",
        "cancel_capacity_reservation",
        {"CapacityReservationId": BLOCK},
        "OperationNotPermitted",
        f"{API}/API_CancelCapacityReservation.html",
    ),
    Refusal(
        "a reservation that is used up",
        "run_instances",
        launch(CapacityReservationSpecification={"CapacityReservationTarget": {"CapacityReservationId": EMPTY}}),
        "ReservationCapacityExceeded",
        ERRORS,
        "The requested reservation does not have sufficient compatible and available capacity for this request.",
    ),
    Refusal(
        "a reservation that is not there",
        "run_instances",
        launch(CapacityReservationSpecification={"CapacityReservationTarget": {"CapacityReservationId": "cr-00000000000000000"}}),
        "InvalidCapacityReservationId.NotFound",
        ERRORS,
    ),
    Refusal(
        "the market of capacity blocks without a block",
        "run_instances",
        launch(InstanceType="p5.48xlarge", InstanceMarketOptions={"MarketType": "capacity-block"}),
        "InvalidParameterCombination",
        f"{GUIDE}/capacity-blocks-launch.html",
    ),
    Refusal(
        "a type that is not sold in capacity blocks",
        "run_instances",
        launch(InstanceMarketOptions={"MarketType": "capacity-block"}),
        "Unsupported",
        f"{GUIDE}/ec2-capacity-blocks.html",
    ),
    Refusal(
        "a spot instance in a reservation",
        "run_instances",
        launch(
            InstanceMarketOptions={"MarketType": "spot"},
            CapacityReservationSpecification={"CapacityReservationTarget": {"CapacityReservationId": EMPTY}},
        ),
        "InvalidParameterCombination",
        f"{GUIDE}/capacity-reservations-launch.html",
    ),
]


@pytest.mark.parametrize("refusal", CAPACITY, ids=str)
def test_ec2_refuses_and_creates_nothing(world: World, refusal: Refusal) -> None:
    check(world, refusal)
