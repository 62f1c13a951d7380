"""Output of `capacity find`: the order of choices, prices per GPU hour, and the recommended next step."""

import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal

import pytest
from rich.console import Console

from cli.capacity.choices import Choice, list_choices
from cli.capacity.offer_screen import recommend_next_step, render_screen
from infra.facts.capacity import BlockOffering, Found, RegionCapacity, Wanted
from infra.facts.model import CapacityReservation

START = datetime(2026, 11, 24, 11, 30, tzinfo=UTC)
END = START + timedelta(hours=24)
P5 = "p5.48xlarge"


def make_block(identifier: str = "cb-1", fee: str | None = "1887.84", count: int = 2) -> BlockOffering:
    amount = None if fee is None else Decimal(fee)
    return BlockOffering(identifier, "us-west-2", "us-west-2a", P5, count, START, END, Decimal(24), amount, 24)


def make_reservation(
    available: int = 2, state: str = "active", kind: Literal["default", "capacity-block"] = "default"
) -> CapacityReservation:
    return CapacityReservation("cr-1", kind, state, P5, "us-west-2a", 4, available, start=START, end=END)


def make_search_result(*regions: RegionCapacity, nodes: int = 2, on_demand: str | None = "55.04") -> Found:
    prices = {} if on_demand is None else {"us-west-2": Decimal(on_demand)}
    return Found(Wanted(P5, nodes, 24), regions, 8, prices, "AWS Price List")


def make_west_capacity(**values: object) -> RegionCapacity:
    return RegionCapacity("us-west-2", **{"zones": ("us-west-2a",), **values})  # type: ignore[arg-type]


def list_rows(*regions: RegionCapacity, **options: object) -> list[Choice]:
    return list_choices(make_search_result(*regions, **options))  # type: ignore[arg-type]


def test_own_reservation_comes_first_then_the_cheapest_offer() -> None:
    spot = {"us-west-2a": Decimal("12.69")}
    listed = list_rows(make_west_capacity(blocks=(make_block(),), reservations=(make_reservation(),), spot_prices=spot))
    assert [(row.kind, row.total) for row in listed] == [
        ("reservation", Decimal(0)),
        ("spot", Decimal("609.12")),
        ("block", Decimal("1887.84")),
        ("on-demand", Decimal("2641.92")),
    ]


def test_price_per_gpu_hour_counts_all_gpus_and_hours() -> None:
    [row] = (row for row in list_rows(make_west_capacity(blocks=(make_block(),))) if row.kind == "block")
    assert row.price_per_gpu_hour == Decimal("1887.84") / (2 * 8 * 24)


@pytest.mark.parametrize(
    ("state", "available", "fits"),
    [("active", 2, True), ("active", 1, False), ("scheduled", 0, True), ("payment-pending", 0, True)],
)
def test_reservation_fits_if_capacity_is_free_now_or_at_start(state: str, available: int, fits: bool) -> None:
    [row] = (
        row
        for row in list_rows(make_west_capacity(reservations=(make_reservation(available, state),)))
        if row.kind == "reservation"
    )
    assert row.fits is fits


def test_capacity_that_is_too_small_comes_last() -> None:
    listed = list_rows(make_west_capacity(reservations=(make_reservation(1),), blocks=(make_block(),)))
    assert [row.kind for row in listed] == ["block", "on-demand", "reservation"]


def test_an_unknown_price_is_never_zero() -> None:
    listed = list_rows(make_west_capacity(blocks=(make_block(fee=None),)), on_demand=None)
    assert [row.total for row in listed] == [None, None]
    assert [row.as_json()["usd"] for row in listed] == [None, None]


def test_more_than_64_nodes_do_not_fit_into_a_capacity_block() -> None:
    [row] = (row for row in list_rows(make_west_capacity(blocks=(make_block(count=64),)), nodes=100) if row.kind == "block")
    assert (row.fits, row.note) == (False, "a block has at most 64 nodes")


def test_nearest_block_durations_are_queried() -> None:
    asked = {hours: Wanted(P5, 1, hours).block_durations for hours in (1, 24, 30, 15 * 24, 182 * 24, 200 * 24)}
    assert asked == {
        1: (24,),
        24: (24,),
        30: (48, 24),
        15 * 24: (21 * 24, 14 * 24),
        182 * 24: (182 * 24,),
        200 * 24: (182 * 24,),
    }


def test_recommendation_is_own_reservation_or_cheapest_block() -> None:
    own = list_rows(make_west_capacity(reservations=(make_reservation(),), blocks=(make_block(),)))
    assert recommend_next_step(own) == "You already have capacity. Set capacity.reservationId: cr-1 in the stack file."
    assert recommend_next_step(list_rows(make_west_capacity(blocks=(make_block("cb-2", "900"), make_block())))).endswith(
        "capacity reserve cb-2 -s STACK"
    )
    assert recommend_next_step(list_rows(make_west_capacity())) == ""


def test_screen_lists_regions_that_denied_access_or_lack_the_type() -> None:
    refusing = RegionCapacity("eu-west-1", refusals=("offerings: you may not call ec2:DescribeInstanceTypeOfferings",))
    everything = make_search_result(
        make_west_capacity(blocks=(), largest_block=1), refusing, RegionCapacity("eu-west-3"), RegionCapacity("sa-east-1")
    )
    console = Console(file=io.StringIO(), width=200)
    console.print(render_screen(everything, list_choices(everything), everything=False))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "eu-west-1: offerings: you may not call ec2:DescribeInstanceTypeOfferings" in printed
    assert "not offered in eu-west-3 and sa-east-1" in printed
    assert "us-west-2: maximum nodes per Capacity Block in this period: 1" in printed
