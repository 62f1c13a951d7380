"""The controller's brake limits how many nodes the job controller takes out of service within a window."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from infra.health.brake import WINDOW, compute_cordon_limit, select_nodes_to_take_out

START = datetime(2026, 11, 23, 12, tzinfo=UTC)
NODES = [f"node-{number:02}" for number in range(40)]

sizes = st.integers(0, len(NODES))
steps = st.lists(st.tuples(st.integers(0, 50), st.lists(st.sampled_from(NODES), max_size=len(NODES))), max_size=12)


def compute_time_after_start(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def test_only_one_broken_node_of_a_small_cluster_is_taken_out_of_service() -> None:
    assert select_nodes_to_take_out(["node-00"], {}, NODES[:2], START) == ["node-00"]
    assert select_nodes_to_take_out(["node-01"], {"node-00": START}, NODES[:2], compute_time_after_start(1)) == []


def test_fault_on_all_nodes_takes_a_fifth_out_of_service() -> None:
    assert select_nodes_to_take_out(NODES, {}, NODES, START) == NODES[:8]


def test_first_broken_node_leaves_service_first_and_the_next_after_the_window() -> None:
    faulty, nodes = ["node-07", "node-03", "node-05"], NODES[:10]
    first = select_nodes_to_take_out(faulty, {}, nodes, START)
    assert first == ["node-07", "node-03"]
    out = dict.fromkeys(first, START)
    assert select_nodes_to_take_out(faulty, out, nodes, compute_time_after_start(59)) == []
    assert select_nodes_to_take_out(faulty, out, nodes, compute_time_after_start(60)) == ["node-05"]


def test_replaced_node_still_counts_toward_the_limit() -> None:
    out = {"gone-1": START, "gone-2": START}
    assert select_nodes_to_take_out(["node-00"], out, NODES[:10], compute_time_after_start(5)) == []


@given(sizes, steps)
def test_no_window_exceeds_the_limit_and_no_node_leaves_service_twice(size: int, changes: list[tuple[int, list[str]]]) -> None:
    nodes, now = NODES[:size], START
    out: dict[str, datetime] = {}
    for minutes, faulty in changes:
        now += timedelta(minutes=minutes)
        released = select_nodes_to_take_out(faulty, out, nodes, now)
        assert not set(released) & set(out) and set(released) <= set(nodes)
        out |= dict.fromkeys(released, now)
        assert len([when for when in out.values() if when > now - WINDOW]) <= compute_cordon_limit(size)


@given(sizes, st.lists(st.sampled_from(NODES)))
def test_without_earlier_faults_nodes_leave_service_up_to_the_limit(size: int, faulty: list[str]) -> None:
    expected = [name for name in dict.fromkeys(faulty) if name in NODES[:size]]
    assert select_nodes_to_take_out(faulty, {}, NODES[:size], START) == expected[: compute_cordon_limit(size)]


@given(sizes, st.lists(st.sampled_from(NODES), unique=True))
def test_restart_halfway_takes_no_additional_nodes_out_of_service(size: int, faulty: list[str]) -> None:
    """The controller may be killed between two nodes. After a restart, the controller knows only the cordons that it
    has recorded."""
    whole = select_nodes_to_take_out(faulty, {}, NODES[:size], START)
    done = dict.fromkeys(whole[: len(whole) // 2], START)
    assert [*done, *select_nodes_to_take_out(faulty, done, NODES[:size], START)] == whole


@given(sizes)
def test_limit_is_at_most_a_fifth_of_the_nodes_but_at_least_one(size: int) -> None:
    assert compute_cordon_limit(size) <= max(1, size // 5) and compute_cordon_limit(size) <= size
