"""The controller takes the right broken nodes out of service, even if it is killed at any moment."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from infra.health import brake, cordons
from infra.health.cordons import Before
from infra.health.faults import GPU_CONDITION
from infra.naming import TAKEN_OUT_ANNOTATION

START = datetime(2026, 11, 23, 12, tzinfo=UTC)
WINDOW = timedelta(hours=1)
BUS, APPLICATION = "NvidiaXID79Error", "NvidiaXID31Error"


def make_node(number: int, reason: str = "", *, kind: str = GPU_CONDITION, minute: int = 0, **spec: Any) -> dict[str, Any]:
    status = "False" if reason else "True"
    since = (START + timedelta(minutes=minute)).isoformat().replace("+00:00", "Z")
    condition = {"type": kind, "status": status, "reason": reason, "lastTransitionTime": since}
    return {"metadata": {"name": f"n{number}", "resourceVersion": "1"}, "spec": spec, "status": {"conditions": [condition]}}


def apply_patch(manifest: dict[str, Any], cordon: cordons.Cordon) -> None:
    """Apply the patch as the API server would."""
    change = cordon.patch
    assert change["metadata"]["resourceVersion"] == manifest["metadata"]["resourceVersion"]
    manifest["metadata"]["annotations"] = {**manifest["metadata"].get("annotations", {}), **change["metadata"]["annotations"]}
    manifest["metadata"]["resourceVersion"] += "1"
    manifest["spec"] |= change["spec"]


def list_cordoned_and_held_nodes(nodes: list[dict[str, Any]], now: datetime = START, **more: Any) -> tuple[list[str], list[str]]:
    verdict = cordons.decide_cordons(nodes, Before(more.pop("gone", {}), more.pop("counted", {})), now, **more)
    return [cordon.node for cordon in verdict.cordons], list(verdict.held)


def test_broken_node_is_cordoned_and_annotated_with_the_reason() -> None:
    (cordon,) = cordons.decide_cordons([make_node(0), make_node(1, BUS)], Before(), START).cordons
    change = cordon.patch
    assert change["spec"] == {"unschedulable": True}
    assert json.loads(change["metadata"]["annotations"][TAKEN_OUT_ANNOTATION]) == {
        "at": "2026-11-23T12:00:00+00:00",
        "condition": GPU_CONDITION,
        "reason": BUS,
        "action": "replace",
        "state": "draining",
        "since": "2026-11-23T12:00:00+00:00",
        "drains": True,
        "ending": 0,
    }


def test_harmless_faults_and_faults_handled_by_eks_cordon_no_node() -> None:
    harmless = [make_node(number, f"NvidiaXID{xid}Error") for number, xid in enumerate((13, 31, 43, 45, 94))]
    by_eks = [
        make_node(5, "DCGMError"),
        make_node(6, "KernelBug", kind="KernelReady"),
        make_node(7, "KubeletNotReady", kind="Ready"),
        make_node(8),
    ]
    assert list_cordoned_and_held_nodes([*harmless, *by_eks]) == ([], [])


def test_nodes_of_existing_cluster_are_only_cordoned() -> None:
    nodes = [make_node(0, BUS), make_node(1, "ForkFailedOutOfPIDs", kind="KernelReady"), *map(make_node, range(2, 20))]
    decisions = cordons.decide_cordons(nodes, Before(), START, existing=True).cordons
    assert [(cordon.node, cordon.out.action) for cordon in decisions] == [("n0", "cordon"), ("n1", "cordon")]


def test_cordon_limit_keeps_most_recently_broken_nodes_in_service() -> None:
    nodes = [make_node(number, BUS, minute=-number) for number in range(10)]
    assert list_cordoned_and_held_nodes(nodes) == (["n9", "n8"], [f"n{number}" for number in range(7, -1, -1)])


def test_replaced_nodes_count_toward_the_cordon_limit() -> None:
    nodes = [make_node(0, BUS), *map(make_node, range(1, 10))]
    assert list_cordoned_and_held_nodes(nodes, gone={"x": START, "y": START}) == ([], ["n0"])
    assert list_cordoned_and_held_nodes(nodes, START + WINDOW, gone={"x": START, "y": START}) == (["n0"], [])


def test_node_counted_earlier_in_the_window_is_not_counted_again() -> None:
    nodes = [make_node(0, BUS), make_node(1, BUS), *map(make_node, range(2, 5))]
    assert list_cordoned_and_held_nodes(nodes, counted={"n1": START}) == (["n1"], ["n0"])
    assert list_cordoned_and_held_nodes(nodes, START + WINDOW, counted={"n1": START}) == (["n0"], ["n1"])


def test_node_cordoned_or_uncordoned_by_a_user_is_left_alone() -> None:
    back = make_node(1, BUS, unschedulable=False)
    back["metadata"]["annotations"] = {TAKEN_OUT_ANNOTATION: json.dumps({"at": "2020-01-01T00:00:00+00:00"})}
    damaged = make_node(2, BUS)
    damaged["metadata"]["annotations"] = {TAKEN_OUT_ANNOTATION: "?"}
    assert list_cordoned_and_held_nodes([make_node(0, BUS, unschedulable=True), back, damaged]) == ([], [])


rounds = st.lists(st.tuples(st.integers(0, 40), st.sets(st.integers(0, 19)), st.integers(0, 20)), max_size=12)


@given(st.integers(1, 20), rounds)
def test_controller_killed_at_any_time_cordons_no_node_twice_and_keeps_the_limit(
    size: int, steps: list[tuple[int, set[int], int]]
) -> None:
    """In each round, some nodes break, and the controller is killed after some of its patches."""
    nodes, now, history = [make_node(number) for number in range(size)], START, list[tuple[str, datetime]]()
    for minutes, breaking, survives in steps:
        now += timedelta(minutes=minutes)
        for number in breaking & set(range(size)):
            nodes[number]["status"] = make_node(number, APPLICATION if number % 5 == 4 else BUS)["status"]
        for cordon in cordons.decide_cordons(nodes, Before(), now).cordons[:survives]:
            apply_patch(next(node for node in nodes if node["metadata"]["name"] == cordon.node), cordon)
            history.append((cordon.node, now))
    names = [name for name, _ in history]
    assert len(names) == len(set(names))
    for _, when in history:
        assert len([entry for entry in history if when - WINDOW < entry[1] <= when]) <= brake.compute_cordon_limit(size)
    assert not {f"n{number}" for number in range(4, 20, 5)} & set(names)


@given(st.integers(1, 20), st.sets(st.integers(0, 19)))
def test_every_broken_node_is_eventually_taken_out_of_service(size: int, breaking: set[int]) -> None:
    broken = {number for number in breaking if number < size}
    nodes, now = [make_node(number, BUS if number in broken else "") for number in range(size)], START
    for _ in range(size):
        for cordon in cordons.decide_cordons(nodes, Before(), now).cordons:
            apply_patch(next(node for node in nodes if node["metadata"]["name"] == cordon.node), cordon)
        now += WINDOW
    assert {raw["metadata"]["name"] for raw in nodes if raw["spec"].get("unschedulable")} == {f"n{number}" for number in broken}
