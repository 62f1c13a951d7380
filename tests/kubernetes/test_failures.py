"""What becomes of jobs when something dies, is missing or is not enough, and of two stacks side by side."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import psutil
import pytest

from localcloud.engine_events import EventLog
from localcloud.stack import LocalStack, Run
from tests.kubernetes.job_cluster import SOURCE, JobCluster, cluster_of, job_file, python

pytestmark = pytest.mark.xdist_group("kubernetes")

TWICE = """
import pathlib, signal, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
mark = pathlib.Path("/shared") / sys.argv[1]
if not world.bcast(mark.exists()):
    if world.rank == 0:
        mark.touch()
        print("first attempt", flush=True)
    signal.pause()
if world.rank == 0:
    mark.unlink()
    print(f"second attempt, {world.size} ranks", flush=True)
"""
"""A program that waits to be killed, and ends at once the next time."""


@pytest.fixture(autouse=True)
def nothing_left(job_cluster: JobCluster) -> Iterator[None]:
    """Also of a test that failed: what holds GPUs keeps everybody else waiting."""
    yield
    for job in job_cluster.cluster("jobs", "--json").json:
        job_cluster.cluster("cancel", job["name"])


@contextmanager
def attempted(cluster: JobCluster, folder: Path, name: str, **more: Any) -> Iterator[Any]:
    """A job in its first attempt, in front of somebody who follows it."""
    # A worker that was killed keeps its name for a moment: on a busy machine one more attempt may be in vain
    file = job_file(folder, name, command=[*python(TWICE), name], backoffLimit=4, **more)
    try:
        with cluster.running("submit", file, "--follow") as process:
            assert process.stdout is not None
            read_to(process.stdout, "first attempt")
            yield process
    finally:
        cluster.cluster("cancel", name)


def read_to(stream: TextIO, text: str) -> str:
    """The first line with the text."""
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return line
    raise AssertionError(f"it ended without {text!r}: {''.join(lines)}")


def kill(pod: dict[str, Any]) -> None:
    """The first process of its container, as if out of memory."""
    uid = pod["metadata"]["uid"]
    members = [process for process in psutil.process_iter(["cmdline", "create_time"]) if is_in(process, uid)]
    programs = [process for process in members if process.info["cmdline"][:1] != ["/pause"]]
    min(programs, key=lambda process: process.info["create_time"]).kill()


def is_in(process: psutil.Process, uid: str) -> bool:
    try:
        groups = Path(f"/proc/{process.pid}/cgroup").read_text()
    except OSError:
        return False
    return uid in groups or uid.replace("-", "_") in groups


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def attempts(cluster: JobCluster, job: str) -> list[dict[str, Any]]:
    """How the launchers ended, the first first."""
    ends = [pod["status"]["containerStatuses"][0]["state"]["terminated"] for pod in cluster.pods(job, "launcher")]
    return sorted(ends, key=lambda end: moment(end["startedAt"]))


@pytest.mark.parametrize(
    ("launcher", "victim"), [("mpijob", "worker"), ("mpijob", "launcher"), ("openmpi", "worker")], ids=lambda text: text
)
def test_a_job_starts_anew_when_a_pod_of_it_is_killed(
    job_cluster: JobCluster, tmp_path: Path, launcher: str, victim: str
) -> None:
    name = f"killed-{launcher}-{victim}"
    with attempted(job_cluster, tmp_path, name, launcher=launcher) as process:
        kill(job_cluster.pods(name, victim)[-1])
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        assert "second attempt, 2 ranks" in out
        assert re.search(rf"job {name} succeeded in \d+ s, after \d failed attempt", err), err
        first, *_, last = attempts(job_cluster, name)
        assert first["exitCode"] != 0
        assert last["exitCode"] == 0
        assert moment(first["finishedAt"]) <= moment(last["startedAt"])


def test_an_image_that_is_missing_is_told_in_a_sentence(job_cluster: JobCluster, tmp_path: Path) -> None:
    file = job_file(tmp_path, "imageless", image="gpumpi/nobody-made-it:1", command=["true"])
    with job_cluster.running("submit", file, "--follow") as process:
        assert process.stderr is not None
        line = read_to(process.stderr, "ErrImagePull")
    assert re.match(
        r"cluster: 0 of 2 workers ready: imageless-(worker-\d|launcher-\w+): ErrImagePull: .*gpumpi/nobody-made-it:1.*not found",
        line,
    )
    assert job_cluster.phase("imageless") == "Starting"
    assert job_cluster.cluster("cancel", "imageless").code == 0


# --- two stacks


@dataclass(frozen=True)
class Second:
    """The cluster of another stack, and how it came up while its API server was restarted."""

    cluster: JobCluster
    up: Run
    seen_at_restart: frozenset[str]
    """Kubernetes objects that were there by then."""


@pytest.fixture(scope="module")
def second(job_cluster: JobCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Second]:
    stack = LocalStack(job_cluster.cloud, "second", SOURCE)
    stack.prepare()
    seen: set[str] = set()
    restarted = threading.Event()

    def restart(events: EventLog, _: float) -> None:
        objects = {step.urn for step in events.steps if step.type.startswith("kubernetes:")}
        if objects and not restarted.is_set():
            restarted.set()
            seen.update(objects)
            job_cluster.cloud.control().post("kubernetes/us-west-2/gpumpi-second/restart-api-server", {})

    try:
        up = stack.run("up", watch=restart)
        assert up.ok, up.output[-4000:]
        folder = tmp_path_factory.mktemp("second")
        yield Second(cluster_of(job_cluster.cloud, "second", folder), up, frozenset(seen))
    finally:
        down = stack.run("destroy")
        assert down.ok, down.output[-4000:]


def test_an_up_bears_that_the_api_server_is_restarted(second: Second) -> None:
    objects = {step.urn for step in second.up.steps if step.type.startswith("kubernetes:")}
    assert second.seen_at_restart
    assert len(objects - second.seen_at_restart) > 10, "most of it was made afterwards"
    assert second.up.errors == ()
