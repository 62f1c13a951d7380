"""Durations of emulated AWS operations, scaled by a factor."""

import ast
import inspect
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from localcloud import problems
from localcloud.aws import durations, server
from localcloud.processes import ROOT
from testkit.aws_clients import LocalAws


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


class Thing:
    status = "new"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    durations.set_factor(0)
    monkeypatch.setattr(durations, "now", clock)
    monkeypatch.setitem(durations.DURATIONS, "thing", durations.Duration(100, "made up"))
    monkeypatch.setitem(durations.DURATIONS, "other", durations.Duration(40, "made up"))
    yield clock
    durations.set_factor(0)
    durations.complete_due_transitions()
    problems.clear_problems()


@pytest.mark.parametrize(("factor", "due"), [(0, 0), (0.5, 50), (1, 100), (3, 300)])
def test_a_resource_is_ready_after_its_duration_multiplied_by_the_factor(clock: Clock, factor: float, due: float) -> None:
    durations.set_factor(factor)
    thing = Thing()
    durations.schedule(thing, "status", "CREATING", "ACTIVE", "thing")
    assert thing.status == "CREATING"
    if due:
        clock.time += due - 1
        durations.complete_due_transitions()
        assert thing.status == "CREATING"
        clock.time += 1
    durations.complete_due_transitions()
    assert thing.status == "ACTIVE"


def test_a_transition_can_set_a_dict_entry(clock: Clock) -> None:
    thing = {"State": "new"}
    durations.schedule(thing, "State", "pending", "available", "thing")
    assert thing["State"] == "pending"
    durations.complete_due_transitions()
    assert thing["State"] == "available"


def test_a_dependent_step_starts_at_the_due_time_of_its_predecessor(clock: Clock) -> None:
    durations.set_factor(1)
    first, second = Thing(), Thing()
    durations.schedule(first, "status", "A", "B", "thing", then=lambda: durations.schedule(second, "status", "C", "D", "other"))
    clock.time += 139
    durations.complete_due_transitions()
    assert (first.status, second.status) == ("B", "C")
    clock.time += 1
    durations.complete_due_transitions()
    assert second.status == "D"


def test_resources_become_ready_in_order_of_their_durations(clock: Clock) -> None:
    durations.set_factor(1)
    order: list[str] = []
    durations.schedule(Thing(), "status", "A", "B", "thing", then=lambda: order.append("thing"))
    durations.schedule(Thing(), "status", "A", "B", "other", then=lambda: order.append("other"))
    clock.time += 1000
    durations.complete_due_transitions()
    assert order == ["other", "thing"]


def test_a_dependent_step_runs_before_later_steps_even_without_requests_in_between(clock: Clock) -> None:
    durations.set_factor(1)
    order: list[str] = []

    def run_first_step() -> None:
        order.append("first")
        durations.schedule(Thing(), "status", "C", "D", "other", then=lambda: order.append("its follower"))

    durations.schedule(Thing(), "status", "A", "B", "thing", then=run_first_step)
    durations.schedule(Thing(), "status", "A", "B", 145.0, then=lambda: order.append("second"))
    clock.time += 1000
    durations.complete_due_transitions()
    assert order == ["first", "its follower", "second"]


def test_a_step_keeps_waiting_if_an_earlier_step_closes_its_gate(clock: Clock) -> None:
    durations.set_factor(1)
    free, things = [1], (Thing(), Thing())
    for thing in things:
        durations.schedule(thing, "status", "A", "B", "thing", then=free.clear, gate=lambda: bool(free))
    clock.time += 1000
    durations.complete_due_transitions()
    assert [thing.status for thing in things] == ["B", "A"]
    free.append(1)
    durations.complete_due_transitions()
    assert things[1].status == "B"


def test_each_of_a_thousand_gate_conditions_is_evaluated_at_most_three_times(clock: Clock) -> None:
    queries: list[int] = []
    things = [Thing() for _ in range(1000)]
    for thing in things:
        durations.schedule(thing, "status", "A", "B", "thing", gate=lambda: not queries.append(1))
    durations.complete_due_transitions()
    assert {thing.status for thing in things} == {"B"}
    assert len(queries) <= 3 * len(things)


def test_deleting_a_resource_cancels_its_pending_creation(clock: Clock) -> None:
    durations.set_factor(1)
    thing = Thing()
    durations.schedule(thing, "status", "CREATING", "ACTIVE", "thing")
    durations.schedule(thing, "status", "DELETING", "DELETED", "other")
    clock.time += 1000
    durations.complete_due_transitions()
    assert thing.status == "DELETED"


@pytest.mark.usefixtures("clock")
def test_delays_apply_only_to_the_named_resource_kinds() -> None:
    durations.set_factor(0.5, only=["eks-cluster"])
    assert (durations.compute_scaled_seconds("eks-cluster"), durations.compute_scaled_seconds("eks-node-group")) == (270, 0)
    durations.set_factor(0.5)
    assert durations.compute_scaled_seconds("eks-node-group") == 60


def test_an_unknown_resource_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no such durations: eks-clutser"):
        durations.set_factor(1, only=["eks-clutser"])


def test_a_negative_delay_factor_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        durations.set_factor(-1)


def test_every_duration_has_a_documented_source() -> None:
    assert all(duration.source and duration.seconds > 0 for duration in durations.DURATIONS.values())


