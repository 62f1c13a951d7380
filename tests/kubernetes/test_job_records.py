"""The job controller on a real cluster: job records outlive jobs, and whole jobs restart even if the controller is
killed."""

import re
import secrets
from pathlib import Path
from typing import Any

import pytest

from infra.naming import PLATFORM_NAMESPACE
from testkit.job_cluster import NAMESPACE, JobCluster, write_job_file
from testkit.projects import create_client
from testkit.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("job_controller", "job_cleanup")]

TORCHRUN = ["sh", "-c", 'torchrun() { python3 -u -c "$PROGRAM"; }; torchrun']
"""The image has no PyTorch, so a shell function replaces torchrun."""
FAILS_ONCE = """
import os, pathlib, signal, sys, time
folder, rank = pathlib.Path("/shared/records"), os.environ["JOB_COMPLETION_INDEX"]
if (folder / "failed").exists():
    (folder / f"again-{rank}").touch()
    while len(list(folder.glob("again-*"))) < 2:
        time.sleep(0.1)
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
"""In the first attempt, rank 0 fails and rank 1 waits forever. In the second attempt, the ranks wait for each other
like torchrun's agents, because a worker does not start once rank 0 has exited.
"""
CLEAN = "import pathlib, shutil; shutil.rmtree('/shared/records', ignore_errors=True)"


@pytest.fixture
def job_controller(job_cluster: JobCluster) -> None:
    deployments = job_cluster.list_objects("deployment", namespace=PLATFORM_NAMESPACE)
    assert any("job-controller" in deployment["metadata"]["name"] for deployment in deployments)


def list_records(cluster: JobCluster, name: str, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    listed = cluster.cluster("jobs", "--all", "--json", "--namespace", namespace)
    assert listed.code == 0, listed.err
    return [row for row in listed.json if row["name"] == name]


def kill_controller(cluster: JobCluster) -> None:
    """Delete the controller's pod without a grace period, as if its node were lost."""
    done = cluster.kubectl(
        "delete", "pods", "-n", PLATFORM_NAMESPACE, "-l", "app=gpumpi-job-controller", "--grace-period=0", "--force"
    )
    assert done.code == 0, done.err


