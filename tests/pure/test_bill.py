"""A stack's bill matches bills calculated by hand, and unknown values do not count as zero."""

from dataclasses import replace
from decimal import Decimal

import pytest

from infra.cost.prices import Prices, read_snapshot
from infra.facts.model import CapacityReservation
from infra.inventory.bill import LEVELS, Level, compute_bill
from tests.pure.bill_world import load_stack, make_price, make_prices
from tests.pure.world import account_facts, pool, settings

WORKED: list[tuple[str, Level, dict[str, int], str, str]] = [
    ("01-single-g5", "configured", {}, "1.2773", "932.46"),
    ("02-p4d-efa", "idle", {}, "0.3667", "267.67"),
    ("02-p4d-efa", "configured", {}, "44.3039", "32341.82"),
    ("02-p4d-efa", "maximum", {}, "88.3473", "64493.56"),
    ("03-p5-capacity-block", "configured", {"desiredSize": 2}, "0.3886", "283.67"),
    ("04-spot-scale-to-zero", "maximum", {}, "64.0961", "46790.18"),
    ("05-existing-vpc-and-efs", "idle", {}, "0.3395", "247.83"),
    ("06-closed-network", "idle", {}, "0.6767", "493.97"),
    ("08-ec2-mnist", "idle", {}, "0.4207", "307.11"),
    ("08-ec2-mnist", "configured", {}, "53.8661", "39322.28"),
]


def format_cents(amount: Decimal) -> str:
    return f"{amount:.2f}"


@pytest.mark.parametrize(("name", "level", "changes", "hourly", "monthly"), WORKED)
def test_bill_is_exact_to_the_cent(name: str, level: Level, changes: dict[str, int], hourly: str, monthly: str) -> None:
    configured = load_stack(name, **changes)
    total = compute_bill(configured, None, make_prices(configured.region)).total(level)
    assert (f"{total.hourly:.4f}", format_cents(total.monthly_cost), total.unknown) == (hourly, monthly, ())


def make_reservation(total: int, available: int) -> CapacityReservation:
    return CapacityReservation(
        "cr-0fedcba9876543210", "default", "active", "p5.48xlarge", "us-west-2a", total=total, available=available
    )


def test_bill_of_fully_used_reservation_is_exact_to_the_cent() -> None:
    configured = load_stack("07-targeted-odcr")
    observed = account_facts(configured, reservations={"cr-0fedcba9876543210": make_reservation(2, 2)})
    total = compute_bill(configured, observed, make_prices()).total("configured")
    assert (f"{total.hourly:.4f}", format_cents(total.monthly_cost), total.unknown) == ("110.4686", "80642.07", ())


def test_unused_reservation_costs_the_on_demand_price() -> None:
    configured = load_stack("07-targeted-odcr", desiredSize=0)
    observed = account_facts(configured, reservations={"cr-0fedcba9876543210": make_reservation(4, 4)})
    total = compute_bill(configured, observed, make_prices())
    idle = compute_bill(load_stack("02-p4d-efa"), None, make_prices()).total("idle").hourly
    assert total.total("idle").hourly == idle + 4 * Decimal("55.04")
    assert next(line.counts for line in total.lines if "unused" in line.name) == (4, 4, 0)


def test_reserved_instances_used_by_others_are_not_billed_as_unused() -> None:
    configured = load_stack("07-targeted-odcr", desiredSize=0)
    observed = account_facts(configured, reservations={"cr-0fedcba9876543210": make_reservation(4, 1)})
    assert next(line.counts for line in compute_bill(configured, observed, make_prices()).lines if "unused" in line.name) == (
        1,
        1,
        0,
    )


def test_reservation_size_is_unknown_without_aws_facts() -> None:
    total = compute_bill(load_stack("07-targeted-odcr"), None, make_prices()).total("configured")
    assert total.unknown == ("the size of cr-0fedcba9876543210",)


def test_unknown_price_is_listed_and_not_counted_as_zero() -> None:
    configured = load_stack("02-p4d-efa")
    lacking = replace(make_prices(), instances={"m7i.large": make_price("0.1008")})
    costs = compute_bill(configured, None, lacking)
    assert costs.total("idle").is_known
    assert costs.total("configured").unknown == ("the price of p4d.24xlarge in us-west-2",)


def test_a_spot_pool_costs_the_spot_price_of_its_zone() -> None:
    configured = settings(pool(instance_type="g6.48xlarge", desiredSize=1, capacity={"kind": "spot"}, zone="us-west-2b"))
    spot = replace(
        make_prices(), spot={("g6.48xlarge", "us-west-2b"): make_price("3.16"), ("g6.48xlarge", "us-west-2a"): make_price("9")}
    )
    line = next(line for line in compute_bill(configured, account_facts(configured), spot).lines if "spot" in line.name)
    assert line.hourly_cost("configured") == Decimal("3.16")


