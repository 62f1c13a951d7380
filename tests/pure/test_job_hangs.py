"""The job controller reads steps from logs, and restarts a job that hangs."""

import copy
import itertools
from typing import Any

import pytest

from cli.jobs.records import JobRecord
from infra.naming import COMPLETION_INDEX
from infra.platform.job_controller.in_pod import following, logs, progress, reconcile, stacks
from infra.platform.job_controller.in_pod.actions import DeletePod, FailJob, Report
from infra.platform.job_controller.in_pod.api import ApiError
from infra.platform.job_controller.in_pod.logs import Logs, Source
from infra.platform.job_controller.in_pod.progress import Seen
from infra.platform.job_controller.in_pod.record import Record
from infra.platform.job_controller.in_pod.stacks import Dump, Rank
from infra.platform.job_controller.in_pod.steps import Step
from tests.pure.controlled_jobs import Controlled, Object, make_job, make_launcher, make_main_object, make_timestamp, make_workers

WITHIN = {"progress": {"pattern": r"step (\d+)", "within": 60}}
KINDS = ("mpijob", "standalone", "torchrun")
DUMP = Dump((Rank(0, "S", ("    step (train.py:9)",)), Rank(1, "T", ("    load (data.py:7)",))))
WHERE = "rank 0: step (train.py:9); rank 1: stopped in load (data.py:7)"


def make_pods(kind: str, attempt: int = 1) -> list[Object]:
    """Return the pods of a running attempt."""
    named = make_workers(uid="") if attempt == 1 else make_workers(since=10 * attempt)
    for index, resource in enumerate(named):
        resource["metadata"]["uid"] = f"worker-{attempt}-{index}"
        resource["metadata"]["labels"][COMPLETION_INDEX] = str(index)
    if kind == "torchrun":
        return named
    main_pod = make_launcher(attempt)
    main_pod["status"]["conditions"].append(
        {"type": "Ready", "status": "True", "lastTransitionTime": make_timestamp(10 * attempt + 5)}
    )
    return [*named, main_pod]


def make_seen_steps(kind: str, *pairs: tuple[int, int], until: int, attempt: int = 1, tail: tuple[str, ...] = ()) -> Seen:
    """Return a log with these steps, given as (second, step)."""
    uid = f"worker-{attempt}-0" if kind == "torchrun" else f"uid-train-launcher-{attempt}"
    return Seen(uid, [Step(make_timestamp(second), number) for second, number in pairs], tail, make_timestamp(until))


def make_hanging_controller(kind: str = "mpijob", **more: Any) -> Controlled:
    """Return the controller of a job that prints step 7 at second 30. The controller detects the hang at second 91."""
    loop = Controlled()
    managed = make_job(make_main_object(kind, {**WITHIN, **more}), make_pods(kind))
    loop.run_round(managed, 20)
    assert loop.run_round(managed, 90, seen=make_seen_steps(kind, (25, 6), (30, 7), until=90)) == []
    return loop


@pytest.mark.parametrize("kind", KINDS)
def test_job_without_new_steps_is_ended_and_restarted(kind: str) -> None:
    loop = make_hanging_controller(kind)
    managed = make_job(make_main_object(kind, WITHIN), make_pods(kind))
    (report,) = loop.run_round(managed, 91, seen=make_seen_steps(kind, (30, 7), until=91, tail=("step 6", "step 7")))
    cause = "hang: no new step for 61 s after step 7"
    same, *deleted = loop.run_round(managed, 93, dump=DUMP)
    assert isinstance(report, Report) and same == report
    assert (report.reason, report.message) == ("Hang", f"{cause}. All ranks are ended, which counts as a failure.")
    assert [item.uid for item in deleted if isinstance(item, DeletePod)] == [pod["metadata"]["uid"] for pod in make_pods(kind)]
    assert loop.outcomes == [("Failed", cause)]
    hang = {"at": make_timestamp(91), "step": 7, "log": ["step 6", "step 7"], "where": WHERE}
    assert {key: loop["attempts"][0]["hang"][key] for key in hang} == hang
    assert (loop["phase"], loop["failures"]) == ("Restarting", 1)
    again = make_job(make_main_object(kind, WITHIN), make_pods(kind, 12))
    assert loop.run_round(again, 130, seen=make_seen_steps(kind, (128, 5), until=130, attempt=12)) == []
    assert (loop["phase"], loop["restarts"], loop["failures"]) == ("Running", 1, 1)


