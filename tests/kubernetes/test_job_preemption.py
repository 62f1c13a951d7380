"""Preemption of a job: the ranks receive the checkpoint signal, and the job resumes with all its restarts and its full
deadline."""

import json
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.naming import QUEUE_NAME
from testkit.job_cluster import NAMESPACE, JobCluster, write_job_file
from testkit.waiting import wait_until
from tests.kubernetes.test_job_records import wait_for_end

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.mission_only, pytest.mark.usefixtures("job_cleanup")]

DEADLINE_SECONDS = 90
SAVES = """
import os, pathlib, signal, time
folder, rank = pathlib.Path("/shared") / os.environ["FOLDER"], os.environ["RANK"]
folder.mkdir(exist_ok=True)
saved = folder / f"saved-{rank}"
if saved.exists():
    print("rank", rank, "resumes after", saved.read_text(), flush=True)
    (folder / f"again-{rank}").touch()
    while len(list(folder.glob("again-*"))) < 2:
        time.sleep(0.1)
    raise SystemExit(0)
def save(number, _):
    saved.write_text(signal.Signals(number).name)
    os._exit(143)
for one in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(one, save)
(folder / f"trains-{rank}").touch()
while True:
    signal.pause()
"""
"""In the first attempt, each rank waits for a signal and writes the signal's name into a file. In the second attempt,
the ranks wait for each other."""
COMMANDS = {
    "mpijob": ["python3", "-u", "-c", SAVES],
    # The image has no PyTorch, so a shell function replaces torchrun.
    "torchrun": ["sh", "-c", 'torchrun() { LOCAL_RANK=0 RANK=$JOB_COMPLETION_INDEX python3 -u -c "$SAVES"; }; torchrun'],
}


@pytest.fixture
def preempting_queue(job_cluster: JobCluster) -> Iterator[None]:
    """Enable preemption by jobs with a higher priority, which the platform's queue disables by default."""

    def set_preemption(policy: str) -> None:
        change = json.dumps({"spec": {"preemption": {"withinClusterQueue": policy}}})
        done = job_cluster.kubectl("patch", "clusterqueue", QUEUE_NAME, "--type=merge", "-p", change)
        assert done.code == 0, done.err

    set_preemption("LowerPriority")
    yield
    set_preemption("Never")


@pytest.mark.parametrize("launcher", COMMANDS)
def test_a_preempted_job_saves_and_resumes_without_counting_a_failure_or_losing_deadline_time(
    job_cluster: JobCluster, preempting_queue: None, tmp_path: Path, launcher: str
) -> None:
    name, urgent, marks = f"preempted-{launcher}", f"urgent-{launcher}", f"preempted-{secrets.token_hex(4)}"
    more = {"maxRestarts": 0, "env": {"FOLDER": marks, "SAVES": SAVES}}
    job = write_job_file(
        tmp_path,
        name,
        launcher=launcher,
        command=COMMANDS[launcher],
        priority="job-low",
        checkpointSignal="SIGUSR1",
        activeDeadlineSeconds=DEADLINE_SECONDS,
        **more,
    )
    holds = ["sh", "-c", 'until [ -e "/shared/$FOLDER/go" ]; do sleep 0.2; done']
    other = write_job_file(tmp_path, urgent, command=holds, priority="job-high", **more)

    def find_files(pattern: str) -> list[Path]:
        return list(job_cluster.cloud.folder.glob(f"file-systems/*/gpumpi-jobs-mpi-jobs/{marks}/{pattern}"))

    submitted = time.monotonic()
    assert job_cluster.cluster("submit", job).code == 0
    wait_until(lambda: find_files("trains-*"), lambda files: len(files) == 2)
    assert job_cluster.cluster("submit", other).code == 0
    job_cluster.await_phase(urgent, "Running")
    assert [file.read_text() for file in find_files("saved-*")] == ["SIGUSR1", "SIGUSR1"]
    wait_until(lambda: job_cluster.read_phase(name), lambda phase: phase == "Queued")

    wait_until(lambda: time.monotonic() - submitted, lambda passed: passed > DEADLINE_SECONDS)
    holder = job_cluster.pods(urgent, "worker")[0]["metadata"]["name"]
    assert job_cluster.kubectl("exec", "-n", NAMESPACE, holder, "--", "touch", f"/shared/{marks}/go").code == 0
    assert job_cluster.await_phase(urgent, "Succeeded", "Failed") == "Succeeded"
    assert job_cluster.await_phase(name, "Succeeded", "Failed") == "Succeeded"

    record = wait_for_end(job_cluster, name)
    assert [attempt["outcome"] for attempt in record["attempts"]] == ["Disrupted", "Succeeded"]
    assert (record["failures"], record["disruptions"]) == (0, 1)
    log = job_cluster.cluster("logs", name, "--all").out
    assert log.count("resumes after SIGUSR1") == 2, log
