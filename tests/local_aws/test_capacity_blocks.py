"""Capacity Blocks: offerings, purchase, extension, start and end."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.aws import clock
from localcloud.aws.ec2 import capacity_block_offerings, capacity_reservations
from testkit.aws_clients import Client
from tests.local_aws.ec2_world import World, make_world

NOW = datetime(2026, 11, 23, 9, 10, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
P5 = {"InstanceType": "p5.48xlarge", "InstanceCount": 2, "CapacityDurationHours": 24}


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(clock, "read_system_clock", lambda: NOW)
    yield


@pytest.fixture
def world(aws: Client) -> World:
    return make_world(aws)


def find_offerings(ec2: Any, **changes: Any) -> list[dict[str, Any]]:
    return list(ec2.describe_capacity_block_offerings(**{**P5, **changes})["CapacityBlockOfferings"])


def buy_block(ec2: Any, offering: dict[str, Any]) -> dict[str, Any]:
    request = {"CapacityBlockOfferingId": offering["CapacityBlockOfferingId"], "InstancePlatform": "Linux/UNIX"}
    return dict(ec2.purchase_capacity_block(**request)["CapacityReservation"])


def describe_reservation(ec2: Any, reservation: str) -> dict[str, Any]:
    return dict(ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])["CapacityReservations"][0])


def set_clock(moment: datetime) -> None:
    clock.advance(moment - clock.now())


def test_search_returns_six_offerings_and_each_ends_at_1130_utc(aws: Client) -> None:
    blocks = find_offerings(aws("ec2"))
    assert len(blocks) == 6
    assert {(block["EndDate"].hour, block["EndDate"].minute) for block in blocks} == {(11, 30)}
    at_once = blocks[0]
    assert (at_once["StartDate"], at_once["CapacityBlockDurationMinutes"]) == (NOW + timedelta(minutes=50), 25 * 60 + 30)
    assert {block["CapacityBlockDurationHours"] for block in blocks[1:]} == {24}


def test_the_upfront_fee_covers_all_instances_and_hours(aws: Client) -> None:
    two, four = (find_offerings(aws("ec2"), InstanceCount=count)[1] for count in (2, 4))
    assert float(two["UpfrontFee"]) == pytest.approx(39.33 * 2 * 24)
    assert (float(four["UpfrontFee"]), four["CurrencyCode"]) == (2 * float(two["UpfrontFee"]), "USD")


def test_the_date_range_limits_the_earliest_start_and_the_latest_end(aws: Client) -> None:
    blocks = find_offerings(aws("ec2"), StartDateRange=NOW + 3 * DAY, EndDateRange=NOW + 6 * DAY)
    assert [block["StartDate"].day for block in blocks] == [26, 26, 27]
    assert max(block["EndDate"] for block in blocks) <= NOW + 6 * DAY


@pytest.mark.parametrize(
    ("region", "changes", "code"),
    [
        ("us-west-2", {"CapacityDurationHours": 25}, "InvalidParameterValue"),
        ("us-west-2", {"CapacityDurationHours": 24 * 15}, "InvalidParameterValue"),
        ("us-west-2", {"InstanceCount": 65}, "InvalidParameterValue"),
        ("us-west-2", {"InstanceType": "p9.metal"}, "InvalidParameterValue"),
        ("us-west-2", {"InstanceType": "g5.8xlarge"}, "Unsupported"),
        ("us-west-2", {"EndDateRange": NOW - DAY}, "InvalidParameterValue"),
        ("us-west-2", {"DryRun": True}, "DryRunOperation"),
        ("eu-west-1", {}, "InvalidAction"),
        ("eu-west-3", {}, "InvalidParameterValue"),
    ],
)
def test_ec2_rejects_invalid_capacity_block_requests(aws: Client, region: str, changes: dict[str, Any], code: str) -> None:
    with pytest.raises(ClientError) as caught:
        find_offerings(aws("ec2", region), **changes)
    assert caught.value.response["Error"]["Code"] == code


def test_a_block_goes_from_payment_pending_to_scheduled_active_and_expired(aws: Client) -> None:
    ec2 = aws("ec2")
    block = buy_block(ec2, find_offerings(ec2)[1])
    assert (block["State"], block["InstanceMatchCriteria"], block["ReservationType"]) == (
        "payment-pending",
        "targeted",
        "capacity-block",
    )
    states = [describe_reservation(ec2, block["CapacityReservationId"])["State"]]
    for moment in (block["StartDate"] - timedelta(seconds=1), block["StartDate"], block["EndDate"]):
        set_clock(moment)
        states.append(describe_reservation(ec2, block["CapacityReservationId"])["State"])
    assert states == ["scheduled", "scheduled", "active", "expired"]


def test_only_offerings_returned_by_a_search_can_be_purchased(aws: Client) -> None:
    ec2 = aws("ec2")
    with pytest.raises(ClientError, match=r"InvalidCapacityBlockOfferingId.NotFound"):
        buy_block(ec2, {"CapacityBlockOfferingId": "cb-00000000000000000"})
    [first, *_] = find_offerings(ec2)
    set_clock(first["EndDate"] + HOUR)
    with pytest.raises(ClientError, match="CapacityBlockOfferingExpired"):
        buy_block(ec2, first)


def test_a_purchased_block_reduces_the_remaining_offerings(aws: Client) -> None:
    ec2 = aws("ec2")
    block = buy_block(ec2, find_offerings(ec2, InstanceCount=40)[1])
    later = find_offerings(ec2, InstanceCount=40)
    assert block["StartDate"] not in [offering["StartDate"] for offering in later]
    assert block["StartDate"] in [offering["StartDate"] for offering in find_offerings(ec2, InstanceCount=24)]


def test_an_account_can_have_at_most_256_instances_in_blocks(aws: Client) -> None:
    ec2 = aws("ec2")
    blocks = find_offerings(ec2, InstanceCount=64)
    for offering in blocks[1:5]:
        buy_block(ec2, offering)
    with pytest.raises(ClientError, match="InstanceLimitExceeded"):
        buy_block(ec2, blocks[5])


def test_a_dry_run_purchases_nothing(aws: Client) -> None:
    ec2 = aws("ec2")
    request = {"CapacityBlockOfferingId": find_offerings(ec2)[0]["CapacityBlockOfferingId"], "InstancePlatform": "Linux/UNIX"}
    with pytest.raises(ClientError, match="DryRunOperation"):
        ec2.purchase_capacity_block(**request, DryRun=True)
    assert ec2.describe_capacity_reservations()["CapacityReservations"] == []


def test_instances_are_terminated_30_minutes_before_the_block_ends(world: World) -> None:
    block = capacity_reservations.seed_reservation("p5.48xlarge", "us-west-2a", 1, kind="capacity-block")
    end = describe_reservation(world.ec2, block)["EndDate"]
    options = {
        "InstanceType": "p5.48xlarge",
        "InstanceMarketOptions": {"MarketType": "capacity-block"},
        "CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": block}},
    }
    [instance] = world.run(**options)
    set_clock(end - timedelta(minutes=31))
    assert world.describe_instances(instance["InstanceId"])[0]["State"]["Name"] == "running"
    set_clock(end - timedelta(minutes=30))
    assert world.describe_instances(instance["InstanceId"])[0]["State"]["Name"] in ("shutting-down", "terminated")
    with pytest.raises(ClientError, match="ReservationCapacityExceeded"):
        world.run(**options)


def test_an_extension_moves_the_block_end_after_payment(aws: Client) -> None:
    ec2 = aws("ec2")
    block = buy_block(ec2, find_offerings(ec2)[1])
    question = {"CapacityReservationId": block["CapacityReservationId"], "CapacityBlockExtensionDurationHours": 48}
    [offering] = ec2.describe_capacity_block_extension_offerings(**question)["CapacityBlockExtensionOfferings"]
    assert float(offering["UpfrontFee"]) == pytest.approx(39.33 * 2 * 48)
    request = {
        "CapacityReservationId": block["CapacityReservationId"],
        "CapacityBlockExtensionOfferingId": offering["CapacityBlockExtensionOfferingId"],
    }
    [bought] = ec2.purchase_capacity_block_extension(**request)["CapacityBlockExtensions"]
    assert bought["CapacityBlockExtensionStatus"] == "payment-pending"
    assert describe_reservation(ec2, block["CapacityReservationId"])["EndDate"] == block["EndDate"] + 2 * DAY


def test_a_block_cannot_be_extended_in_its_last_hour(aws: Client) -> None:
    ec2 = aws("ec2")
    block = buy_block(ec2, find_offerings(ec2)[1])
    set_clock(block["EndDate"] - timedelta(minutes=59))
    question = {"CapacityReservationId": block["CapacityReservationId"], "CapacityBlockExtensionDurationHours": 24}
    with pytest.raises(ClientError, match=r"InvalidState.*1 hour before it ends"):
        ec2.describe_capacity_block_extension_offerings(**question)


def test_every_purchasable_type_supports_capacity_blocks_in_ec2() -> None:
    from localcloud.aws.ec2 import instance_types

    for name in capacity_block_offerings.RATES:
        type_facts = instance_types.find_type_facts(name)
        assert type_facts is not None and "capacity-block" in type_facts.usage_classes