def test_a_slow_api_call_does_not_block_others(server: LocalAws) -> None:
    server.call_control_api("PUT", "delays", {"factor": 0.1})
    seconds = durations.DURATIONS["kms-key"].seconds * 0.1
    kms, sts = server.client("kms"), server.client("sts")
    sts.get_caller_identity()
    with ThreadPoolExecutor(1) as pool:
        started = time.monotonic()
        key = pool.submit(kms.create_key)
        sts.get_caller_identity()
        other_calls_seconds = time.monotonic() - started
        key.result()
    server.call_control_api("PUT", "delays", {"factor": 0})
    assert time.monotonic() - started >= seconds
    assert other_calls_seconds < seconds


def test_the_server_applies_the_duration_to_a_new_file_system(server: LocalAws) -> None:
    efs = server.client("efs")
    server.call_control_api("PUT", "delays", {"factor": 0.1})
    seconds = server.call_control_api("GET", "delays")["durations"]["efs-file-system"]["seconds"] * 0.1
    started = time.monotonic()
    file_system = efs.create_file_system(CreationToken="t")
    assert file_system["LifeCycleState"] == "creating"
    while efs.describe_file_systems(FileSystemId=file_system["FileSystemId"])["FileSystems"][0]["LifeCycleState"] == "creating":
        assert time.monotonic() - started < 30
    server.call_control_api("PUT", "delays", {"factor": 0})
    assert time.monotonic() - started >= seconds


def test_a_step_with_a_gate_is_due_when_the_gate_opens_and_the_next_step_starts_then(clock: Clock) -> None:
    durations.set_factor(1)
    thing, follower, has_real_node = Thing(), Thing(), []
    durations.schedule(
        thing,
        "status",
        "CREATING",
        "ACTIVE",
        "thing",
        then=lambda: durations.schedule(follower, "status", "waits", "came", "other"),
        gate=lambda: bool(has_real_node),
    )
    clock.time += 150
    durations.complete_due_transitions()
    assert thing.status == "CREATING"
    has_real_node.append(True)
    durations.complete_due_transitions()
    assert (thing.status, follower.status) == ("ACTIVE", "waits")
    clock.time += 39
    durations.complete_due_transitions()
    assert follower.status == "waits", "the follower's 40 seconds start only when the gate opens"
    clock.time += 1
    durations.complete_due_transitions()
    assert follower.status == "came"


def test_a_resource_enters_its_new_status_only_after_its_check(clock: Clock) -> None:
    thing, statuses = Thing(), []

    def check() -> str:
        statuses.append(thing.status)
        return "CREATE_FAILED"

    durations.schedule(thing, "status", "CREATING", check, "thing")
    durations.complete_due_transitions()
    assert (statuses, thing.status) == (["CREATING"], "CREATE_FAILED")


def raise_key_error() -> bool:
    raise KeyError("vpc-1")


@pytest.mark.parametrize("part", ["final", "then", "gate"])
def test_an_exception_fails_only_the_operation_that_scheduled_the_step(clock: Clock, part: str) -> None:
    thing, other = Thing(), Thing()
    parts: dict[str, Any] = {"final": "ACTIVE", part: raise_key_error}
    failed = durations.make_failure_handler(thing, "status", "CREATE_FAILED")
    with durations.attribute_transitions("eks.CreateNodegroup"):
        durations.schedule(thing, "status", "CREATING", kind="thing", fail=failed, **parts)
    durations.schedule(other, "status", "CREATING", "ACTIVE", "other")
    durations.complete_due_transitions()
    assert (thing.status, other.status) == ("CREATE_FAILED", "ACTIVE")
    assert problems.list_problems() == ["eks.CreateNodegroup failed: KeyError('vpc-1')"]


def test_a_dependent_step_is_attributed_to_the_same_operation(clock: Clock) -> None:
    first, second = Thing(), Thing()

    def schedule_failing_step() -> None:
        durations.schedule(
            second, "status", "C", raise_key_error, "other", fail=durations.make_failure_handler(second, "status", "failed")
        )

    with durations.attribute_transitions("ec2.StopInstances"):
        durations.schedule(first, "status", "A", "B", "thing", then=schedule_failing_step)
    durations.complete_due_transitions()
    assert (second.status, problems.list_problems()) == ("failed", ["ec2.StopInstances failed: KeyError('vpc-1')"])


def test_every_scheduled_check_defines_how_its_operation_fails() -> None:
    """Without the `fail` argument, clients would wait for a failed resource until they time out."""
    calls = [
        (file.name, call)
        for file in sorted((ROOT / "localcloud").rglob("*.py"))
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "durations.schedule"
    ]
    checked = []
    for name, call in calls:
        arguments = {*list(inspect.signature(durations.schedule).parameters)[: len(call.args)]} | {
            str(keyword.arg) for keyword in call.keywords
        }
        if arguments & {"then", "gate"} or not isinstance(call.args[3], ast.Constant | ast.IfExp | ast.Name):
            checked.append(name)
            assert "fail" in arguments, f"{name}:{call.lineno}"
    assert len(checked) > 15


def test_the_clock_thread_survives_an_exception_and_reports_it(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    local, ticks = server.Server(), []

    def fail_once() -> None:
        ticks.append(1)
        if len(ticks) == 1:
            raise RuntimeError("no time")
        local._stopping.set()

    monkeypatch.setattr(server, "_TICK", 0.0)
    monkeypatch.setattr(durations, "complete_due_transitions", fail_once)
    local._run_clock()
    local._server.server_close()
    monkeypatch.undo()
    assert (len(ticks), problems.list_problems()) == (2, ["the clock of the local AWS failed: no time"])