def test_jobs_and_status_show_why_the_job_restarted() -> None:
    loop = make_hanging_controller()
    managed = make_job(make_main_object(policy=WITHIN), make_pods("mpijob"))
    loop.run_round(managed, 91, seen=make_seen_steps("mpijob", (30, 7), until=91))
    assert loop.record is not None
    shown = JobRecord("train-record", loop.record)
    assert shown.hang == "restarted after a hang: no new step for 61 s after step 7"
    loop.run_round(managed, 93, dump=DUMP)
    assert JobRecord("train-record", loop.record).hang == f"{shown.hang}; {WHERE}"


@pytest.mark.parametrize("kind", KINDS)
def test_hang_counts_toward_the_restart_limit(kind: str) -> None:
    loop = make_hanging_controller(kind, maxRestarts=0)
    managed = make_job(make_main_object(kind, {**WITHIN, "maxRestarts": 0}), make_pods(kind))
    (report,) = loop.run_round(managed, 92, seen=make_seen_steps(kind, (30, 7), until=92))
    assert isinstance(report, Report), "the job fails only after its ranks' stacks were requested"
    (action,) = loop.run_round(managed, 94, dump=DUMP)
    assert isinstance(action, FailJob)
    message = "the job failed once, the last time with hang: no new step for 62 s after step 7; maxRestarts is 0"
    assert (action.reason, action.message) == ("MaxRestartsExceeded", message)


@pytest.mark.parametrize("kind", KINDS)
def test_job_with_new_steps_does_not_hang(kind: str) -> None:
    loop = Controlled()
    managed = make_job(make_main_object(kind, WITHIN), make_pods(kind))
    for second in range(20, 900, 50):
        assert loop.run_round(managed, second, seen=make_seen_steps(kind, (second, second), until=second + 1)) == []
    assert loop.outcomes == [(None, "")]


def test_steps_that_restart_in_each_epoch_count_as_new_steps() -> None:
    loop = Controlled()
    managed = make_job(make_main_object(policy=WITHIN), make_pods("mpijob"))
    for second in range(20, 900, 50):
        assert loop.run_round(managed, second, seen=make_seen_steps("mpijob", (second, second % 3), until=second)) == []


@pytest.mark.parametrize("why", ["log not read", "worker not ready", "node not ready", "pod ends", "suspended", "no progress"])
def test_silence_with_another_cause_is_not_a_hang(why: str) -> None:
    loop = make_hanging_controller()
    pods, root, log, lost = (
        make_pods("mpijob"),
        make_main_object(policy=WITHIN),
        make_seen_steps("mpijob", (30, 7), until=300),
        "",
    )
    if why == "log not read":
        log = Seen(log.uid, log.steps, (), make_timestamp(89))
    elif why == "worker not ready":
        pods[1]["status"]["conditions"] = []
    elif why == "node not ready":
        lost = "two"
    elif why == "pod ends":
        pods[1]["metadata"]["deletionTimestamp"] = make_timestamp(80)
    elif why == "suspended":
        root["spec"]["runPolicy"] = {"suspend": True}
    else:
        root = make_main_object()
    assert not [action for action in loop.run_round(make_job(root, pods, lost=lost), 300, seen=log) if isinstance(action, Report)]
    assert not loop["attempts"][0].get("hang")


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_step_of_an_attempt_may_take_ten_minutes_longer(kind: str) -> None:
    loop = Controlled()
    managed = make_job(make_main_object(kind, WITHIN), make_pods(kind))
    loop.run_round(managed, 20)
    assert loop.run_round(managed, 675, seen=make_seen_steps(kind, until=675)) == []
    assert loop.run_round(managed, 677, seen=make_seen_steps(kind, until=677))
    assert loop.outcomes == [("Failed", "hang: no step in the first 662 s")]


def test_hang_is_discounted_if_a_node_turns_out_to_be_lost() -> None:
    loop = make_hanging_controller()
    root = make_main_object(policy=WITHIN)
    loop.run_round(make_job(root, make_pods("mpijob")), 91, seen=make_seen_steps("mpijob", (30, 7), until=91))
    assert loop["failures"] == 1
    loop.run_round(make_job(root, make_pods("mpijob"), lost="two"), 120)
    assert (loop["failures"], loop["disruptions"], loop["attempts"][0]["outcome"]) == (0, 1, "Disrupted")


@pytest.mark.parametrize("kind", ["mpijob", "standalone"])
def test_workers_ended_after_a_hang_do_not_explain_the_next_failure(kind: str) -> None:
    loop = make_hanging_controller(kind)
    root, old = make_main_object(kind, WITHIN), make_pods(kind)
    loop.run_round(make_job(root, old), 91, seen=make_seen_steps(kind, (30, 7), until=91))
    ending = [{**pod, "metadata": {**pod["metadata"], "deletionTimestamp": make_timestamp(92)}} for pod in old[:2]]
    loop.run_round(make_job(root, [*ending, make_launcher(10)]), 101)
    loop.run_round(make_job(root, [*make_pods(kind, 11)[:2], make_launcher(10, phase="Failed", code=1, until=120)]), 121)
    assert [outcome for outcome, _ in loop.outcomes] == ["Failed", "Failed"]