def test_extended_support_is_billed_on_top_of_the_cluster() -> None:
    chosen = settings(pool())
    plain, extended = (
        compute_bill(chosen, account_facts(chosen, **more), make_prices())
        for more in ({}, {"extended_support": frozenset({"1.35"})})
    )
    assert extended.total("idle").hourly - plain.total("idle").hourly == Decimal("0.50")


def test_traffic_is_listed_with_unit_price_but_not_in_the_total() -> None:
    costs = compute_bill(load_stack("02-p4d-efa"), None, make_prices())
    usage = {line.name: line.price for line in costs.usage}
    assert usage["traffic through NAT gateways"] == make_price("0.045")
    assert usage["traffic to the internet"] is None
    assert not {line.name for line in costs.lines} & usage.keys()


def test_endpoint_costs_are_unknown_without_the_number_of_zones() -> None:
    configured = settings(pool(), network={"interfaceEndpoints": True, "natGateways": "none"})
    assert "the number of zones" in compute_bill(configured, None, make_prices()).total("idle").unknown


@pytest.mark.parametrize("region", ["us-east-1", "us-west-2", "us-east-2", "eu-west-1"])
def test_price_snapshot_has_source_and_date_for_each_price(region: str) -> None:
    region_prices = read_snapshot(region)
    every = [*region_prices.instances.values(), *region_prices.items.values()]
    assert every and all(price.source and price.date.startswith("20") and price.usd > 0 for price in every)


def test_region_missing_from_price_snapshot_has_no_price() -> None:
    nowhere: Prices = read_snapshot("mx-central-1")
    costs = compute_bill(settings(pool(), region="mx-central-1"), None, nowhere)
    assert all(not costs.total(level).is_known and costs.total(level).hourly == 0 for level in LEVELS)


LUSTRE = {
    "lustre-125-gb-month": make_price("0.145"),
    "lustre-250-gb-month": make_price("0.21"),
    "lustre-scratch-gb-month": make_price("0.14"),
}


@pytest.mark.parametrize(
    ("fsx", "usd", "keys"),
    [
        ({}, Decimal("0.145") * 1200, 4),
        ({"sizeGib": 4800, "throughputPerTib": 250}, Decimal("0.21") * 4800, 4),
        ({"deployment": "SCRATCH_2"}, Decimal("0.14") * 1200, 3),
        ({"kmsKeyArn": "arn:aws:kms:us-west-2:123456789012:key/1"}, Decimal("0.145") * 1200, 3),
        ({"fileSystemId": "fs-0123456789abcdef0"}, None, 3),
    ],
    ids=str,
)
def test_new_lustre_file_system_costs_capacity_times_throughput_price(
    fsx: dict[str, object], usd: Decimal | None, keys: int
) -> None:
    base_prices = make_prices()
    costs = compute_bill(
        settings(pool(), storage={"fsx": fsx}), None, replace(base_prices, items={**base_prices.items, **LUSTRE})
    )
    monthly = [at * 730 for line in costs.lines if line.group == "storage" and (at := line.hourly_cost("idle")) is not None]
    assert [round(amount, 6) for amount in monthly] == ([] if usd is None else [usd])
    assert next(line.counts for line in costs.lines if line.name == "KMS keys") == (keys, keys, keys)


def test_lustre_cost_is_unknown_without_a_price_for_its_throughput() -> None:
    total = compute_bill(settings(pool(), storage={"fsx": {"throughputPerTib": 500}}), None, make_prices()).total("idle")
    assert total.unknown == ("the price of FSx for Lustre (500 MB/s per TiB) in us-west-2",)


def test_objects_in_bucket_linked_to_lustre_are_billed_by_usage() -> None:
    linked = {"fsx": {"dataRepository": {"path": "s3://data"}}}
    names = {item.name for item in compute_bill(settings(pool(), storage=linked), None, make_prices()).usage}
    assert "objects in the bucket linked to FSx" in names


def test_bill_shows_date_of_its_oldest_price() -> None:
    old = replace(make_price("0.357"), date="2025-05-28")
    base = make_prices()
    assert compute_bill(load_stack("08-ec2-mnist"), None, base).date == base.date
    assert (
        compute_bill(load_stack("08-ec2-mnist"), None, replace(base, instances={**base.instances, "c7i.2xlarge": old})).date
        == old.date
    )


@pytest.mark.parametrize("name", ["01-single-g5", "02-p4d-efa", "06-closed-network", "08-ec2-mnist", "local", "local-ec2"])
def test_price_snapshot_covers_every_stack_file(name: str) -> None:
    configured = load_stack(name)
    costs = compute_bill(configured, None, read_snapshot(configured.region))
    assert [costs.total(level).unknown for level in LEVELS] == [(), (), ()]
    assert all(line.price and line.price.source and line.price.date for line in costs.lines)
