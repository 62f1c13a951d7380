"""The local AWS's Price List, Spot prices and placement scores."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.cost import prices
from infra.cost.items import INSTANCE_FILTERS, ITEMS
from localcloud.aws import scarcity
from testkit.aws_clients import Client


def build_filters(**attributes: str) -> list[dict[str, str]]:
    return [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in attributes.items()]


def list_prices(aws: Client, service: str, **attributes: str) -> list[dict[str, Any]]:
    pages = (
        aws("pricing", "us-east-1")
        .get_paginator("get_products")
        .paginate(ServiceCode=service, Filters=build_filters(**attributes))
    )
    return [json.loads(row) for page in pages for row in page["PriceList"]]


def parse_usd(row: dict[str, Any]) -> str:
    [term] = row["terms"]["OnDemand"].values()
    [dimension] = term["priceDimensions"].values()
    return str(dimension["pricePerUnit"]["USD"])


def test_the_on_demand_price_of_an_instance_type_is_a_single_row(aws: Client) -> None:
    attributes = {**INSTANCE_FILTERS, "instanceType": "p5.48xlarge", "regionCode": "us-west-2"}
    [row] = list_prices(aws, "AmazonEC2", **attributes)
    assert parse_usd(row) == "55.0400000000"


def test_capacity_blocks_have_separate_price_rows_with_price_zero(aws: Client) -> None:
    products = list_prices(aws, "AmazonEC2", instanceType="p5.48xlarge", regionCode="us-west-2")
    assert {row["product"]["attributes"]["marketoption"]: float(parse_usd(row)) for row in products} == {
        "OnDemand": 55.04,
        "CapacityBlock": 0,
    }


def test_every_item_in_the_price_snapshot_is_found_by_its_filters(aws: Client) -> None:
    for name, price in prices.read_snapshot("us-west-2").items.items():
        item = ITEMS[name]
        products = list_prices(aws, item.service, regionCode="us-west-2", **item.attributes)
        matching = [row for row in products if item.has_usage_type(row["product"]["attributes"]["usagetype"])]
        assert [float(parse_usd(row)) for row in matching] == [float(price.usd)], name


def test_price_rows_are_paginated(aws: Client) -> None:
    client = aws("pricing", "us-east-1")
    pages = client.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=build_filters(regionCode="us-east-1"))
    sizes = [len(page["PriceList"]) for page in pages]
    assert len(sizes) > 1 and set(sizes[:-1]) == {100}


@pytest.mark.parametrize(
    ("region", "params", "code"),
    [
        ("us-east-1", {"ServiceCode": "AmazonNothing"}, "InvalidParameterException"),
        ("us-east-1", {"ServiceCode": "AmazonEC2", "FormatVersion": "v2"}, "InvalidParameterException"),
        ("us-east-1", {"ServiceCode": "AmazonEC2", "NextToken": "no"}, "InvalidNextTokenException"),
        ("us-west-2", {"ServiceCode": "AmazonEC2"}, "NotImplementedInLocalCloud"),
    ],
)
def test_the_price_list_api_rejects_invalid_queries(aws: Client, region: str, params: dict[str, Any], code: str) -> None:
    with pytest.raises(ClientError) as caught:
        aws("pricing", region).get_products(**params)
    assert caught.value.response["Error"]["Code"] == code


def test_spot_prices_are_below_on_demand_prices_and_differ_by_zone(aws: Client) -> None:
    history = aws("ec2", "us-east-1").describe_spot_price_history(
        InstanceTypes=["g5.8xlarge"], ProductDescriptions=["Linux/UNIX"]
    )
    by_zone = {row["AvailabilityZone"]: float(row["SpotPrice"]) for row in history["SpotPriceHistory"]}
    assert len(by_zone) > 2 and len(set(by_zone.values())) > 1
    assert all(0.30 * 2.448 <= price <= 0.45 * 2.448 for price in by_zone.values())


def test_a_type_without_a_known_price_has_no_spot_price(aws: Client) -> None:
    assert aws("ec2", "ap-south-1").describe_spot_price_history(InstanceTypes=["p5.48xlarge"])["SpotPriceHistory"] == []


def read_spot_scores(aws: Client, *types: str) -> dict[str, int]:
    request = {"InstanceTypes": list(types), "TargetCapacity": 2, "SingleAvailabilityZone": True, "RegionNames": ["us-west-2"]}
    zone_scores = aws("ec2").get_spot_placement_scores(**request)["SpotPlacementScores"]
    return {zone_score["AvailabilityZoneId"]: zone_score["Score"] for zone_score in zone_scores}


def test_spot_placement_scores_are_low_for_fewer_than_three_types(aws: Client) -> None:
    assert (
        max(read_spot_scores(aws, "g5.8xlarge").values())
        <= 3
        < max(read_spot_scores(aws, "g5.8xlarge", "g5.12xlarge", "g6.12xlarge").values())
    )


def test_a_zone_without_capacity_has_spot_placement_score_1(aws: Client) -> None:
    zone_id = aws("ec2").describe_availability_zones(ZoneNames=["us-west-2a"])["AvailabilityZones"][0]["ZoneId"]
    scarcity.add_scarcity("g5.8xlarge", "us-west-2a")
    assert read_spot_scores(aws, "g5.8xlarge")[zone_id] == 1


def test_spot_placement_scores_require_types_and_at_most_ten_regions(aws: Client) -> None:
    for params in ({}, {"InstanceTypes": ["p9.metal"]}, {"InstanceTypes": ["g5.8xlarge"], "RegionNames": ["us-west-2"] * 11}):
        with pytest.raises(ClientError):
            aws("ec2").get_spot_placement_scores(TargetCapacity=1, **params)
