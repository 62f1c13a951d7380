"""`scripts/cluster status` for a running cluster shows running and waiting jobs and failed launches on one screen."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testkit.job_cluster import SOURCE, STACK, JobCluster, build_python_command, write_job_file
from testkit.projects import create_client
from testkit.waiting import wait_until

pytestmark = pytest.mark.xdist_group("jobs")

FOREVER = build_python_command("import signal; print('runs', flush=True); signal.pause()")
OF_STACK = ("status", "-s", STACK, "--config-dir", str(SOURCE))
CAPACITY = "We currently do not have sufficient g5.8xlarge capacity in the Availability Zone you requested."
NO_AWS = {
    "AWS_ACCESS_KEY_ID": "",
    "AWS_SECRET_ACCESS_KEY": "",
    "AWS_SHARED_CREDENTIALS_FILE": "none",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(scope="module")
def two_jobs(job_cluster: JobCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobCluster]:
    """A running job that uses all GPUs, and a queued job that waits for them."""
    folder = tmp_path_factory.mktemp("two-jobs")
    names = ("works", "waits")
    try:
        for name, phase in zip(names, ("Running", "Queued"), strict=True):
            done = job_cluster.cluster("submit", write_job_file(folder, name, command=FOREVER))
            assert done.code == 0, done.err
            assert job_cluster.await_phase(name, phase) == phase
        yield job_cluster
    finally:
        for name in names:
            job_cluster.cluster("cancel", name)


@contextmanager
def exhaust_capacity(cluster: JobCluster) -> Iterator[None]:
    """Request a third node while AWS has no capacity."""
    autoscaling = create_client(cluster.cloud, "autoscaling")
    (group,) = [
        candidate
        for candidate in autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"]
        if "-train-" in candidate["AutoScalingGroupName"]
    ]
    name = group["AutoScalingGroupName"]
    fault = {"service": "ec2", "operation": "RunInstances", "code": "InsufficientInstanceCapacity", "message": CAPACITY}
    cluster.cloud.control().plan_fault(**fault, times=99)
    try:
        autoscaling.update_auto_scaling_group(AutoScalingGroupName=name, MaxSize=3, DesiredCapacity=3)
        yield
    finally:
        autoscaling.update_auto_scaling_group(AutoScalingGroupName=name, MaxSize=2, DesiredCapacity=2)
        cluster.cloud.control().clear_faults()


def find_pool(status: dict[str, Any], name: str = "train") -> dict[str, Any]:
    return next(pool for pool in status["pools"] if pool["name"] == name)


def test_status_shows_pools_queue_jobs_volumes_and_the_failed_launch(two_jobs: JobCluster) -> None:
    def is_settled(status: dict[str, Any]) -> bool:
        return find_pool(status)["lastFailedLaunch"] is not None

    with exhaust_capacity(two_jobs):
        cluster_status = wait_until(lambda: two_jobs.cluster(*OF_STACK, "--json").json, is_settled)
        printed = two_jobs.cluster(*OF_STACK)
    assert (cluster_status["cluster"], cluster_status["kind"], cluster_status["state"], cluster_status["unknown"]) == (
        "gpumpi-jobs",
        "eks",
        "ACTIVE",
        [],
    )
    train = find_pool(cluster_status)
    assert {key: train[key] for key in ("ready", "wanted", "maxSize", "gpusUsed", "gpusFree")} == {
        "ready": 2,
        "wanted": 3,
        "maxSize": 2,
        "gpusUsed": 2,
        "gpusFree": 0,
    }
    assert CAPACITY in train["lastFailedLaunch"]["reason"] and not train["lastFailedLaunch"]["laterLaunchSucceeded"]
    assert find_pool(cluster_status, "system")["lastFailedLaunch"] is None
    queues = [(queue["namespace"], queue["admitted"], queue["waiting"]) for queue in cluster_status["queues"]]
    assert queues == [("mpi-jobs", 1, 1), ("foreign", 0, 0)]
    jobs = {job["name"]: job for job in cluster_status["jobs"]}
    assert (jobs["works"]["phase"], jobs["works"]["waitsFor"], jobs["waits"]["phase"]) == ("Running", "", "Queued")
    assert "nvidia.com/gpu in flavor train, 2 more needed" in jobs["waits"]["waitsFor"]
    volumes = {(volume["namespace"], volume["mountPath"], volume["phase"]) for volume in cluster_status["volumes"]}
    assert volumes == {("mpi-jobs", "/shared", "Bound"), ("foreign", "/shared", "Bound")}
    assert printed.code == 0, printed.err
    assert "2 more nvidia.com/gpu of pool train needed" in printed.out
    assert "train: last failed launch" in printed.out and CAPACITY in printed.out


def test_status_with_only_a_kubeconfig_shows_everything_except_desired_sizes(two_jobs: JobCluster) -> None:
    """Without a stack, `status` makes no AWS calls."""
    done = two_jobs.cluster("status", "--json")
    assert done.code == 0, done.err
    train = find_pool(done.json)
    assert (train["ready"], train["gpusUsed"], train["wanted"], done.json["kind"]) == (2, 2, None, "")
    assert {job["phase"] for job in done.json["jobs"]} == {"Running", "Queued"}


def test_status_watch_refreshes_the_screen(two_jobs: JobCluster, tmp_path: Path) -> None:
    def list_job_names(status: dict[str, Any]) -> set[str]:
        return {job["name"] for job in status["jobs"]}

    with two_jobs.run_in_background("status", "--watch", "--json") as process:
        assert process.stdout is not None
        screens = map(json.loads, process.stdout)
        assert list_job_names(next(screens)) == {"works", "waits"}
        try:
            assert two_jobs.cluster("submit", write_job_file(tmp_path, "comes", command=FOREVER)).code == 0
            assert next(screen for screen in screens if list_job_names(screen) == {"works", "waits", "comes"})
        finally:
            two_jobs.cluster("cancel", "comes")
        assert next(screen for screen in screens if list_job_names(screen) == {"works", "waits"})


def test_status_without_kubernetes_access_shows_aws_data_and_the_reason(job_cluster: JobCluster, tmp_path: Path) -> None:
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text(re.sub(r"https://127.0.0.1:\d+", "https://127.0.0.1:1", job_cluster.kubeconfig.read_text()))
    done = job_cluster.cluster(*OF_STACK, "--kubeconfig", str(nowhere), "--json")
    assert done.code == 5
    assert (find_pool(done.json)["wanted"], find_pool(done.json)["ready"]) == (2, None)
    assert done.json["unknown"][0].startswith("ready nodes, queues, jobs and volumes: no cluster answers at https://")


def test_status_reports_missing_aws_access_and_a_wrong_cluster(job_cluster: JobCluster, tmp_path: Path) -> None:
    other = tmp_path / "Pulumi.other.yaml"
    other.write_text((SOURCE / f"Pulumi.{STACK}.yaml").read_text().replace("kind: eks", "kind: existing"))
    done = job_cluster.cluster("status", "-s", "other", "--config-dir", str(tmp_path))
    assert done.code == 3
    assert "the kubeconfig belongs to cluster gpumpi-jobs, not to gpumpi-other" in done.err
    refused = job_cluster.cluster(*OF_STACK, "--kubeconfig", str(job_cluster.kubeconfig), **NO_AWS)
    assert refused.code == 5 and "could not be loaded" in refused.err