def test_all_ranks_restart_together_and_the_record_outlives_controller_and_job(job_cluster: JobCluster, tmp_path: Path) -> None:
    job = write_job_file(
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

    wait_until(lambda: list_records(job_cluster, "records")[0]["phases"][-1]["phase"], lambda phase: phase == "Succeeded")
    (record,) = list_records(job_cluster, "records")
    failed, succeeded = record["attempts"]
    assert (failed["outcome"], succeeded["outcome"]) == ("Failed", "Succeeded")
    assert failed["cause"] == f"{zero}: exit code 7"
    assert set(failed["pods"]) == first and not set(succeeded["pods"]) & first, "both ranks are new"
    assert (record["restarts"], record["disruptions"], record["exitCode"]) == (1, 0, 0)
    assert record["setup"]["outcome"] == "Succeeded"
    assert record["gpuHours"] > 0 and len(record["workers"]) == 4
    order = [phase["phase"] for phase in record["phases"]]
    assert order[0] == "Queued" and "Setup" in order and order[-3:] == ["Restarting", "Running", "Succeeded"]

    assert job_cluster.cluster("cancel", "records").code == 0
    wait_until(lambda: job_cluster.find_leftovers("records"), lambda leftovers: leftovers == [])
    (final_record,) = list_records(job_cluster, "records")
    assert (final_record["phase"], final_record["attempts"]) == ("Succeeded", record["attempts"])
    deleted = job_cluster.cluster("delete", "records")
    assert deleted.out == "job records deleted, with 1 record\n", deleted.err
    assert list_records(job_cluster, "records") == []


@pytest.mark.mission_only
def test_a_no_retry_exit_code_ends_an_mpi_job_and_is_reported(job_cluster: JobCluster, tmp_path: Path) -> None:
    command = ["python3", "-c", "import sys; sys.exit(3)"]
    job = write_job_file(tmp_path, "unretried", command=command, maxRestarts=5, noRetryExitCodes=[3])
    done = job_cluster.cluster("submit", job, "--follow")
    assert done.code == 1, done.out
    assert "ended with exit code 3, which noRetryExitCodes lists" in done.err
    wait_until(lambda: list_records(job_cluster, "unretried")[0]["exitCode"], lambda code: code == 3)
    assert job_cluster.cluster("delete", "unretried").code == 0


def wait_for_end(cluster: JobCluster, name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    """Wait until a job has ended, and return its record."""
    (record,) = wait_until(
        lambda: list_records(cluster, name, namespace), lambda records: records and records[0]["phases"][-1]["to"]
    )
    return record


@pytest.mark.mission_only
def test_a_standalone_job_ends_after_its_last_restart(job_cluster: JobCluster, tmp_path: Path) -> None:
    command = ["python3", "-c", "import sys; sys.exit(4)"]
    job = write_job_file(tmp_path, "exhausted", launcher="standalone", command=command, maxRestarts=1)
    assert job_cluster.cluster("submit", job).code == 0
    record = wait_for_end(job_cluster, "exhausted")
    assert [(attempt["outcome"], attempt["exits"][0]["code"]) for attempt in record["attempts"]] == [("Failed", 4)] * 2
    assert re.fullmatch(
        r"the job failed 2 times, the last time with exhausted-launcher-\w+: exit code 4; maxRestarts is 1", record["reason"]
    )
    assert (record["phase"], record["restarts"], record["exitCode"]) == ("Failed", 1, 4)
    wait_until(lambda: job_cluster.pods("exhausted", "worker"), lambda pods: pods == [])


@pytest.mark.mission_only
def test_a_failed_setup_fails_the_job_and_is_recorded_in_its_namespace(job_cluster: JobCluster, tmp_path: Path) -> None:
    job = write_job_file(tmp_path, "unprepared", command=["true"], setup=["false"], maxRestarts=0, namespace="foreign")
    assert job_cluster.cluster("submit", job).code == 0
    record = wait_for_end(job_cluster, "unprepared", "foreign")
    assert (record["phase"], record["namespace"], record["attempts"], record["workers"]) == ("Failed", "foreign", [], [])
    assert record["reason"].startswith("setup failed: ")
    deleted = job_cluster.cluster("delete", "unprepared", "--namespace", "foreign")
    assert deleted.code == 0, deleted.err


@pytest.mark.mission_only
def test_a_job_deleted_with_kubectl_is_recorded_as_canceled(job_cluster: JobCluster, tmp_path: Path) -> None:
    job = write_job_file(tmp_path, "removed", command=["sleep", "1000"])
    assert job_cluster.cluster("submit", job).code == 0
    job_cluster.await_phase("removed", "Running")
    assert job_cluster.kubectl("delete", "mpijob", "removed", "-n", "mpi-jobs").code == 0
    record = wait_for_end(job_cluster, "removed")
    assert (record["phase"], record["reason"]) == ("Canceled", "the job was deleted before its end was recorded")
    assert all(worker["to"] for worker in record["workers"]) and len(record["workers"]) == 2


ONCE_MORE = """
import pathlib, signal, sys
from mpi4py import MPI
world, mark = MPI.COMM_WORLD, pathlib.Path("/shared") / sys.argv[1]
if not world.bcast(mark.exists()):
    world.rank == 0 and mark.touch()
    print("waits", flush=True)
    signal.pause()
world.Barrier()
world.rank == 0 and mark.unlink()
"""
"""In the first attempt, the ranks wait until they are killed. In the second attempt, they finish at once."""


@pytest.mark.mission_only
def test_a_lost_node_does_not_count_as_a_failure_even_if_the_controller_is_killed_repeatedly(
    job_cluster: JobCluster, tmp_path: Path
) -> None:
    job = write_job_file(tmp_path, "evicted", command=["python3", "-c", ONCE_MORE, secrets.token_hex(4)], maxRestarts=0)
    assert job_cluster.cluster("submit", job).code == 0
    job_cluster.await_phase("evicted", "Running")
    wait_until(lambda: job_cluster.cluster("logs", "evicted").out.count("waits"), lambda count: count == 2)
    node = job_cluster.pods("evicted", "worker")[-1]["spec"]["nodeName"]
    (provider_id,) = job_cluster.kubectl("get", "node", node, "-o", "jsonpath={.spec.providerID}").out.split()
    create_client(job_cluster.cloud, "ec2").terminate_instances(InstanceIds=[provider_id.rsplit("/", 1)[1]])

    def kill_and_read_phase() -> str:
        kill_controller(job_cluster)
        return job_cluster.read_phase("evicted")

    assert wait_until(kill_and_read_phase, lambda phase: phase in ("Succeeded", "Failed")) == "Succeeded"
    record = wait_for_end(job_cluster, "evicted")
    assert [attempt["outcome"] for attempt in record["attempts"]][-1] == "Succeeded"
    assert (record["failures"], record["phase"], record["exitCode"]) == (0, "Succeeded", 0) and record["disruptions"] >= 1
    assert {worker["uid"] for worker in record["workers"]} >= {
        pod["metadata"]["uid"] for pod in job_cluster.pods("evicted", "worker")
    }
