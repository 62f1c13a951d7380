"""`goodput` divides a job's time into six parts, based on the job's record."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from cli import main
from cli.clusters import kubernetes_access
from cli.jobs import records
from cli.jobs.goodput import time_account
from cli.jobs.goodput.time_account import PARTS, Account
from cli.jobs.records import JobRecord
from infra.platform.job_controller.in_pod.progress import Seen
from infra.platform.job_controller.in_pod.steps import Step
from tests.pure.controlled_jobs import Controlled, make_condition, make_job, make_launcher, make_timestamp, make_workers
from tests.pure.controlled_jobs import make_main_object as main_object

NOW = datetime(2026, 11, 23, 13, tzinfo=UTC)
POLICY = {"progress": {"pattern": r"(\d+)", "within": 60}, "maxRestarts": 50}


def sum_seconds_by_phase(account: Account) -> dict[str, float]:
    return {phase: spent.total_seconds() for phase, spent in account.spent.items() if spent}


def run_job(*attempts: dict[int, int], ended: str = "Succeeded", end: int = 0, saved_ms: int = 0) -> Controlled:
    """Return the controller of a job whose attempts printed these steps (second -> step). All attempts before the last
    one fail at their last step.
    """
    loop = Controlled()
    queued = main_object(policy=POLICY)
    queued["spec"]["runPolicy"] = {"suspend": True}
    loop.run_round(make_job(queued, []), 1)
    loop.run_round(make_job(main_object(policy=POLICY, startTime=make_timestamp(5)), []), 7)
    gone, root, pods = [], main_object(policy=POLICY, startTime=make_timestamp(5)), make_workers()
    for number, steps in enumerate(attempts, 1):
        first, last = min(steps), max(steps)
        running = make_launcher(number, since=first - 8)
        log = Seen(running["metadata"]["uid"], [Step(make_timestamp(second), step, saved_ms) for second, step in steps.items()])
        loop.run_round(make_job(root, [*pods, *gone, running]), last, seen=log)
        if number < len(attempts) or ended == "Failed":
            gone.append(make_launcher(number, since=first - 8, phase="Failed", code=1, until=last))
            loop.run_round(make_job(root, [*pods, *gone]), last, seen=log)
    if ended == "Succeeded":
        done = main_object(policy=POLICY, completionTime=make_timestamp(end), conditions=[make_condition("Succeeded", end)])
        loop.run_round(make_job(done, [*pods, *gone]), end)
    elif ended == "Canceled":
        loop.record_deletion(end)
    return loop


def account_time(loop: Controlled) -> Account:
    assert loop.record is not None
    return time_account.compute_account(loop.record, NOW)


def test_job_without_restarts_has_only_queued_starting_and_training_time() -> None:
    assert sum_seconds_by_phase(account_time(run_job({40: 1, 50: 2, 60: 3}, end=70))) == {
        "queued": 5,
        "starting": 35,
        "training": 30,
    }


def test_repeated_steps_count_as_lost_and_the_restart_as_recovering() -> None:
    """The checkpoint contains step 2. The second attempt completes step 4 again at second 130."""
    account = account_time(run_job({40: 1, 50: 2, 60: 3, 70: 4}, {120: 3, 130: 4, 140: 5}, end=150))
    assert sum_seconds_by_phase(account) == {"queued": 5, "starting": 35, "training": 30 + 20, "lost": 10, "recovering": 50}
    assert account.goodput == 50 / 145


def test_a_job_that_resumes_at_its_last_step_loses_no_time() -> None:
    account = account_time(run_job({40: 1, 50: 2}, {120: 2, 130: 3}, end=150))
    assert sum_seconds_by_phase(account) == {"queued": 5, "starting": 35, "training": 10 + 30, "recovering": 70}


def test_attempt_that_fails_before_catching_up_adds_to_lost_time() -> None:
    account = account_time(run_job({40: 0, 70: 30}, {120: 0, 130: 10}, {200: 0, 230: 30, 240: 40}, end=240))
    assert sum_seconds_by_phase(account) == {"queued": 5, "starting": 35, "training": 40, "lost": 10 + 30, "recovering": 50 + 70}


def test_checkpoint_time_is_not_training_time() -> None:
    account = account_time(run_job({40: 1, 50: 2, 60: 3}, end=70, saved_ms=1500))
    assert sum_seconds_by_phase(account) == {"queued": 5, "starting": 35, "training": 27, "checkpointing": 3}


@pytest.mark.parametrize("ended", ["Failed", "Canceled"])
def test_time_after_last_step_of_unfinished_job_is_lost(ended: str) -> None:
    loop = run_job({40: 1, 50: 2}, ended=ended, end=80)
    if ended == "Failed":
        failed = main_object(policy=POLICY, conditions=[make_condition("Failed", 80)])
        loop.run_round(make_job(failed, []), 80)
    assert sum_seconds_by_phase(account_time(loop)) == {"queued": 5, "starting": 35, "training": 10, "lost": 30}


def test_without_steps_phases_determine_goodput_and_lost_time_is_unknown() -> None:
    loop = Controlled()
    root = main_object()
    loop.run_round(make_job(root, []), 1)
    loop.run_round(make_job(root, [*make_workers(), make_launcher()]), 20)
    loop.run_round(make_job(root, [*make_workers(), make_launcher(phase="Failed", code=1, until=40)]), 41)
    loop.run_round(make_job(root, [*make_workers(), make_launcher(phase="Failed", code=1, until=40), make_launcher(5)]), 60)
    loop.record_deletion(90)
    found_account = account_time(loop)
    assert sum_seconds_by_phase(found_account) == {"queued": 1, "starting": 14, "training": 25 + 35, "recovering": 15}
    assert not found_account.has_steps


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.integers(10, 40),  # seconds from the last step to the first step of the next attempt
            st.lists(st.integers(1, 9), min_size=1, max_size=6),  # seconds from step to step
            st.integers(0, 5),  # steps after the last checkpoint
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["Succeeded", "Canceled", "running"]),
)
def test_lost_and_recovering_time_match_the_programs_steps(attempts: list[tuple[int, list[int], int]], ended: str) -> None:
    """The program prints each step when the step ends. The time of a repeated step is lost."""
    second, step, reached = 40, 0, 0
    printed: list[dict[int, int]] = []
    lost = recovering = 0
    for number, (pause, durations, unsaved) in enumerate(attempts):
        step = max(0, step - unsaved)
        recovering += pause if number else 0
        second += pause if number else 0
        lines = {second: step}
        for duration in durations:
            step, second = step + 1, second + duration
            lost += duration if step <= reached else 0
            lines[second] = step
        reached = max(reached, step)
        printed.append(lines)
    created, spent = datetime(2026, 11, 23, 12, tzinfo=UTC), timedelta(seconds=second)
    account = time_account.compute_account(run_job(*printed, ended=ended, end=second).record or {}, created + spent)
    assert (account.spent["lost"], account.spent["recovering"]) == (timedelta(seconds=lost), timedelta(seconds=recovering))
    assert account.wall_time == spent


moments = st.integers(0, 10_000_000).map(
    lambda ms: f"2026-11-23T{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms / 1000 % 60:06.3f}Z"
)
points = st.fixed_dictionaries({"step": st.integers(0, 99), "at": moments})
attempts_of_any_kind = st.fixed_dictionaries(
    {
        "number": st.integers(1, 9),
        "from": moments,
        "to": moments,
        "running": st.none() | moments,
        "outcome": st.sampled_from([None, "Succeeded", "Failed", "Disrupted"]),
        "steps": st.none()
        | st.fixed_dictionaries(
            {"first": points, "last": points, "regained": st.none() | moments, "savedMs": st.integers(0, 9_000_000)}
        ),
    }
)


@settings(deadline=None)
@given(
    st.lists(moments, min_size=1, max_size=8).map(sorted),
    st.lists(st.sampled_from(sorted(time_account.PART_OF_PHASE)), min_size=8, max_size=8),
    st.lists(attempts_of_any_kind, max_size=5),
    st.integers(0, 3),
    st.booleans(),
)
def test_phases_of_any_record_sum_to_wall_clock_time(
    times: list[str], names: list[str], attempts: list[Any], dropped: int, has_ended: bool
) -> None:
    """The same holds if the nodes' clocks are wrong, and if the record contains only the sums of its oldest phases."""
    ends = [*times[1:], times[-1] if has_ended else None]
    phases = [{"phase": name, "from": begin, "to": end} for name, begin, end in zip(names, times, ends, strict=False)]
    sums: dict[str, float] = {}
    for phase in phases:
        if phase["to"]:
            spent = (datetime.fromisoformat(phase["to"]) - datetime.fromisoformat(str(phase["from"]))).total_seconds()
            sums[str(phase["phase"])] = sums.get(str(phase["phase"]), 0.0) + spent
    phases = phases[min(dropped, len(phases) - 1) :]
    record = {"created": times[0], "phases": phases, "seconds": sums, "attempts": attempts, "workers": []}
    account = time_account.compute_account({**record, "ended": times[-1] if has_ended else None}, NOW)
    end = datetime.fromisoformat(times[-1]) if has_ended else NOW
    assert account.wall_time == end - datetime.fromisoformat(times[0])
    assert all(spent >= timedelta() for spent in account.spent.values()) and set(account.spent) == set(PARTS)


