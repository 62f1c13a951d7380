"""`logs --follow` keeps following a job when its launcher restarts, in a new pod or in the same pod."""

import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from cli.errors import CommandError
from cli.jobs import follow_log, objects
from cli.jobs.follow_log import Follower
from cli.jobs.state import JobState
from infra.platform.job_controller.in_pod.phases import Phase

BESIDE = {"keys": "terminated", "keys-of-others": "running"}
LINE = "2026-01-01T00:00:0{second}.000000001Z {text}"


class Log:
    """A fake cluster that only returns logs."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def log(self, pod: str, namespace: str, *, container: str, since: str | None, follow: bool) -> Iterator[str]:
        yield LINE.format(second=4 - len(self.texts), text=f"{pod}: {self.texts.pop(0)}")


def make_launcher_pod(name: str, restarts: int, state: str) -> dict[str, Any]:
    status = {"name": "launcher", "restartCount": restarts, "state": {state: {}}}
    metadata = {"name": name, "creationTimestamp": name, "labels": {"training.kubeflow.org/job-role": "launcher"}}
    return {"metadata": metadata, "spec": {}, "status": {"containerStatuses": [status]}}


def make_job_state(phase: str, pods: Sequence[dict[str, Any]] = ()) -> JobState:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return JobState("pi", "default", "MPIJob", "pi", "mpijob", "train", 0, Phase(phase), "", 0, moment, None, pods)


@pytest.mark.parametrize(
    "attempts",
    [
        [make_launcher_pod("a", 0, "terminated"), make_launcher_pod("a", 1, "running"), make_launcher_pod("a", 2, "terminated")],
        [make_launcher_pod("a", 0, "running"), make_launcher_pod("a", 1, "terminated"), make_launcher_pod("a", 2, "running")],
    ],
    ids=["log read after the exit", "log read while running"],
)
def test_following_a_log_continues_when_a_launcher_restarts_in_its_pod(
    attempts: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    states = [
        *(make_job_state("Running", [pod]) for pod in attempts),
        make_job_state("Succeeded", [make_launcher_pod("a", 2, "terminated")]),
    ]
    monkeypatch.setattr(objects, "find_job", lambda *_: states.pop(0) if len(states) > 1 else states[0])
    monkeypatch.setattr(objects, "list_pods", lambda *_: states[0].pods)
    monkeypatch.setattr(follow_log, "EVERY_SECONDS", 0.0)
    out, notes = io.StringIO(), io.StringIO()
    cluster: Any = Log(["cannot reach a worker", "cannot reach a worker", "pi is 3.14", ""])
    _, code = Follower(cluster, "pi", "default", out, notes).run()
    assert code == 0
    assert out.getvalue().splitlines()[:3] == ["a: cannot reach a worker", "a: cannot reach a worker", "a: pi is 3.14"]
    assert notes.getvalue().splitlines() == ["cluster: attempt 2: a", "cluster: attempt 3: a"]


def test_a_sidecar_container_does_not_hide_the_launcher_log() -> None:
    pod = make_launcher_pod("a", 0, "running")
    pod["spec"]["initContainers"] = [{"name": "keys"}, {"name": "keys-of-others", "restartPolicy": "Always"}]
    running = [{"name": name, "restartCount": 0, "state": {state: {}}} for name, state in BESIDE.items()]
    pod["status"]["initContainerStatuses"] = running
    assert [container["name"] for container in follow_log.list_job_containers(pod)] == ["keys", "launcher"]


def test_following_a_job_with_a_missing_image_ends_after_the_stated_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "not found"}
    stuck = {**make_launcher_pod("a", 0, "waiting")}
    stuck["status"] = {"containerStatuses": [{"name": "launcher", "restartCount": 0, "state": {"waiting": waiting}}]}
    monkeypatch.setattr(objects, "find_job", lambda *_: make_job_state("Starting", [stuck]))
    monkeypatch.setattr(follow_log, "EVERY_SECONDS", 0.0)
    notes, seconds = io.StringIO(), iter([0.0, 299.0, 300.0])
    cluster: Any = Log([])
    with pytest.raises(
        CommandError, match=r"^not started for 5 minutes: a: ImagePullBackOff: not found; delete it: .* cancel pi$"
    ):
        Follower(cluster, "pi", "default", io.StringIO(), notes, clock=lambda: next(seconds)).run()
    assert notes.getvalue() == "cluster: a: ImagePullBackOff: not found; this command stops waiting after 5 minutes\n"
