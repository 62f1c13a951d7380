"""Which instances become real nodes, and when all nodes of a node group count as started or stopped."""

import pytest

from localcloud.kubernetes.nodes.limits import BadLimit, Limits
from localcloud.kubernetes.nodes.roster import Member, Roster
from tests.pure import node_world


def admit(roster: Roster, number: int, kind: str = "p4d.24xlarge") -> Member:
    member = roster.admit(node_world.machine(f"i-{number}", kind, address=f"10.0.1.{number}"))
    assert member is not None
    return member


def test_instances_beyond_the_limit_are_simulated() -> None:
    roster = Roster(Limits(cpu=1, gpu=2))
    real = [admit(roster, number).is_real for number in range(3)]
    assert real == [True, True, False]
    assert admit(roster, 3, "m5.large").is_real, "nodes with and without GPUs are counted separately"
    assert not admit(roster, 4, "m5.large").is_real


def test_real_nodes_have_numbers_of_their_own_which_are_used_again() -> None:
    roster = Roster(Limits(gpu=2))
    first, second = admit(roster, 1), admit(roster, 2)
    assert (first.number, second.number) == (1, 2)
    roster.remove(first)
    assert admit(roster, 3).number == 1


def test_an_instance_is_admitted_once() -> None:
    roster = Roster(Limits())
    admit(roster, 1)
    assert roster.admit(node_world.machine("i-1")) is None


def test_the_oldest_simulated_node_becomes_real_when_there_is_room() -> None:
    roster = Roster(Limits(gpu=1))
    real, second, third = (admit(roster, number) for number in range(3))
    for member in (real, second, third):
        roster.settle(member, "ready")
    assert roster.promote("gpu") is None
    roster.remove(real)
    assert roster.promote("gpu") is second and second.is_real
    assert roster.promote("gpu") is None


def test_who_leaves_is_not_promoted() -> None:
    roster = Roster(Limits(gpu=1))
    real, other = admit(roster, 1), admit(roster, 2)
    roster.settle(other, "ready")
    roster.let_go("i-2")
    roster.remove(real)
    assert roster.promote("gpu") is None


def test_a_node_group_waits_for_those_who_come_and_go() -> None:
    roster = Roster(Limits())
    member = admit(roster, 1)
    assert not roster.progress("train").done
    roster.settle(member, "ready")
    assert roster.progress("train").done and roster.progress("other").done
    assert roster.let_go("i-1") is member and roster.let_go("i-1") is None
    assert not roster.progress("train").done
    roster.settle(member, "ready")
    assert not roster.progress("train").done, "a node that is being removed must not become ready again"
    roster.remove(member)
    assert roster.progress("train").done


def test_the_reason_for_a_missing_node_is_reported_once_all_others_are_there() -> None:
    roster = Roster(Limits())
    bad, good = admit(roster, 1), admit(roster, 2)
    roster.settle(bad, "failed", "no kubelet")
    assert not roster.progress("train").done
    roster.settle(good, "ready")
    assert roster.progress("train").problem == "no kubelet"


@pytest.mark.parametrize("text", ["gpu", "gpu=-1", "tpu=1", "gpu=1;cpu=2"])
def test_a_limit_that_says_nothing_is_refused_with_the_way_to_write_it(text: str) -> None:
    with pytest.raises(BadLimit) as refused:
        Limits.parse(text)
    assert str(refused.value) == (
        f"GPUMPI_LOCAL_NODES: not a valid limit of real nodes per local cluster ({text!r}). Example: cpu=1,gpu=2"
    )


def test_limits_come_from_the_environment() -> None:
    assert Limits.from_environment({}) == Limits(cpu=1, gpu=2)
    assert Limits.from_environment({"GPUMPI_LOCAL_NODES": "gpu=4, cpu=0"}) == Limits(cpu=0, gpu=4)
