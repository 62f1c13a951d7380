"""Prices from the worked examples that `infra.inventory.bill` must reproduce, and this repository's stack files."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from infra.config import stack_file
from infra.config.parse import parse_model
from infra.cost.items import Item
from infra.cost.prices import Price, Prices
from infra.settings.stack import Settings

STACKS = Path(__file__).parents[2] / "stacks"
DATE = "2026-11-22"

INSTANCES: Mapping[str, str] = {
    "c7i.2xlarge": "0.357",
    "g5.xlarge": "1.006",
    "g6.12xlarge": "4.6016",
    "g6.48xlarge": "13.3504",
    "m7i.large": "0.1008",
    "p4d.24xlarge": "21.95764",
    "p5.48xlarge": "55.04",
}
ITEMS: Mapping[Item, str] = {
    "eks-cluster-hour": "0.10",
    "eks-extended-support-hour": "0.50",
    "nat-gateway-hour": "0.045",
    "nat-gateway-gb": "0.045",
    "public-ipv4-hour": "0.005",
    "gp3-gb-month": "0.08",
    "efs-gb-month": "0.30",
    "vpc-endpoint-hour": "0.01",
    "kms-key-month": "1",
}
IRELAND_INSTANCES = {"m7i.large": "0.11235", "g5.48xlarge": "18.18233"}
IRELAND_ITEMS: Mapping[Item, str] = {**ITEMS, "gp3-gb-month": "0.088", "nat-gateway-hour": "0.048"}


def make_price(usd: str, *, verified: bool = True) -> Price:
    return Price(Decimal(usd), "the worked bills", DATE, verified)


def make_prices(region: str = "us-east-1", **spot: str) -> Prices:
    """Return the prices of a Region. Spot prices equal on-demand prices."""
    ireland = region == "eu-west-1"
    instances = {name: make_price(usd) for name, usd in (IRELAND_INSTANCES if ireland else INSTANCES).items()}
    items = {name: make_price(usd) for name, usd in (IRELAND_ITEMS if ireland else ITEMS).items()}
    return Prices(region, "Price List", DATE, instances, items, {(name, ""): instance for name, instance in instances.items()})


def load_stack(name: str, **changes: Any) -> Settings:
    """Return the settings of a stack file in stacks/. `changes` override values of its first pool."""
    raw = stack_file.read_stack_file(STACKS / f"Pulumi.{name}.yaml")
    values = dict(raw.values)
    if changes:
        first, *rest = values["pools"]
        values["pools"] = [{**first, **changes}, *rest]
    parsed = parse_model(Settings, values, stack=raw.stack, region=raw.region)
    assert parsed.model is not None and not parsed.problems
    return parsed.model
