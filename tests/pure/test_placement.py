"""Placement decisions (zones, pools and sizes) are stable across updates."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.facts.model import CapacityReservation, Existing, ExistingPool, Facts
from infra.plan.placement import (
    choose_nat_zones,
    choose_pool_zone,
    group_subnets_by_zone,
    has_efa,
    list_control_plane_zones,
    list_system_zones,
    list_vpc_zones,
    needs_placement_group,
    plan_sizes,
)
from infra.plan.specs import Sizes
from infra.settings.stack import Settings
from tests.pure.world import RESERVATION, ZONES, account_facts, existing_network, instance_type, pool, settings, subnet, subnets

A, B, C, D = ZONES
ALL = frozenset(ZONES)
BLOCK = {"kind": "capacity-block", "reservationId": RESERVATION}


def make_zone_facts(of: Settings, existing: Existing | None = None, **offered: frozenset[str]) -> Facts:
    """Return facts in which the given types (such as `g5_8xlarge`) are offered only in the given zones."""
    base = account_facts(of)
    changed = {name.replace("_", "."): zones for name, zones in offered.items()}
    return replace(base, offerings={**base.offerings, **changed}, existing=existing or Existing())


def make_running_stack(*zones: str, **pools: str) -> Existing:
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
def test_new_stack_gets_expected_zones(network: dict[str, Any], expected: tuple[str, ...]) -> None:
    stack = settings(pool(), network=network)
    assert list_vpc_zones(stack, account_facts(stack)) == expected


def test_region_with_two_zones_yields_two_zones() -> None:
    stack = settings(pool())
    base = account_facts(stack)
    assert list_vpc_zones(stack, replace(base, zones=base.zones[:2])) == (A, B)


def test_zones_that_offer_the_pool_types_are_preferred() -> None:
    stack = settings(pool(), network={"zones": 2})
    assert list_vpc_zones(stack, make_zone_facts(stack, g5_8xlarge=frozenset({C, D}))) == (C, D)


def test_each_pool_gets_a_zone_before_more_are_added() -> None:
    stack = settings(pool("a", "p5.48xlarge"), pool("b", "g5.8xlarge"), pool("c", "g5.xlarge"), network={"zones": 2})
    offered = {"p5_48xlarge": frozenset({D}), "g5_8xlarge": frozenset({B, C}), "g5_xlarge": frozenset({C})}
    zones = list_vpc_zones(stack, make_zone_facts(stack, **offered))
    assert zones == (C, D)
    assert [choose_pool_zone(pool, stack, make_zone_facts(stack, **offered)) for pool in stack.pools] == [D, C, C]


def test_vpc_includes_the_zone_of_each_pool() -> None:
    stack = settings(pool(zone=D), network={"zones": 2})
    assert list_vpc_zones(stack, account_facts(stack)) == (A, D)


def test_vpc_includes_the_zone_of_each_reservation() -> None:
    stack = settings(pool(instance_type="p5.48xlarge", capacity=BLOCK))
    reservation = CapacityReservation(RESERVATION, "capacity-block", "active", "p5.48xlarge", D, 4, 4)
    observed = replace(account_facts(stack), reservations={RESERVATION: reservation})
    assert list_vpc_zones(stack, observed) == (A, B, D)
    assert choose_pool_zone(stack.pools[0], stack, observed) == D


def test_fourth_zone_is_added_if_pools_require_four() -> None:
    stack = settings(pool("a", zone=A), pool("b", zone=B), pool("c", zone=C), pool("d", zone=D))
    assert list_vpc_zones(stack, account_facts(stack)) == (A, B, C, D)


def test_existing_zones_stay_when_offerings_change() -> None:
    stack = settings(pool())
    assert list_vpc_zones(stack, make_zone_facts(stack, make_running_stack(A, B, C), g5_8xlarge=frozenset({D}))) == (
        A,
        B,
        C,
        D,
    ), "one zone is added, none is removed"
    assert list_vpc_zones(stack, make_zone_facts(stack, make_running_stack(B, C, D), g5_8xlarge=frozenset({A, B}))) == (B, C, D)


def test_stack_with_two_zones_keeps_two_although_the_default_is_three() -> None:
    stack = settings(pool())
    assert list_vpc_zones(stack, make_zone_facts(stack, make_running_stack(A, B))) == (A, B)


def test_additional_zones_extend_the_existing_zones() -> None:
    stack = settings(pool(), network={"zones": 4})
    assert list_vpc_zones(stack, make_zone_facts(stack, make_running_stack(B, D))) == (A, B, C, D)


def test_reducing_zones_keeps_those_with_pools() -> None:
    stack = settings(pool(), network={"zones": 2})
    assert list_vpc_zones(stack, make_zone_facts(stack, make_running_stack(A, B, C, train=C))) == (A, C)


def test_existing_vpc_uses_the_zones_of_the_given_subnets() -> None:
    stack = settings(pool(), network=existing_network())
    observed = account_facts(stack, subnets=subnets(subnet("a", zone=D), subnet("b"), subnet("c")))
    assert list_vpc_zones(stack, observed) == (B, D)


# --- the control plane, system nodes and NAT gateways ------------------------------------------------------------------


def make_extended_stack(zones: tuple[str, ...], *, later: tuple[str, ...] = ()) -> Existing:
    """Return a stack that was created in some zones and extended to others later."""
    system = ExistingPool(zones[0], 1, 2, 3, zones=zones)
    return Existing("1.35", tuple(sorted((*zones, *later))), {"system": system}, cluster_zones=zones)


def test_added_zone_moves_neither_control_plane_nor_system_nodes_nor_nat() -> None:
    stack = settings(network={"zones": [A, B, C]})
    for existing in (make_extended_stack((B, C)), make_extended_stack((B, C), later=(A,))):
        observed = make_zone_facts(stack, existing)
        assert list_vpc_zones(stack, observed) == (A, B, C)
        assert list_control_plane_zones(stack, observed) == list_system_zones(stack, observed) == (B, C)
        assert choose_nat_zones(stack, observed) == (B,)


def test_new_stack_uses_all_its_zones() -> None:
    stack = settings(network={"zones": [B, C], "natGateways": "perZone"})
    for choose in (list_control_plane_zones, list_system_zones, choose_nat_zones):
        assert choose(stack, account_facts(stack)) == (B, C)


def test_reducing_zones_keeps_those_of_the_control_plane() -> None:
    stack = settings(network={"zones": 2})
    assert list_vpc_zones(stack, make_zone_facts(stack, make_extended_stack((B, C), later=(A,)))) == (B, C)


def test_a_private_cluster_has_no_nat() -> None:
    stack = settings(network={"natGateways": "none", "interfaceEndpoints": True})
    assert choose_nat_zones(stack, account_facts(stack)) == ()


def test_subnet_in_use_comes_first_within_its_zone() -> None:
    first, second, other = subnet("a"), subnet("b", zone=A), subnet("c", zone=B)
    stack = settings(network=existing_network(second.id, other.id, first.id))
    observed = account_facts(stack, subnets=subnets(first, second, other))
    assert group_subnets_by_zone(stack, observed) == {A: [second.id, first.id], B: [other.id]}, "as in the file"
    used = Existing("1.35", pools={"system": ExistingPool(A, 1, 2, 3, subnet_ids=frozenset({first.id, other.id}))})
    assert group_subnets_by_zone(stack, replace(observed, existing=used)) == {A: [first.id, second.id], B: [other.id]}


# --- zones of pools ----------------------------------------------------------------------------------------------------


def test_a_new_pool_takes_the_first_zone_that_offers_its_type() -> None:
    stack = settings(pool())
    assert choose_pool_zone(stack.pools[0], stack, make_zone_facts(stack, g5_8xlarge=frozenset({B, C}))) == B


def test_existing_pool_keeps_its_zone() -> None:
    stack = settings(pool())
    assert choose_pool_zone(stack.pools[0], stack, make_zone_facts(stack, make_running_stack(A, B, C, train=C))) == C


def test_pool_keeps_its_zone_even_if_its_type_is_no_longer_offered() -> None:
    stack = settings(pool())
    assert (
        choose_pool_zone(
            stack.pools[0], stack, make_zone_facts(stack, make_running_stack(A, B, train=A), g5_8xlarge=frozenset({B}))
        )
        == A
    )


def test_zone_set_by_the_user_wins() -> None:
    stack = settings(pool(zone=B))
    assert choose_pool_zone(stack.pools[0], stack, make_zone_facts(stack, make_running_stack(A, B, C, train=C))) == B


def test_pool_without_a_possible_zone_has_no_zone() -> None:
    stack = settings(pool(), network={"zones": [A, B]})
    assert choose_pool_zone(stack.pools[0], stack, make_zone_facts(stack, g5_8xlarge=frozenset({C}))) is None
    elsewhere = settings(pool(zone=C), network={"zones": [A, B]})
    assert choose_pool_zone(elsewhere.pools[0], elsewhere, account_facts(elsewhere)) is None


offered_zones = st.frozensets(st.sampled_from(ZONES), min_size=1)
zone_counts = st.none() | st.integers(2, 4)


@given(first=st.tuples(offered_zones, offered_zones), later=st.tuples(offered_zones, offered_zones), count=zone_counts)
def test_pools_and_zones_never_move_between_updates_if_aws_offerings_change(
    first: tuple[frozenset[str], frozenset[str]], later: tuple[frozenset[str], frozenset[str]], count: int | None
) -> None:
    stack = settings(pool("a", "g5.8xlarge"), pool("b", "p5.48xlarge"), network={"zones": count} if count else {})
    fresh = make_zone_facts(stack, g5_8xlarge=first[0], p5_48xlarge=first[1])
    zones, chosen = list_vpc_zones(stack, fresh), {pool.name: choose_pool_zone(pool, stack, fresh) for pool in stack.pools}
    assert None not in chosen.values(), "two zones are enough for two pools"
    up = make_running_stack(*zones, **{name: zone for name, zone in chosen.items() if zone})
    again = make_zone_facts(stack, up, g5_8xlarge=later[0], p5_48xlarge=later[1])
    assert list_vpc_zones(stack, again) == zones
    assert {pool.name: choose_pool_zone(pool, stack, again) for pool in stack.pools} == chosen


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
def test_pool_sizes_follow_settings_and_autoscaler(
    sizes: dict[str, int], existing: tuple[int, int, int] | None, autoscaler: bool, expected: tuple[int, bool]
) -> None:
    stack = settings(pool(**sizes), platform={"autoscaler": autoscaler})
    pools = {"train": ExistingPool(A, *existing)} if existing else {}
    planned = plan_sizes(stack.pools[0], stack, make_zone_facts(stack, Existing("1.35", (A, B), pools)))
    assert (planned.desired, planned.keeps_desired) == expected
    assert (planned.minimum, planned.maximum) == (stack.pools[0].min_size, stack.pools[0].max_size)


def test_autoscaler_controls_the_desired_size_of_the_system_pool() -> None:
    stack = settings()
    up = make_zone_facts(stack, Existing("1.35", (A, B), {"system": ExistingPool(A, 1, 3, 3)}))
    assert plan_sizes(stack.eks.system, stack, up) == Sizes(1, 3, 3, keeps_desired=True)
    assert plan_sizes(stack.eks.system, stack, account_facts(stack)) == Sizes(1, 2, 3)


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
def test_placement_group_is_created_only_for_efa_pools_without_reserved_capacity(asked: dict[str, Any], expected: bool) -> None:
    stack = settings(asked)
    assert needs_placement_group(stack.pools[0], account_facts(stack)) is expected


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
def test_resize_neither_adds_nor_removes_a_placement_group(asked: dict[str, Any], placement: str | None, expected: bool) -> None:
    stack = settings(asked)
    running = ExistingPool(A, 0, 0, 2, instance_type="g5.8xlarge", placement=placement)
    assert needs_placement_group(stack.pools[0], make_zone_facts(stack, Existing("1.35", (A, B), {"train": running}))) is expected


def test_type_without_cluster_placement_support_gets_no_placement_group() -> None:
    stack = settings(pool())
    spread = replace(instance_type("g5.8xlarge"), placement_strategies=frozenset({"spread", "partition"}))
    assert not needs_placement_group(stack.pools[0], account_facts(stack, instance_types={"g5.8xlarge": spread}))


@pytest.mark.parametrize(("efa", "expected"), [("auto", True), (True, True), (False, False)])
def test_efa_is_used_if_supported_unless_the_user_disables_efa(efa: object, expected: bool) -> None:
    asked = settings(pool(efa=efa)).pools[0]
    assert has_efa(asked, instance_type("g5.8xlarge")) is expected
    assert has_efa(asked, instance_type("g5.xlarge")) is False