# --- killed at any moment ----------------------------------------------------------------------------------------------


class World:
    """A job that hangs in its first attempt; Kubernetes replaces its pods once all of them are deleted."""

    def __init__(self, kind: str) -> None:
        self.kind, self.pods = kind, make_pods(kind)
        self.record: Record | None = None
        self.deleted: list[str] = []
        self.events: set[str] = set()

    def run(self, second: int, limit: int) -> int:
        """Run one round of a controller that is killed after `limit` writes and actions. Return the number of completed
        writes and actions.
        """
        first = self.pods[0]["metadata"]["uid"].startswith("worker-1-")
        log = make_seen_steps(self.kind, (25, 6), (30, 7), until=second) if first else None
        managed = make_job(make_main_object(self.kind, WITHIN), copy.deepcopy(self.pods))
        dump = DUMP if self.record and stacks.find_attempt_to_dump(self.record, make_timestamp(second)) else None
        after = reconcile.update_record(self.record, managed, make_timestamp(second), log, dump)
        actions = reconcile.decide_actions(after, managed, {}, make_timestamp(second))
        done = 0
        if after != self.record:
            if done == limit:
                return done
            self.record, done = after, done + 1
        for action in actions:
            if done == limit:
                return done
            done += 1
            if isinstance(action, DeletePod):
                self.deleted.append(action.uid)
                self.pods = [pod for pod in self.pods if pod["metadata"]["uid"] != action.uid]
            elif isinstance(action, Report):
                self.events.add(action.name)
        if not self.pods:
            self.pods = make_pods(self.kind, 12)
        return done


@pytest.mark.parametrize("kind", KINDS)
def test_controller_killed_at_any_time_ends_a_hang_only_once(kind: str) -> None:
    for limits in itertools.product(range(6), repeat=3):
        world = World(kind)
        world.run(20, 9)
        for turn, limit in enumerate(limits):
            world.run(91 + turn, limit)
        for turn in range(3):
            world.run(130 + turn, 9)
        assert world.record is not None
        hangs = [attempt for attempt in world.record["attempts"] if attempt.get("hang")]
        assert len(hangs) == 1 and world.record["failures"] == 1, limits
        assert sorted(world.deleted) == sorted(pod["metadata"]["uid"] for pod in make_pods(kind)), limits
        assert world.events == {"train.hang-1.uid-trai"}, limits


# --- steps in the record -----------------------------------------------------------------------------------------------


def test_record_shows_when_an_attempt_caught_up_with_the_previous_attempt() -> None:
    loop = make_hanging_controller()
    root = make_main_object(policy=WITHIN)
    loop.run_round(make_job(root, make_pods("mpijob")), 91, seen=make_seen_steps("mpijob", (30, 7), until=91))
    again = make_job(root, make_pods("mpijob", 12))
    lines = [
        Step(make_timestamp(130), 5),
        Step(make_timestamp(135), 6),
        Step(make_timestamp(140), 7, 900),
        Step(make_timestamp(141), 8, 1200),
    ]
    loop.run_round(again, 141, seen=Seen("uid-train-launcher-12", lines, (), make_timestamp(141)))
    point = {
        "goal": 7,
        "first": {"step": 5, "at": make_timestamp(130)},
        "last": {"step": 8, "at": make_timestamp(141)},
        "highest": 8,
    }
    assert loop["attempts"][1]["steps"] == {
        **point,
        "until": make_timestamp(141),
        "regained": make_timestamp(140),
        "savedMs": 1200,
    }


def test_record_is_written_at_the_first_step_and_then_every_30_seconds() -> None:
    loop = Controlled()
    managed = make_job(make_main_object(policy=WITHIN), make_pods("mpijob"))
    written = []
    for second in range(20, 120):
        before = copy.deepcopy(loop.record)
        lines = [(number, number) for number in range(20, second + 1)]
        loop.run_round(managed, second, seen=make_seen_steps("mpijob", *lines, until=second))
        if loop.record != before:
            written.append(second)
    assert written == [20, 50, 80, 110]


@pytest.mark.parametrize(
    "progress_of",
    ["x", [], {}, {"pattern": 1, "within": 60}, {"pattern": "x", "within": "1m"}, {"pattern": "x" * 999, "within": 60}],
)
def test_malformed_progress_policy_is_ignored(progress_of: Any) -> None:
    loop = Controlled()
    managed = make_job(make_main_object(policy={"progress": progress_of}), make_pods("mpijob"))
    loop.run_round(managed, 20)
    assert loop.record is not None and progress.find_log(loop.record, managed) is None
    assert loop.run_round(managed, 900, seen=make_seen_steps("mpijob", (30, 7), until=900)) == []


