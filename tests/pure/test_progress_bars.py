"""Steps of programs whose progress bars share lines with other output, in logs as containerd and the kubelet return them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli.errors import CommandError
from cli.jobs.follow_log import PodLog
from infra.platform.job_controller.in_pod import following, logs, stacks, steps
from infra.platform.job_controller.in_pod.progress import Seen
from tests.pure.controlled_jobs import Controlled, make_job, make_main_object
from tests.pure.test_job_hangs import make_pods

START = datetime(2026, 11, 23, 12, tzinfo=UTC)
PART_BYTES = 1 << 14
POLICY = {"progress": {"pattern": r"step (\d+)", "within": 30}}
SEPARATORS = ["\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


class ContainerLog:
    """API server with the log of one container. containerd writes a line once it ends, and a part of a longer line once it
    has 16 KiB; the kubelet writes a time only at the start of a line.
    https://github.com/containerd/containerd/blob/v2.1.0/internal/cri/io/logger.go (redirectLogs)
    https://github.com/kubernetes/cri-client/blob/v0.35.0/pkg/logs/logs.go (ReadLogs)
    """

    def __init__(self) -> None:
        self.now = START
        self._waiting: dict[str, bytes] = {}
        self._entries: list[tuple[datetime, bytes]] = []

    def copy(self) -> "ContainerLog":
        return self

    def write(self, text: str, stream: str = "stdout") -> None:
        waiting = self._waiting.pop(stream, b"") + text.encode()
        while b"\n" in waiting[:PART_BYTES] or len(waiting) >= PART_BYTES:
            size = min(PART_BYTES, waiting.find(b"\n") + 1 or PART_BYTES)
            self._entries.append((self.now, waiting[:size]))
            waiting = waiting[size:]
        self._waiting[stream] = waiting

    def read_content(self, path: str, query: dict[str, str]) -> bytes:
        since = datetime.fromisoformat(query.get("sinceTime", "1970-01-01T00:00:00Z"))
        whole, is_new_line = b"", True
        for when, entry in self._entries:
            if when >= since:
                whole += (f"{when:%Y-%m-%dT%H:%M:%S.%f}000Z ".encode() if is_new_line else b"") + entry
            is_new_line = entry.endswith(b"\n")
        return whole[: int(query["limitBytes"])]


class Run:
    """A running job, its log, and the controller that follows it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, launcher: str = "torchrun") -> None:
        self.log = ContainerLog()
        clock = type("Clock", (), {"now": lambda _: self.log.now})
        monkeypatch.setattr(logs, "datetime", clock)
        self.controller = Controlled()
        self.job = make_job(make_main_object(launcher, POLICY), make_pods(launcher))
        self.controller.run_round(self.job, 20)
        self._follower: Any = following.Following(self.log)  # type: ignore[arg-type]
        self.log.now += timedelta(seconds=20)

    def wait(self, seconds: int) -> None:
        """Let time pass, then read the log and decide."""
        self.log.now += timedelta(seconds=seconds)
        assert self.controller.record is not None
        self._follower.read_job_log(self.job, self.controller.record)
        self._follower.end_round()
        self._follower._logs.read_all()
        self.seen: Seen = self._follower.read_job_log(self.job, self.controller.record)
        self.controller.run_round(self.job, round((self.log.now - START).total_seconds()), seen=self.seen)

    @property
    def hang_cause(self) -> str:
        return str(self.controller["attempts"][0]["cause"])

    @property
    def last_step(self) -> int:
        return self.seen.steps[-1].number


@pytest.mark.parametrize("launcher", ["torchrun", "mpijob"])
def test_progress_bar_on_the_same_line_hides_no_step(launcher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, launcher)
    run.log.write("step 1\n")
    for number in range(2, 40):
        run.log.write(f"\r {number}%|##")
        run.wait(5)
        run.log.write(f"step {number} loss 0.1\n")
    run.wait(1)
    assert (run.hang_cause, run.last_step) == ("", 39)
    run.wait(40)
    assert run.hang_cause.startswith("hang: no new step for 4") and run.hang_cause.endswith("after step 39")
    assert run.controller["attempts"][0]["hang"]["log"][-2:] == [" 38%|##step 38 loss 0.1", " 39%|##step 39 loss 0.1"]


def test_multipart_log_line_is_dated_by_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet reports the time of a line's first part, which may be older than `within`."""
    run = Run(monkeypatch)
    run.log.write("step 1\n")
    run.wait(5)
    for number in range(2, 6):
        for _ in range(5):
            run.log.write("\r 50%|████" * 2000, "stderr")
            run.wait(5)
        run.log.write(f"step {number}\n")
        run.wait(2)
        assert (run.hang_cause, run.last_step) == ("", number)


