"""`up` creates every stack that `plan` accepts. `up` fails on every stack that `plan` rejects, for the same reason.

`python -m bench.plan` tests more stacks.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from testkit.plan_worlds import Reservation, World, compare_plan_and_up, draw_worlds

NUMBER, SEED = 10, 20261123


def build_block_pool(name: str, block: Reservation, **more: Any) -> dict[str, Any]:
    """Return a pool that uses all of a Capacity Block."""
    capacity = {"kind": "capacity-block", "reservationId": block.id}
    return {"name": name, "instanceType": block.instance_type, "maxSize": block.count, "capacity": capacity, **more}


def make_block(number: int, instance_type: str, zone: str, size: int) -> Reservation:
    return Reservation(f"cr-0123456789abcde{number:02}", "capacity-block", instance_type, f"us-west-2{zone}", size, "active")


G5, P5, G6 = make_block(0, "g5.xlarge", "c", 4), make_block(0, "p5en.48xlarge", "d", 3), make_block(1, "g6.48xlarge", "a", 4)
EXPIRED = replace(make_block(0, "p5.48xlarge", "c", 2), state="expired")
EKS: Final = {"target": {"kind": "eks"}, "platform": {"install": False}, "network": {"natGateways": "perZone"}}
FOUND = {
    "network interfaces of NAT gateways, the control plane and mount targets": World(
        {**EKS, "pools": [build_block_pool("one", G5, desiredSize=2, zone="us-west-2c")]},
        reservations=(G5,),
        quotas={"L-DF5E4CA3": 8},
    ),
    "a pool that can grow, and system nodes that cannot": World(
        {
            **EKS,
            "pools": [build_block_pool("one", P5, desiredSize=1, zone="us-west-2d"), build_block_pool("two", G6, desiredSize=0)],
        },
        reservations=(P5, G6),
        new_account=True,
    ),
    "workers of an EC2 cluster in an expired reservation": World(
        {"target": {"kind": "ec2"}, "pools": [build_block_pool("one", EXPIRED, desiredSize=0, zone="us-west-2c")]},
        reservations=(EXPIRED,),
    ),
}
"""Stacks on which `plan` and `up` disagreed in earlier versions. `python -m bench.plan` found them."""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    """The stacks are not drawn during collection: every test worker collects all tests, and drawing takes seconds of CPU time."""
    return draw_worlds(NUMBER, SEED)


@pytest.mark.parametrize("number", range(NUMBER))
def test_plan_and_up_give_the_same_result_for_random_stacks(worlds: list[World], number: int) -> None:
    assert compare_plan_and_up(worlds[number]).disagreement == ""


@pytest.mark.parametrize("name", FOUND)
def test_plan_and_up_give_the_same_result_for_stacks_with_past_differences(name: str) -> None:
    assert compare_plan_and_up(FOUND[name]).disagreement == ""


def test_the_same_seed_generates_the_same_stacks(worlds: list[World]) -> None:
    assert draw_worlds(NUMBER, SEED) == worlds
