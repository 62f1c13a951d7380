"""The job controller on a real cluster: records that outlive jobs, and restarts of whole jobs, also when it is killed."""

from pathlib import Path
from typing import Any

import pytest

from infra.naming import PLATFORM_NAMESPACE
from testkit.job_cluster import JobCluster, job_file
from testkit.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("with_controller", "no_jobs_left")]

TORCHRUN = ["sh", "-c", 'torchrun() { python3 -u -c "$PROGRAM"; }; torchrun']
"""The image has no PyTorch. What starts the ranks does not matter here."""
FAILS_ONCE = """
import os, pathlib, signal, sys, time
folder, rank = pathlib.Path("/shared/records"), os.environ["JOB_COMPLETION_INDEX"]
if (folder / "failed").exists():
    sys.exit(0)
folder.mkdir(exist_ok=True)
(folder / rank).touch()
while not (folder / "go").exists():
    time.sleep(0.1)
if rank == "1":
    signal.pause()
(folder / "failed").touch()
sys.exit(7)
"""
"""In the first attempt, rank 0 fails, and rank 1 waits forever."""
CLEAN = "import pathlib, shutil; shutil.rmtree('/shared/records', ignore_errors=True)"


@pytest.fixture
def with_controller(job_cluster: JobCluster) -> None:
    found = job_cluster.objects("deployment", namespace=PLATFORM_NAMESPACE)
    if not any("job-controller" in one["metadata"]["name"] for one in found):
        pytest.skip("the cluster has no job controller: set platform.jobController in tests/kubernetes/data/Pulumi.jobs.yaml")


def rows(cluster: JobCluster, name: str) -> list[dict[str, Any]]:
    listed = cluster.cluster("jobs", "--all", "--json")
    assert listed.code == 0, listed.err
    return [one for one in listed.json if one["name"] == name]


def kill_controller(cluster: JobCluster) -> None:
    """Kill the controller's pod without a grace period, as a lost node would."""
    done = cluster.kubectl(
        "delete", "pods", "-n", PLATFORM_NAMESPACE, "-l", "app=gpumpi-job-controller", "--grace-period=0", "--force"
    )
    assert done.code == 0, done.err


def test_all_ranks_restart_together_and_the_record_outlives_controller_and_job(job_cluster: JobCluster, tmp_path: Path) -> None:
    job = job_file(
        tmp_path,
        "records",
        launcher="torchrun",
        command=TORCHRUN,
        env={"PROGRAM": FAILS_ONCE},
        setup=["python3", "-c", CLEAN],
        maxRestarts=1,
    )
    assert job_cluster.cluster("submit", job).code == 0
    job_cluster.await_phase("records", "Running")
    first = {pod["metadata"]["uid"] for pod in job_cluster.pods("records", "worker")}
    kill_controller(job_cluster)
    names = [pod["metadata"]["name"] for pod in job_cluster.pods("records", "worker")]
    zero = next(name for name in names if name.startswith("records-0"))
    done = job_cluster.kubectl(
        "exec", "-n", "mpi-jobs", zero, "--", "sh", "-c", "mkdir -p /shared/records; touch /shared/records/go"
    )
    assert done.code == 0, done.err
    assert job_cluster.await_phase("records", "Succeeded", "Failed") == "Succeeded"

    wait_until(lambda: rows(job_cluster, "records")[0]["phases"][-1]["phase"], lambda phase: phase == "Succeeded")
    (record,) = rows(job_cluster, "records")
    failed, succeeded = record["attempts"]
    assert (failed["outcome"], succeeded["outcome"]) == ("Failed", "Succeeded")
    assert failed["cause"] == f"{zero}: exit code 7"
    assert set(failed["pods"]) == first and not set(succeeded["pods"]) & first, "both ranks are new"
    assert (record["restarts"], record["disruptions"], record["exitCode"]) == (1, 0, 0)
    assert record["setup"]["outcome"] == "Succeeded"
    assert record["gpuHours"] > 0 and len(record["workers"]) == 4
    order = [one["phase"] for one in record["phases"]]
    assert order[0] == "Queued" and "Setup" in order and order[-3:] == ["Restarting", "Running", "Succeeded"]

    assert job_cluster.cluster("cancel", "records").code == 0
    assert job_cluster.remains("records") == []
    (kept,) = rows(job_cluster, "records")
    assert (kept["phase"], kept["attempts"]) == ("Succeeded", record["attempts"])
    deleted = job_cluster.cluster("delete", "records")
    assert deleted.out == "job records deleted, with 1 record\n", deleted.err
    assert rows(job_cluster, "records") == []


def test_an_exit_code_that_is_not_retried_ends_an_mpi_job_with_its_reason(job_cluster: JobCluster, tmp_path: Path) -> None:
    command = ["python3", "-c", "import sys; sys.exit(3)"]
    job = job_file(tmp_path, "unretried", command=command, maxRestarts=5, noRetryExitCodes=[3])
    done = job_cluster.cluster("submit", job, "--follow")
    assert done.code == 1, done.out
    assert "ended with exit code 3, which noRetryExitCodes lists" in done.err
    wait_until(lambda: rows(job_cluster, "unretried")[0]["exitCode"], lambda code: code == 3)
    assert job_cluster.cluster("delete", "unretried").code == 0