def test_steps_are_found_in_output_with_only_carriage_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "CHUNK_BYTES", 1 << 17)
    run = Run(monkeypatch)
    for number in range(40):
        run.log.write("".join(f"\rstep {number * 1000 + part} of 40000" for part in range(1000)))
        run.wait(10)
        assert run.hang_cause == "", number
    assert run.last_step > 38000
    run.wait(40)
    assert run.hang_cause.startswith("hang: no new step")


@pytest.mark.parametrize("separator", SEPARATORS, ids=ascii)
def test_only_a_line_feed_ends_a_line(separator: str) -> None:
    log = f"2026-11-23T12:00:00.5Z 2 %|##{separator}step 2 loss 0.1{separator}\n2026-11-23T12:00:01.5Z step 3\n"
    lines = steps.split_lines(log)
    assert [at for at, _ in lines] == ["2026-11-23T12:00:00.500000Z", "2026-11-23T12:00:01.500000Z"]
    assert [step.number for step in steps.find_steps(lines, r"step (\d+)")] == [2, 3]


@pytest.mark.parametrize(
    ("line", "pattern", "numbers"),
    [
        ("step 1\rstep 2\r 3%|##step 3", r"step (\d+)", [3]),
        ("step 1\rstep 2\r 3%|##", r"step (\d+)", [2]),
        ("step 4\r", r"^step (\d+)$", [4]),
        ("\r ░" * 9000 + "\rstep 5", r"^step (\d+)", [5]),
        ("step 6 (best: step 2)", r"step (\d+)", [6]),
        ("x" * 501 + "step 7", r"step (\d+)", []),
        ("\r\r\r", r"step (\d+)", []),
    ],
    ids=["several", "bar last", "CRLF", "long line", "two in a piece", "long piece", "empty"],
)
def test_last_segment_of_a_line_with_a_step_counts(line: str, pattern: str, numbers: list[int]) -> None:
    assert [step.number for step in steps.find_steps([("t", line)], pattern)] == numbers


def test_lines_with_invalid_timestamps_are_skipped() -> None:
    times = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0000-01-01T00:00:00Z", "noon", ""]
    assert steps.split_lines("".join(f"{time} step 1\n" for time in times)) == []


def test_log_lines_buffered_until_leader_election_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "WAITING", 1 << 15)
    run = Run(monkeypatch)
    run.wait(1)
    (reading,) = run._follower._logs._readings.values()
    for _ in range(9):
        run.log.write(f"{'x' * 9000}\n")
        run.log.now += timedelta(seconds=1)
        run._follower._logs.read_all()
    assert reading.size < 1 << 16


class Logs:
    """Cluster whose only pod has this log."""

    def __init__(self, log: ContainerLog) -> None:
        self.container_log = log

    def log(self, pod: str, namespace: str, *, container: str, since: str | None, follow: bool) -> Iterator[str]:
        text = self.container_log.read_content(
            "", {"limitBytes": "1000000", **({"sinceTime": f"{since[:19]}Z"} if since else {})}
        )
        yield from text.decode().removesuffix("\n").split("\n") if text else ()


def test_reconnecting_follower_skips_the_rest_of_a_long_line() -> None:
    log = ContainerLog()
    cluster: Any = Logs(log)
    pod_log = PodLog(cluster, "train", "mpi-jobs", "worker")
    log.write("\r 50%" * 4000)
    log.now += timedelta(seconds=5)
    log.write("end of the bar\n")
    log.now += timedelta(milliseconds=100)
    log.write("step 1\n")
    assert [line[-14:] for line in pod_log.lines(follow=False)] == ["end of the bar", "step 1"]
    log.now += timedelta(milliseconds=100)
    log.write("step 2\n")
    assert list(pod_log.lines(follow=False)) == ["step 2"]


def test_node_error_message_instead_of_a_log_is_an_error() -> None:
    log = ContainerLog()
    cluster: Any = Logs(log)
    pod_log = PodLog(cluster, "train", "mpi-jobs", "worker")
    log.write("step 1\n")
    assert list(pod_log.lines(follow=False)) == ["step 1"]
    cluster.log = lambda *_, **__: iter(["unable to retrieve container logs"])
    with pytest.raises(CommandError, match="the log of train ended early: unable to retrieve container logs"):
        list(pod_log.lines(follow=False))


def test_program_name_with_line_separators_stays_one_line_in_a_stack_dump() -> None:
    dump = stacks.parse_dump(["gpumpi-rank 0 S python\x0ctrain\u2028.py\n    step (train.py:9)\n"])
    assert [(rank.number, rank.lines) for rank in dump.ranks] == [(0, ("    step (train.py:9)",))]
