"""`cancel` lets ranks save a checkpoint before they exit, and the next job resumes from this checkpoint."""

import secrets
from pathlib import Path

import pytest

from testkit.job_cluster import JobCluster, build_python_command, write_job_file
from testkit.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("job_cleanup")]

GRACE_SECONDS = 60
SAVES = """
import os, pathlib, signal, time
folder, rank = pathlib.Path("/shared") / os.environ["FOLDER"], os.environ["RANK"]
folder.mkdir(exist_ok=True)
saved = folder / f"saved-{rank}"
if saved.exists():
    print("rank", rank, "resumes after", saved.read_text(), flush=True)
    raise SystemExit(0)
def save(number, _):
    (folder / f"saving-{rank}").touch()
    while not (folder / "may-save").exists():
        time.sleep(0.1)
    saved.write_text(signal.Signals(number).name)
    os._exit(143)
for one in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(one, save)
(folder / f"trains-{rank}").touch()
while True:
    signal.pause()
"""
"""In the first job, each rank waits for a signal, and saves the signal's name as soon as the test allows it."""


def test_ranks_of_a_canceled_job_save_a_checkpoint_and_the_next_job_resumes(job_cluster: JobCluster, tmp_path: Path) -> None:
    marks = f"canceled-{secrets.token_hex(4)}"
    more = {"checkpointSignal": "SIGUSR1", "terminationGracePeriodSeconds": GRACE_SECONDS, "env": {"FOLDER": marks}}
    job = write_job_file(tmp_path, "canceled", command=build_python_command(SAVES), maxRestarts=0, **more)

    def find_files(pattern: str) -> list[Path]:
        return list(job_cluster.cloud.folder.glob(f"file-systems/*/gpumpi/{marks}/{pattern}"))

    assert job_cluster.cluster("submit", job).code == 0
    trains = wait_until(lambda: find_files("trains-*"), lambda files: len(files) == 2)
    with job_cluster.run_in_background("cancel", "canceled") as canceling:
        wait_until(lambda: find_files("saving-*"), lambda files: len(files) == 2)
        grace_periods = {pod["metadata"]["deletionGracePeriodSeconds"] for pod in job_cluster.pods("canceled", "worker")}
        assert grace_periods == {GRACE_SECONDS}
        assert canceling.poll() is None, "cancel ended although ranks still save"
        (trains[0].parent / "may-save").touch()
        out, err = canceling.communicate()
        assert canceling.returncode == 0, out + err
    assert [file.read_text() for file in find_files("saved-*")] == ["SIGUSR1", "SIGUSR1"]
    assert [job_cluster.pods("canceled", role) for role in ("launcher", "worker")] == [[], []]
    wait_until(lambda: job_cluster.find_leftovers("canceled"), lambda left: left == [])

    again = job_cluster.cluster("submit", job, "--follow")
    assert again.code == 0, again.out + again.err
    assert {f"rank {rank} resumes after SIGUSR1" for rank in (0, 1)} <= set(again.out.splitlines())
