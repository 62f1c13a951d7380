"""Placement decisions (zones, pools and sizes) are stable across updates."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.facts.model import CapacityReservation, Existing, ExistingPool, Facts
from infra.plan.placement import (
    control_plane_zones,
    has_efa,
    nat_zones,
    plan_sizes,
    pool_zone,
    subnets_by_zone,
    system_zones,
    vpc_zones,
    wants_placement_group,
)
from infra.plan.specs import Sizes
from infra.settings.stack import Settings
from tests.pure.world import RESERVATION, ZONES, existing_network, facts, instance_type, pool, settings, subnet, subnets

A, B, C, D = ZONES
ALL = frozenset(ZONES)
BLOCK = {"kind": "capacity-block", "reservationId": RESERVATION}


def world(of: Settings, existing: Existing | None = None, **offered: frozenset[str]) -> Facts:
    """Return facts in which the given types (e.g. `g5_8xlarge`) are offered only in the given zones."""
    base = facts(of)
    changed = {name.replace("_", "."): zones for name, zones in offered.items()}
    return replace(base, offerings={**base.offerings, **changed}, existing=existing or Existing())


def has(*zones: str, **pools: str) -> Existing:
    """Return a running stack with its zones and the zone of each pool."""
    return Existing("1.35", zones, {name: ExistingPool(zone, 0, 1, 2) for name, zone in pools.items()})


# --- zones of the VPC --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ({}, (A, B, C)),
        ({"zones": 2}, (A, B)),
        ({"zones": 4}, (A, B, C, D)),
        ({"zones": [D, B]}, (B, D)),
        (existing_network(), (A, B)),
    ],
)
def test_zones_of_a_new_stack(network: dict[str, Any], expected: tuple[str, ...]) -> None:
    stack = settings(pool(), network=network)
    assert vpc_zones(stack, facts(stack)) == expected


def test_a_region_with_two_zones_gives_two() -> None:
    stack = settings(pool())
    base = facts(stack)
    assert vpc_zones(stack, replace(base, zones=base.zones[:2])) == (A, B)


def test_zones_that_offer_the_pools_types_are_preferred() -> None:
    stack = settings(pool(), network={"zones": 2})
    assert vpc_zones(stack, world(stack, g5_8xlarge=frozenset({C, D}))) == (C, D)


def test_each_pool_gets_a_zone_before_more_are_added() -> None:
    stack = settings(pool("a", "p5.48xlarge"), pool("b", "g5.8xlarge"), pool("c", "g5.xlarge"), network={"zones": 2})
    offered = {"p5_48xlarge": frozenset({D}), "g5_8xlarge": frozenset({B, C}), "g5_xlarge": frozenset({C})}
    zones = vpc_zones(stack, world(stack, **offered))
    assert zones == (C, D)
    assert [pool_zone(pool, stack, world(stack, **offered)) for pool in stack.pools] == [D, C, C]


def test_the_zone_of_a_pool_is_among_the_vpcs() -> None:
    stack = settings(pool(zone=D), network={"zones": 2})
    assert vpc_zones(stack, facts(stack)) == (A, D)


def test_the_zone_of_a_reservation_is_among_the_vpcs() -> None:
    stack = settings(pool(instance_type="p5.48xlarge", capacity=BLOCK))
    reservation = CapacityReservation(RESERVATION, "capacity-block", "active", "p5.48xlarge", D, 4, 4)
    observed = replace(facts(stack), reservations={RESERVATION: reservation})
    assert vpc_zones(stack, observed) == (A, B, D)
    assert pool_zone(stack.pools[0], stack, observed) == D


def test_a_fourth_zone_comes_where_pools_ask_for_it() -> None:
    stack = settings(pool("a", zone=A), pool("b", zone=B), pool("c", zone=C), pool("d", zone=D))
    assert vpc_zones(stack, facts(stack)) == (A, B, C, D)


def test_zones_stay_when_offerings_change() -> None:
    stack = settings(pool())
    assert vpc_zones(stack, world(stack, has(A, B, C), g5_8xlarge=frozenset({D}))) == (A, B, C, D), (
        "one zone is added, none is removed"
    )
    assert vpc_zones(stack, world(stack, has(B, C, D), g5_8xlarge=frozenset({A, B}))) == (B, C, D)


def test_two_zones_stay_two_where_three_are_the_default() -> None:
    stack = settings(pool())
    assert vpc_zones(stack, world(stack, has(A, B))) == (A, B)


def test_more_zones_are_added_to_those_there_are() -> None:
    stack = settings(pool(), network={"zones": 4})
    assert vpc_zones(stack, world(stack, has(B, D))) == (A, B, C, D)


def test_fewer_zones_keep_those_with_pools() -> None:
    stack = settings(pool(), network={"zones": 2})
    assert vpc_zones(stack, world(stack, has(A, B, C, train=C))) == (A, C)


def test_zones_of_an_existing_vpc_are_those_of_the_given_subnets() -> None:
    stack = settings(pool(), network=existing_network())
    observed = facts(stack, subnets=subnets(subnet("a", zone=D), subnet("b"), subnet("c")))
    assert vpc_zones(stack, observed) == (B, D)


# --- the control plane, system nodes and NAT gateways ------------------------------------------------------------------


def up_in(zones: tuple[str, ...], *, later: tuple[str, ...] = ()) -> Existing:
    """Return a stack that was created in some zones and extended to others later."""
    system = ExistingPool(zones[0], 1, 2, 3, zones=zones)
    return Existing("1.35", tuple(sorted((*zones, *later))), {"system": system}, cluster_zones=zones)


def test_a_zone_that_comes_later_moves_neither_control_plane_nor_system_nodes_nor_nat() -> None:
    stack = settings(network={"zones": [A, B, C]})
    for existing in (up_in((B, C)), up_in((B, C), later=(A,))):
        observed = world(stack, existing)
        assert vpc_zones(stack, observed) == (A, B, C)
        assert control_plane_zones(stack, observed) == system_zones(stack, observed) == (B, C)
        assert nat_zones(stack, observed) == (B,)


def test_a_new_stack_is_in_all_its_zones() -> None:
    stack = settings(network={"zones": [B, C], "natGateways": "perZone"})
    for choose in (control_plane_zones, system_zones, nat_zones):
        assert choose(stack, facts(stack)) == (B, C)


def test_fewer_zones_keep_the_control_plane_s() -> None:
    stack = settings(network={"zones": 2})
    assert vpc_zones(stack, world(stack, up_in((B, C), later=(A,)))) == (B, C)


def test_a_private_cluster_has_no_nat() -> None:
    stack = settings(network={"natGateways": "none", "interfaceEndpoints": True})
    assert nat_zones(stack, facts(stack)) == ()


def test_of_two_subnets_in_a_zone_the_one_in_use_comes_first() -> None:
    first, second, other = subnet("a"), subnet("b", zone=A), subnet("c", zone=B)
    stack = settings(network=existing_network(second.id, other.id, first.id))
    observed = facts(stack, subnets=subnets(first, second, other))
    assert subnets_by_zone(stack, observed) == {A: [second.id, first.id], B: [other.id]}, "as in the file"
    used = Existing("1.35", pools={"system": ExistingPool(A, 1, 2, 3, subnet_ids=frozenset({first.id, other.id}))})
    assert subnets_by_zone(stack, replace(observed, existing=used)) == {A: [first.id, second.id], B: [other.id]}


# --- zones of pools ----------------------------------------------------------------------------------------------------


def test_a_new_pool_takes_the_first_zone_that_offers_its_type() -> None:
    stack = settings(pool())
    assert pool_zone(stack.pools[0], stack, world(stack, g5_8xlarge=frozenset({B, C}))) == B


def test_a_pool_stays_where_it_is() -> None:
    stack = settings(pool())
    assert pool_zone(stack.pools[0], stack, world(stack, has(A, B, C, train=C))) == C


def test_a_pool_stays_where_its_type_is_no_longer_offered() -> None:
    stack = settings(pool())
    assert pool_zone(stack.pools[0], stack, world(stack, has(A, B, train=A), g5_8xlarge=frozenset({B}))) == A


def test_the_users_zone_wins() -> None:
    stack = settings(pool(zone=B))
    assert pool_zone(stack.pools[0], stack, world(stack, has(A, B, C, train=C))) == B


def test_a_pool_without_a_possible_zone_has_none() -> None:
    stack = settings(pool(), network={"zones": [A, B]})
    assert pool_zone(stack.pools[0], stack, world(stack, g5_8xlarge=frozenset({C}))) is None
    elsewhere = settings(pool(zone=C), network={"zones": [A, B]})
    assert pool_zone(elsewhere.pools[0], elsewhere, facts(elsewhere)) is None


offered_zones = st.frozensets(st.sampled_from(ZONES), min_size=1)
zone_counts = st.none() | st.integers(2, 4)


@given(first=st.tuples(offered_zones, offered_zones), later=st.tuples(offered_zones, offered_zones), count=zone_counts)
def test_nothing_moves_between_two_runs_whatever_aws_offers(
    first: tuple[frozenset[str], frozenset[str]], later: tuple[frozenset[str], frozenset[str]], count: int | None
) -> None:
    stack = settings(pool("a", "g5.8xlarge"), pool("b", "p5.48xlarge"), network={"zones": count} if count else {})
    fresh = world(stack, g5_8xlarge=first[0], p5_48xlarge=first[1])
    zones, chosen = vpc_zones(stack, fresh), {pool.name: pool_zone(pool, stack, fresh) for pool in stack.pools}
    assert None not in chosen.values(), "two zones are enough for two pools"
    up = has(*zones, **{name: zone for name, zone in chosen.items() if zone})
    again = world(stack, up, g5_8xlarge=later[0], p5_48xlarge=later[1])
    assert vpc_zones(stack, again) == zones
    assert {pool.name: pool_zone(pool, stack, again) for pool in stack.pools} == chosen


# --- sizes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "existing", "autoscaler", "expected"),
    [
        # a new pool
        ({"maxSize": 4}, None, True, (0, False)),
        ({"minSize": 1, "maxSize": 4}, None, True, (1, False)),
        ({"desiredSize": 2, "maxSize": 4}, None, True, (2, False)),
        # the autoscaler has set the size to 3
        ({"desiredSize": 2, "maxSize": 4}, (0, 3, 4), True, (3, True)),
        # the bounds change: the size is clamped to them
        ({"desiredSize": 2, "maxSize": 8}, (0, 3, 4), True, (3, False)),
        ({"minSize": 4, "maxSize": 8}, (0, 3, 4), True, (4, False)),
        ({"maxSize": 2}, (0, 3, 4), True, (2, False)),
        # without the autoscaler, the stack file sets the size
        ({"desiredSize": 2, "maxSize": 4}, (0, 3, 4), False, (2, False)),
        ({"desiredSize": 2, "maxSize": 4}, None, False, (2, False)),
    ],
)
def test_the_size_of_a_pool(
    sizes: dict[str, int], existing: tuple[int, int, int] | None, autoscaler: bool, expected: tuple[int, bool]
) -> None:
    stack = settings(pool(**sizes), platform={"autoscaler": autoscaler})
    pools = {"train": ExistingPool(A, *existing)} if existing else {}
    planned = plan_sizes(stack.pools[0], stack, world(stack, Existing("1.35", (A, B), pools)))
    assert (planned.desired, planned.keeps_desired) == expected
    assert (planned.minimum, planned.maximum) == (stack.pools[0].min_size, stack.pools[0].max_size)


def test_the_size_of_the_system_pool_is_the_autoscalers_too() -> None:
    stack = settings()
    up = world(stack, Existing("1.35", (A, B), {"system": ExistingPool(A, 1, 3, 3)}))
    assert plan_sizes(stack.eks.system, stack, up) == Sizes(1, 3, 3, keeps_desired=True)
    assert plan_sizes(stack.eks.system, stack, facts(stack)) == Sizes(1, 2, 3)


# --- EFA and placement groups ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (pool(), True),
        (pool(efa=True), True),
        (pool(efa=False), False),
        (pool(instance_type="g5.xlarge"), False),
        (pool(maxSize=1), False),
        (pool(placementGroup="none"), False),
        (pool(placementGroup="mine"), False),
        (pool(capacity={"kind": "spot"}), True),
        (pool(instance_type="p5.48xlarge", capacity=BLOCK), False),
        (pool(instance_type="p5.48xlarge", capacity={"kind": "targeted-odcr", "reservationId": RESERVATION}), False),
    ],
)
def test_a_placement_group_is_made_for_efa_between_nodes_of_free_capacity(asked: dict[str, Any], expected: bool) -> None:
    stack = settings(asked)
    assert wants_placement_group(stack.pools[0], facts(stack)) is expected


@pytest.mark.parametrize(
    ("asked", "placement", "expected"),
    [
        (pool(maxSize=1), "group", True),
        (pool(maxSize=4), "apart", False),
        # an explicit setting or another instance type requires a new decision
        (pool(maxSize=4, placementGroup="none"), "group", False),
        (pool(maxSize=4, efa=False), "group", False),
        (pool(maxSize=4, instance_type="p4d.24xlarge"), "apart", True),
        # no earlier decision exists
        (pool(maxSize=4), None, True),
    ],
)
def test_a_resize_neither_makes_nor_removes_a_placement_group(
    asked: dict[str, Any], placement: str | None, expected: bool
) -> None:
    stack = settings(asked)
    running = ExistingPool(A, 0, 0, 2, instance_type="g5.8xlarge", placement=placement)
    assert wants_placement_group(stack.pools[0], world(stack, Existing("1.35", (A, B), {"train": running}))) is expected


def test_no_placement_group_for_a_type_that_aws_puts_in_none() -> None:
    stack = settings(pool())
    spread = replace(instance_type("g5.8xlarge"), placement_strategies=frozenset({"spread", "partition"}))
    assert not wants_placement_group(stack.pools[0], facts(stack, instance_types={"g5.8xlarge": spread}))


@pytest.mark.parametrize(("efa", "expected"), [("auto", True), (True, True), (False, False)])
def test_efa_is_used_where_it_is_unless_the_user_says_no(efa: object, expected: bool) -> None:
    asked = settings(pool(efa=efa)).pools[0]
    assert has_efa(asked, instance_type("g5.8xlarge")) is expected
    assert has_efa(asked, instance_type("g5.xlarge")) is False
