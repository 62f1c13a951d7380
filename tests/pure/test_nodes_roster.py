"""Which instances become real nodes, and when all nodes of a node group count as started or stopped."""

import pytest

from localcloud.kubernetes.nodes.limits import BadLimit, Limits
from localcloud.kubernetes.nodes.roster import Member, Roster
from tests.pure import node_world


def admit_machine(roster: Roster, number: int, kind: str = "p4d.24xlarge") -> Member:
    member = roster.admit(node_world.make_machine(f"i-{number}", kind, address=f"10.0.1.{number}"))
    assert member is not None
    return member


def test_instances_beyond_the_limit_are_simulated() -> None:
    roster = Roster(Limits(cpu=1, gpu=2))
    real = [admit_machine(roster, number).has_real_node for number in range(3)]
    assert real == [True, True, False]
    assert admit_machine(roster, 3, "m5.large").has_real_node, "nodes with and without GPUs are counted separately"
    assert not admit_machine(roster, 4, "m5.large").has_real_node


def test_real_nodes_have_unique_numbers_that_are_reused() -> None:
    roster = Roster(Limits(gpu=2))
    first, second = admit_machine(roster, 1), admit_machine(roster, 2)
    assert (first.number, second.number) == (1, 2)
    roster.remove(first)
    assert admit_machine(roster, 3).number == 1


def test_an_instance_is_admitted_once() -> None:
    roster = Roster(Limits())
    admit_machine(roster, 1)
    assert roster.admit(node_world.make_machine("i-1")) is None


def test_oldest_simulated_node_becomes_real_when_capacity_is_free() -> None:
    roster = Roster(Limits(gpu=1))
    real, second, third = (admit_machine(roster, number) for number in range(3))
    for member in (real, second, third):
        roster.record_start_result(member, "ready")
    assert roster.promote("gpu") is None
    roster.remove(real)
    assert roster.promote("gpu") is second and second.has_real_node
    assert roster.promote("gpu") is None


def test_leaving_node_is_not_promoted_to_a_real_node() -> None:
    roster = Roster(Limits(gpu=1))
    real, other = admit_machine(roster, 1), admit_machine(roster, 2)
    roster.record_start_result(other, "ready")
    roster.mark_leaving("i-2")
    roster.remove(real)
    assert roster.promote("gpu") is None


def test_node_group_waits_for_joining_and_leaving_nodes() -> None:
    roster = Roster(Limits())
    member = admit_machine(roster, 1)
    assert not roster.progress("train").done
    roster.record_start_result(member, "ready")
    assert roster.progress("train").done and roster.progress("other").done
    assert roster.mark_leaving("i-1") is member and roster.mark_leaving("i-1") is None
    assert not roster.progress("train").done
    roster.record_start_result(member, "ready")
    assert not roster.progress("train").done, "a node that is being removed must not become ready again"
    roster.remove(member)
    assert roster.progress("train").done


def test_failed_node_is_reported_once_all_others_are_ready() -> None:
    roster = Roster(Limits())
    bad, good = admit_machine(roster, 1), admit_machine(roster, 2)
    roster.record_start_result(bad, "failed", "no kubelet")
    assert not roster.progress("train").done
    roster.record_start_result(good, "ready")
    assert roster.progress("train").problem == "no kubelet"


@pytest.mark.parametrize("text", ["gpu", "gpu=-1", "tpu=1", "gpu=1;cpu=2"])
def test_invalid_node_limit_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadLimit) as refused:
        Limits.parse(text)
    assert str(refused.value) == (
        f"GPUMPI_LOCAL_NODES: not a valid limit of real nodes per local cluster ({text!r}). Example: cpu=1,gpu=2"
    )


def test_node_limits_come_from_the_environment() -> None:
    assert Limits.from_environment({}) == Limits(cpu=1, gpu=2)
    assert Limits.from_environment({"GPUMPI_LOCAL_NODES": "gpu=4, cpu=0"}) == Limits(cpu=0, gpu=4)