def test_lines_that_were_read_twice_count_once() -> None:
    loop = Controlled()
    managed = make_job(make_main_object(policy=WITHIN), make_pods("mpijob"))
    lines = [Step(make_timestamp(20), 1), Step(make_timestamp(60), 2, 500)]
    for _ in range(3):
        loop.run_round(managed, 61, seen=Seen("uid-train-launcher-1", lines, (), make_timestamp(61)))
    assert loop["attempts"][0]["steps"]["savedMs"] == 500


def test_torchrun_log_is_read_from_rank_0() -> None:
    loop = Controlled()
    managed = make_job(make_main_object("torchrun", WITHIN), make_pods("torchrun"))
    loop.run_round(managed, 20)
    assert loop.record is not None
    assert progress.find_log(loop.record, managed) == Source("mpi-jobs", "train-worker-0", "worker-1-0", "worker", "")


# --- logs -------------------------------------------------------------------------------------------------------------


class Log:
    """API server with one pod's log. As in Kubernetes, requests specify a start time in whole seconds and a limit in
    bytes.
    """

    def __init__(self, lines: list[str]) -> None:
        self.lines, self.error = lines, 0

    def copy(self) -> "Log":
        return self

    def read_content(self, path: str, query: dict[str, str]) -> bytes:
        if self.error:
            raise ApiError(self.error, "", "")
        since = query.get("sinceTime", "")
        lines = [line for line in self.lines if line[:19] >= since[:19]]
        return "".join(f"{line}\n" for line in lines).encode()[: int(query["limitBytes"])]


SOURCE = Source("mpi-jobs", "train-launcher", "uid", "launcher", "")


def make_log_reader(lines: list[str]) -> tuple[Any, Log]:
    log = Log(lines)
    reader: Any = Logs(log)  # type: ignore[arg-type]
    reader.follow({"job": SOURCE})
    return reader, log


def read_new_lines(reader: Any) -> logs.NewLines:
    for reading in reader._readings.values():
        reader._try_to_read(reading)
    batch: logs.NewLines = reader.take(SOURCE)
    return batch


def test_each_line_of_a_log_is_read_once() -> None:
    lines = [f"2026-11-23T12:00:{second:02}.5Z step {second}" for second in range(30)]
    reader, log = make_log_reader(lines[:20])
    first = read_new_lines(reader)
    log.lines = lines
    second = read_new_lines(reader)
    assert [text for _, text in (*first.lines, *second.lines)] == [f"step {number}" for number in range(30)]
    assert first.complete and second.complete
    assert read_new_lines(reader).lines == []


def test_long_log_is_read_in_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "CHUNK_BYTES", 200)
    lines = [f"2026-11-23T12:{second // 60:02}:{second % 60:02}.5Z step {second}" for second in range(100)]
    reader, _ = make_log_reader(lines)
    texts, rounds = list[str](), 0
    while not (new := read_new_lines(reader)).complete:
        texts += [text for _, text in new.lines]
        rounds += 1
    texts += [text for _, text in new.lines]
    assert texts == [f"step {number}" for number in range(100)] and rounds > 1


def test_log_flood_within_a_second_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "CHUNK_BYTES", 200)
    flood = [f"2026-11-23T12:00:00.{number:06}Z noise" for number in range(100)]
    reader, _ = make_log_reader([*flood, "2026-11-23T12:00:01.5Z step 9"])
    (*noise, last) = (text for _, text in read_new_lines(reader).lines)
    assert last == "step 9" and set(noise) == {"noise"} and len(noise) < 100


def test_unreadable_log_is_no_sign_of_a_hang() -> None:
    reader, log = make_log_reader(["2026-11-23T12:00:00.5Z step 1"])
    log.error = 400
    assert read_new_lines(reader) == logs.NewLines([], "")


def test_new_controller_recovers_the_steps_from_the_log() -> None:
    loop = make_hanging_controller()
    managed = make_job(make_main_object(policy=WITHIN), make_pods("mpijob"))
    lines = [f"2026-11-23T12:00:{second:02}.5Z step {second}" for second in range(20, 60)]
    follower: Any = following.Following(Log(lines))  # type: ignore[arg-type]
    assert loop.record is not None
    assert follower.read_job_log(managed, loop.record) == Seen("uid-train-launcher-1")
    follower.end_round()
    for reading in follower._logs._readings.values():
        follower._logs._try_to_read(reading)
    progress = follower.read_job_log(managed, loop.record)
    assert [step.number for step in progress.steps] == list(range(31, 60)), "the record contains the step of second 30"
    assert progress.tail[-1] == "step 59" and progress.complete
