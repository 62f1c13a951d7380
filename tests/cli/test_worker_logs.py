"""`logs --all --follow` prints new log lines of several pods as they appear."""

import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from cli.errors import NotFound
from cli.jobs import follow_log, objects
from cli.jobs.state import JobState
from cli.jobs.worker_logs import FollowerOfPods, select_all_pods, select_worker
from infra.platform.job_controller.in_pod.phases import Phase


class Logs:
    """A fake cluster that only returns logs. Each pod has one list of log lines per connection."""

    def __init__(self, **connections: list[list[str]]) -> None:
        self.connections = connections

    def log(self, pod: str, namespace: str, *, container: str, since: str | None, follow: bool) -> Iterator[str]:
        if pod not in self.connections:
            raise NotFound(f"there is no pod {pod}")
        left = self.connections[pod]
        for text in left.pop(0) if left else []:
            second, _, line = text.partition(" ")
            yield f"2026-01-01T00:00:0{second}.000000001Z {line}"


def make_worker_pod(pod: str, index: int, state: str) -> dict[str, Any]:
    status = {"name": "worker", "restartCount": 0, "state": {state: {}}}
    labels = {"gpumpi.io/role": "worker", "batch.kubernetes.io/job-completion-index": str(index)}
    metadata = {"name": pod, "creationTimestamp": pod, "labels": labels}
    return {"metadata": metadata, "spec": {}, "status": {"containerStatuses": [status]}}


def make_job_state(phase: str, pods: Sequence[dict[str, Any]] = ()) -> JobState:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return JobState("train", "default", "Job", "train", "torchrun", "train", 2, Phase(phase), "", 0, moment, None, pods)


def follow_logs(monkeypatch: pytest.MonkeyPatch, logs: Logs, looks: list[JobState], **more: Any) -> tuple[list[str], int]:
    """Return the printed lines, sorted, and the exit code. `looks` lists successive states of the job; the last one
    is repeated."""
    left = list(looks)
    monkeypatch.setattr(objects, "find_job", lambda *_: left.pop(0) if len(left) > 1 else left[0])
    monkeypatch.setattr(objects, "list_pods", lambda *_: left[0].pods)
    monkeypatch.setattr(follow_log, "EVERY_SECONDS", 0.0)
    out = io.StringIO()
    cluster: Any = logs
    _, code = FollowerOfPods(cluster, "train", "default", out, io.StringIO(), **{"choose": select_all_pods, **more}).run()
    return sorted(out.getvalue().splitlines()), code


def test_log_lines_of_all_workers_start_with_the_pod_name(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(a=[["1 loss 3", "2 loss 2"]], b=[["1 waits"]])
    ended = make_job_state("Succeeded", [make_worker_pod("a", 0, "terminated"), make_worker_pod("b", 1, "terminated")])
    assert follow_logs(monkeypatch, logs, [ended]) == (["worker-0 | loss 2", "worker-0 | loss 3", "worker-1 | waits"], 0)


def test_the_log_of_a_single_worker_has_no_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(a=[["1 loss 3"]], b=[["1 waits"]])
    ended = make_job_state("Succeeded", [make_worker_pod("a", 0, "terminated"), make_worker_pod("b", 1, "terminated")])
    assert follow_logs(monkeypatch, logs, [ended], choose=select_worker(1), prefixed=False) == (["waits"], 0)


def test_a_broken_connection_neither_loses_nor_repeats_a_log_line(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(a=[["1 one", "2 two"], ["2 two", "3 three"]])
    looks = [
        make_job_state("Running", [make_worker_pod("a", 0, "running")]),
        make_job_state("Succeeded", [make_worker_pod("a", 0, "terminated")]),
    ]
    printed, code = follow_logs(monkeypatch, logs, looks)
    assert (set(printed), len(printed), code) == ({"worker-0 | one", "worker-0 | two", "worker-0 | three"}, 3, 0)


def test_logs_follow_the_pods_of_each_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(a=[["1 first attempt"]], b=[["1 second attempt"]])
    looks = [
        make_job_state("Running", [make_worker_pod("a", 0, "running")]),
        make_job_state("Failed", [make_worker_pod("a", 0, "terminated"), make_worker_pod("b", 0, "terminated")]),
    ]
    assert follow_logs(monkeypatch, logs, looks) == (["worker-0 | first attempt", "worker-0 | second attempt"], 1)


def test_a_deleted_pod_does_not_end_the_logs_of_other_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(b=[["1 still here"]])
    ended = make_job_state("Succeeded", [make_worker_pod("gone", 0, "terminated"), make_worker_pod("b", 1, "terminated")])
    assert follow_logs(monkeypatch, logs, [ended]) == (["worker-1 | still here"], 0)
