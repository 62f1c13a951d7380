"""Placement group and capacity reservation calls that EC2 rejects."""

from collections.abc import Iterator

import pytest

from tests.local_aws.ec2_refusals import API, BLOCK, EMPTY, ERRORS, GUIDE, check_refusal, launch_params, shared_ec2_world
from tests.local_aws.ec2_world import World
from tests.local_aws.refusals import Refusal


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with shared_ec2_world() as refusing:
        yield refusing


CAPACITY = [
    Refusal("a name in use", "create_placement_group", {"GroupName": "close"}, "InvalidPlacementGroup.Duplicate", ERRORS),
    Refusal(
        "a missing name",
        "create_placement_group",
        {"Strategy": "cluster"},
        "MissingParameter",
        f"{API}/API_CreatePlacementGroup.html",
    ),
    Refusal(
        "an unknown strategy",
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
        "tags for another resource type",
        "create_placement_group",
        {"GroupName": "new", "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "b"}]}]},
        "InvalidParameterValue",
        f"{API}/API_TagSpecification.html",
    ),
    Refusal(
        "a nonexistent placement group",
        "describe_placement_groups",
        {"GroupNames": ["nobody"]},
        "InvalidPlacementGroup.Unknown",
        ERRORS,
    ),
    Refusal(
        "a nonexistent placement group",
        "delete_placement_group",
        {"GroupName": "nobody"},
        "InvalidPlacementGroup.Unknown",
        ERRORS,
    ),
    Refusal("a group with instances", "delete_placement_group", {"GroupName": "used"}, "InvalidPlacementGroup.InUse", ERRORS),
    Refusal(
        "a nonexistent reservation",
        "describe_capacity_reservations",
        {"CapacityReservationIds": ["cr-00000000000000000"]},
        "InvalidCapacityReservationId.NotFound",
        ERRORS,
    ),
    Refusal(
        "a malformed id",
        "describe_capacity_reservations",
        {"CapacityReservationIds": ["mine"]},
        "InvalidCapacityReservationId.Malformed",
        ERRORS,
    ),
    Refusal(
        "an instance type that the zone does not offer",
        "create_capacity_reservation",
        {"InstanceType": "p5en.48xlarge", "InstancePlatform": "Linux/UNIX", "AvailabilityZone": "us-west-2b", "InstanceCount": 1},
        "Unsupported",
        f"{API}/API_CreateCapacityReservation.html",
    ),
    Refusal(
        "a reservation for 0 instances",
        "create_capacity_reservation",
        {"InstanceType": "g5.8xlarge", "InstancePlatform": "Linux/UNIX", "AvailabilityZone": "us-west-2a", "InstanceCount": 0},
        "InvalidParameterValue",
        f"{API}/API_CreateCapacityReservation.html",
    ),
    Refusal(
        "a reservation without a zone",
        "create_capacity_reservation",
        {"InstanceType": "g5.8xlarge", "InstancePlatform": "Linux/UNIX", "InstanceCount": 1},
        "MissingParameter",
        f"{API}/API_CreateCapacityReservation.html",
    ),
    Refusal(
        "a limited reservation without an end date",
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
        "a full reservation",
        "run_instances",
        launch_params(CapacityReservationSpecification={"CapacityReservationTarget": {"CapacityReservationId": EMPTY}}),
        "ReservationCapacityExceeded",
        ERRORS,
        "The requested reservation does not have sufficient compatible and available capacity for this request.",
    ),
    Refusal(
        "a nonexistent reservation",
        "run_instances",
        launch_params(
            CapacityReservationSpecification={"CapacityReservationTarget": {"CapacityReservationId": "cr-00000000000000000"}}
        ),
        "InvalidCapacityReservationId.NotFound",
        ERRORS,
    ),
    Refusal(
        "the capacity-block market type without a block",
        "run_instances",
        launch_params(InstanceType="p5.48xlarge", InstanceMarketOptions={"MarketType": "capacity-block"}),
        "InvalidParameterCombination",
        f"{GUIDE}/capacity-blocks-launch.html",
    ),
    Refusal(
        "an instance type that is not offered in capacity blocks",
        "run_instances",
        launch_params(InstanceMarketOptions={"MarketType": "capacity-block"}),
        "Unsupported",
        f"{GUIDE}/ec2-capacity-blocks.html",
    ),
    Refusal(
        "a Spot Instance in a reservation",
        "run_instances",
        launch_params(
            InstanceMarketOptions={"MarketType": "spot"},
            CapacityReservationSpecification={"CapacityReservationTarget": {"CapacityReservationId": EMPTY}},
        ),
        "InvalidParameterCombination",
        f"{GUIDE}/capacity-reservations-launch.html",
    ),
]


@pytest.mark.parametrize("refusal", CAPACITY, ids=str)
def test_ec2_rejects_invalid_requests_and_creates_nothing(world: World, refusal: Refusal) -> None:
    check_refusal(world, refusal)
