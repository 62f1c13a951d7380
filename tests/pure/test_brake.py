"""The brake limits how many nodes the job controller takes out of service within a window."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from infra.health.brake import WINDOW, limit, release

START = datetime(2026, 11, 23, 12, tzinfo=UTC)
NODES = [f"node-{number:02}" for number in range(40)]

sizes = st.integers(0, len(NODES))
steps = st.lists(st.tuples(st.integers(0, 50), st.lists(st.sampled_from(NODES), max_size=len(NODES))), max_size=12)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def test_one_broken_node_of_a_small_cluster_is_taken_out() -> None:
    assert release(["node-00"], {}, NODES[:2], START) == ["node-00"]
    assert release(["node-01"], {"node-00": START}, NODES[:2], at(1)) == []


def test_a_fault_of_all_nodes_costs_a_fifth_of_them() -> None:
    assert release(NODES, {}, NODES, START) == NODES[:8]


def test_the_node_that_broke_first_goes_first_and_the_next_after_the_window() -> None:
    faulty, nodes = ["node-07", "node-03", "node-05"], NODES[:10]
    first = release(faulty, {}, nodes, START)
    assert first == ["node-07", "node-03"]
    out = dict.fromkeys(first, START)
    assert release(faulty, out, nodes, at(59)) == []
    assert release(faulty, out, nodes, at(60)) == ["node-05"]


def test_a_replaced_node_still_counts() -> None:
    out = {"gone-1": START, "gone-2": START}
    assert release(["node-00"], out, NODES[:10], at(5)) == []


@given(sizes, steps)
def test_no_window_has_more_than_the_limit_and_no_node_goes_twice(size: int, changes: list[tuple[int, list[str]]]) -> None:
    nodes, now = NODES[:size], START
    out: dict[str, datetime] = {}
    for minutes, faulty in changes:
        now += timedelta(minutes=minutes)
        released = release(faulty, out, nodes, now)
        assert not set(released) & set(out) and set(released) <= set(nodes)
        out |= dict.fromkeys(released, now)
        assert len([when for when in out.values() if when > now - WINDOW]) <= limit(size)


@given(sizes, st.lists(st.sampled_from(NODES)))
def test_without_earlier_faults_the_brake_lets_as_many_go_as_the_limit_allows(size: int, faulty: list[str]) -> None:
    expected = [name for name in dict.fromkeys(faulty) if name in NODES[:size]]
    assert release(faulty, {}, NODES[:size], START) == expected[: limit(size)]


@given(sizes, st.lists(st.sampled_from(NODES), unique=True))
def test_a_restart_after_half_of_the_work_takes_out_no_more(size: int, faulty: list[str]) -> None:
    """The controller may be killed between two nodes. After a restart, it knows only the cordons that it recorded."""
    whole = release(faulty, {}, NODES[:size], START)
    done = dict.fromkeys(whole[: len(whole) // 2], START)
    assert [*done, *release(faulty, done, NODES[:size], START)] == whole


@given(sizes)
def test_the_limit_is_at_most_the_share_except_for_a_single_node(size: int) -> None:
    assert limit(size) <= max(1, size // 5) and limit(size) <= size