# --- the verb ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def recorded_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of a job that lost time, and of a job without steps in another namespace."""
    first = run_job({40: 1, 50: 2, 60: 3, 70: 4}, {120: 3, 130: 4, 140: 5}, end=150).record
    other = Controlled()
    other.run_round(make_job(main_object(), [*make_workers(), make_launcher()]), 20)
    other.record_deletion(115)
    assert first and other.record
    job_records = [JobRecord("a", first), JobRecord("b", {**other.record, "name": "plain", "namespace": "vision"})]
    monkeypatch.setattr(kubernetes_access.Access, "connect", lambda self: None)
    monkeypatch.setattr(records, "list_records", lambda cluster, namespace: job_records)


@pytest.mark.usefixtures("recorded_jobs")
def test_the_table_has_jobs_namespaces_and_the_cluster() -> None:
    done = CliRunner().invoke(main.app, ["goodput"])
    assert done.exit_code == 0, done.output
    heading, *rows = [line.split() for line in done.stdout.splitlines()]
    assert heading == ["namespace", "job", "time", *PARTS, "goodput"]
    assert [row[:2] for row in rows] == [
        ["mpi-jobs", "train"],
        ["vision", "plain"],
        ["mpi-jobs", "all"],
        ["vision", "all"],
        ["cluster", "all"],
    ]
    assert rows[0][2:] == ["2m30s", "5s", "35s", "50s", "0s", "10s", "50s", "34.5", "%"]
    assert rows[1][-4] == "?", "the lost time of a job without steps is unknown"


@pytest.mark.usefixtures("recorded_jobs")
def test_json_has_the_same_numbers_and_totals_are_weighted_by_gpus() -> None:
    report = json.loads(CliRunner().invoke(main.app, ["goodput", "--json"]).stdout)
    train, plain = report["jobs"]
    assert (train["step"], train["restarts"], train["lostIsKnown"], plain["lostIsKnown"]) == (5, 1, True, False)
    for namespace in (train, plain, report["total"], *report["namespaces"].values()):
        assert sum(namespace["seconds"].values()) == namespace["wallSeconds"]
    assert report["total"]["wallSeconds"] == train["wallSeconds"] + plain["wallSeconds"]
    useful = sum(row["seconds"]["training"] for row in (train, plain))
    admitted = sum(row["wallSeconds"] - row["seconds"]["queued"] for row in (train, plain))
    assert report["total"]["goodput"] == round(useful / admitted, 4)


@pytest.mark.usefixtures("recorded_jobs")
def test_job_without_a_record_gets_one_line_error() -> None:
    done = CliRunner().invoke(main.app, ["goodput", "other"])
    assert (done.exit_code, done.stderr) == (4, "cluster goodput: job other has no record\n")
