"""The zone in which a group launches an instance, and the instance that it terminates first."""

from datetime import UTC, datetime, timedelta

import pytest

from localcloud.aws.autoscaling.spreading import Member, Place, choose_instances_to_terminate, order_places

A, B, C = (Place(zone, f"subnet-{zone}") for zone in "abc")
START = datetime(2026, 1, 1, tzinfo=UTC)


def make_member(name: str, zone: str, hour: int = 0, version: int = 1, protected: bool = False) -> Member:
    return Member(name, zone, START + timedelta(hours=hour), version, protected)


@pytest.mark.parametrize(
    ("in_use", "first"),
    [([], "a"), (["a"], "b"), (["a", "b"], "c"), (["a", "b", "c"], "a"), (["a", "a", "c"], "b")],
)
def test_the_next_instance_launches_in_the_zone_with_the_fewest_instances(in_use: list[str], first: str) -> None:
    assert order_places([A, B, C], in_use, [f"subnet-{zone}" for zone in in_use])[0].zone == first


def test_two_subnets_in_a_zone_share_its_instances_evenly() -> None:
    other = Place("a", "subnet-a2")
    assert order_places([A, other], ["a"], ["subnet-a"])[0] is other


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        (["Default"], "old"),
        (["OldestInstance"], "old"),
        (["NewestInstance"], "new"),
        (["OldestLaunchTemplate"], "template"),
        (["OldestLaunchTemplate", "NewestInstance"], "template"),
    ],
)
def test_the_termination_policy_selects_the_instance_within_a_zone(policies: list[str], expected: str) -> None:
    members = [make_member("old", "a", hour=0, version=2), make_member("new", "a", hour=9, version=2)]
    if expected == "template":
        members.append(make_member("template", "a", hour=5, version=1))
    assert choose_instances_to_terminate(members, 1, policies) == [expected]


def test_scale_in_starts_in_the_zone_with_the_most_instances() -> None:
    members = [make_member("a1", "a", hour=0), make_member("b1", "b", hour=5), make_member("b2", "b", hour=6)]
    assert choose_instances_to_terminate(members, 2, ["Default"]) == ["b1", "a1"]


def test_protected_instances_are_not_terminated_by_scale_in() -> None:
    members = [
        make_member("a1", "a", protected=True),
        make_member("a2", "a", hour=3, protected=True),
        make_member("b1", "b", hour=9),
    ]
    assert choose_instances_to_terminate(members, 2, ["Default"]) == ["b1"]
