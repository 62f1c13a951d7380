"""AWS's Price List API: GetProducts returns only the rows of the dated snapshot in infra/cost/.

https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html. AWS's
Price List has many more services, Regions and attributes.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from infra.cost import prices
from infra.cost.items import INSTANCE_FILTERS, INSTANCE_SERVICE, ITEMS
from infra.cost.prices import Price
from localcloud.aws.call import Call
from localcloud.aws.ec2.instance_types import find_type_facts
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

ENDPOINTS = ("us-east-1", "eu-central-1", "ap-south-1")
"""Regions with an endpoint: https://docs.aws.amazon.com/general/latest/gr/billing.html"""
PREFIXES = {"us-east-1": "USE1-", "us-east-2": "USE2-", "us-west-2": "USW2-", "eu-west-1": "EU-"}
"""Maps a Region to the prefix of its usage types. AWS omits the prefix in us-east-1 rows of older services."""
_WITHOUT_PREFIX = ("AmazonEC2", "AmazonEFS", "AmazonS3", "AWSDataTransfer")
_TERM, _DIMENSION = "JRTCKXETXF", "6YS6EN2CT7"
"""AWS's codes for On-Demand terms and for their hourly price dimension."""
_TYPES = ("TERM_MATCH", "EQUALS", "CONTAINS", "ANY_OF", "NONE_OF")


def extend_moto() -> None:
    """Do nothing: importing this module has already registered its operation."""


@operation("pricing", "GetProducts")
def _get_products(call: Call) -> dict[str, Any]:
    """Return the rows that match the filters. The error messages are NOT VERIFIED (2026-11-23)."""
    params = call.params
    if call.region not in ENDPOINTS:
        raise AwsError("NotImplementedInLocalCloud", f"AWS's Price List has no endpoint in {call.region}.")
    if params.get("FormatVersion", "aws_v1") != "aws_v1":
        raise _build_invalid_parameter_error("FormatVersion must be aws_v1")
    if params["ServiceCode"] not in _load_products():
        raise _build_invalid_parameter_error(f"ServiceCode {params['ServiceCode']} is not valid")
    if len(params.get("Filters", ())) > 50 or not 1 <= params.get("MaxResults", 100) <= 100:
        raise _build_invalid_parameter_error("At most 50 filters and 100 results are possible")
    products = [row.text for row in _load_products()[params["ServiceCode"]] if _matches_all_filters(row.fields, params)]
    token = params.get("NextToken", "0")
    if not token.isdigit() or int(token) > len(products):
        raise AwsError("InvalidNextTokenException", "Invalid NextToken")
    end = int(token) + params.get("MaxResults", 100)
    more = {"NextToken": str(end)} if end < len(products) else {}
    return {"FormatVersion": "aws_v1", "PriceList": products[int(token) : end], **more}


def _build_invalid_parameter_error(message: str) -> AwsError:
    return AwsError("InvalidParameterException", message)


def _matches_all_filters(fields: Mapping[str, str | None], params: Mapping[str, Any]) -> bool:
    return all(_matches_filter(fields, product_filter) for product_filter in params.get("Filters", ()))


def _matches_filter(fields: Mapping[str, str | None], product_filter: Mapping[str, str]) -> bool:
    kind, value = product_filter["Type"], product_filter["Value"]
    if kind not in _TYPES:
        raise _build_invalid_parameter_error(f"Filter type {kind} is not valid")
    actual = fields.get(product_filter["Field"])
    if kind == "CONTAINS":
        return actual is not None and value in actual
    if kind in ("ANY_OF", "NONE_OF"):
        return (actual in value.split(",")) == (kind == "ANY_OF")
    return bool(actual == value)


@dataclass(frozen=True)
class _Row:
    fields: Mapping[str, str | None]
    """Values that filters can match."""
    text: str
    """The row in AWS's format."""

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> "_Row":
        product = content["product"]
        fields = {"productFamily": product.get("productFamily"), "sku": product["sku"], **product["attributes"]}
        return cls(fields, json.dumps(content))


@cache
def _load_products() -> dict[str, list[_Row]]:
    """Return the rows of each service, for every Region in the snapshot."""
    rows: dict[str, list[_Row]] = {row.service: [] for row in ITEMS.values()}
    for region in list_regions():
        for service, row in (*_list_instance_products(region), *_list_item_products(region)):
            rows[service].append(_Row.from_content(row))
    return rows


def list_regions() -> tuple[str, ...]:
    """Return the Regions with prices."""
    content = json.loads(prices.SNAPSHOT.read_text(encoding="utf-8"))
    return tuple(sorted({*content["instances"], *content["items"]}))


def _list_instance_products(region: str) -> Iterator[tuple[str, dict[str, Any]]]:
    filters = {name: value for name, value in INSTANCE_FILTERS.items() if name != "productFamily"}
    for name, price in prices.read_snapshot(region).instances.items():
        attributes = {
            **{
                "instanceType": name,
                "regionCode": region,
                "usagetype": _build_usage_type(region, INSTANCE_SERVICE, f"BoxUsage:{name}"),
            },
            **filters,
        }
        instance_facts = find_type_facts(name)
        if instance_facts is not None:
            attributes["vcpu"] = str(instance_facts.vcpus)
        yield INSTANCE_SERVICE, _build_row(INSTANCE_SERVICE, INSTANCE_FILTERS["productFamily"], attributes, "Hrs", price)
        if instance_facts is not None and "capacity-block" in instance_facts.usage_classes:
            # AWS lists Capacity Blocks at 0, because they are paid for in advance.
            block = {**attributes, "marketoption": "CapacityBlock"}
            free = Price(usd=price.usd * 0, source=price.source, date=price.date)
            yield INSTANCE_SERVICE, _build_row(INSTANCE_SERVICE, INSTANCE_FILTERS["productFamily"], block, "Hrs", free)


def _list_item_products(region: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, price in prices.read_snapshot(region).items.items():
        item = ITEMS[name]
        usage_type = _build_usage_type(region, item.service, item.usage_type or name)
        attributes = {**item.attributes, "regionCode": region, "usagetype": usage_type}
        family = attributes.pop("productFamily", None)
        yield item.service, _build_row(item.service, family, attributes, item.unit, price)


def _build_usage_type(region: str, service: str, name: str) -> str:
    prefix = PREFIXES.get(region, "")
    return name if region == "us-east-1" and service in _WITHOUT_PREFIX else f"{prefix}{name}"


def _build_row(service: str, family: str | None, attributes: Mapping[str, str], unit: str, price: Price) -> dict[str, Any]:
    key = json.dumps([service, family, attributes], sort_keys=True)
    sku = hashlib.sha256(key.encode()).hexdigest()[:16].upper()
    dimension = {
        "unit": unit,
        "beginRange": "0",
        "endRange": "Inf",
        "pricePerUnit": {"USD": f"{price.usd:.10f}"},
        "rateCode": f"{sku}.{_TERM}.{_DIMENSION}",
    }
    term = {"offerTermCode": _TERM, "sku": sku, "priceDimensions": {f"{sku}.{_TERM}.{_DIMENSION}": dimension}}
    return {
        "product": {**({"productFamily": family} if family else {}), "sku": sku, "attributes": dict(attributes)},
        "serviceCode": service,
        "terms": {"OnDemand": {f"{sku}.{_TERM}": term}},
        "publicationDate": f"{price.date}T00:00:00Z",
    }
