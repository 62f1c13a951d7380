"""A GPU fails during a job: the job finishes on another node, and the repaired node accepts jobs again."""

import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from infra.health import journal
from infra.naming import PLATFORM_NAMESPACE
from testkit.job_cluster import JobCluster, build_python_command, write_job_file
from testkit.projects import create_client
from testkit.waiting import wait_until
from tests.kubernetes.test_failures import TWICE, read_until

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("job_cleanup", "healthy_nodes")]


@pytest.fixture
def healthy_nodes(job_cluster: JobCluster) -> Iterator[None]:
    """Before the test, make the controller forget the nodes that other tests took out, because the controller's limit
    counts them. After the test, reboot nodes that are still cordoned. EKS would repair these nodes only after ten
    minutes.
    """
    forgotten = job_cluster.kubectl("delete", "configmap", journal.CONFIG_MAP, "-n", PLATFORM_NAMESPACE, "--ignore-not-found")
    assert forgotten.code == 0, forgotten.err
    yield
    for node in [row for row in job_cluster.cluster("health", "--json").json["nodes"] if row["cordoned"]]:
        create_client(job_cluster.cloud, "ec2").reboot_instances(InstanceIds=[node["instance"]])
        wait_until(partial(read_health, job_cluster, node["name"]), lambda health: health["state"] == "healthy")


def read_health(cluster: JobCluster, node: str) -> Any:
    result = cluster.cluster("health", node, "--json")
    assert result.code == 0, result.err
    return result.json


def test_a_job_leaves_a_broken_gpu_without_a_counted_failure_and_the_rebooted_node_is_verified(
    job_cluster: JobCluster, tmp_path: Path
) -> None:
    command = [*build_python_command(TWICE), f"moves-{secrets.token_hex(3)}"]
    file = write_job_file(tmp_path, "moves", command=command, workers=1, maxRestarts=0)
    with job_cluster.run_in_background("submit", file, "--follow") as process:
        assert process.stdout is not None
        read_until(process.stdout, "first attempt")
        (worker,) = job_cluster.pods("moves", "worker")
        broken = worker["spec"]["nodeName"]
        home = ("--home", str(job_cluster.cloud.folder))
        assert job_cluster.cluster("local", "break", broken, "--xid", "79", *home).code == 0
        assert broken not in read_until(process.stdout, "second attempt").split()
    (record,) = wait_until(
        lambda: [row for row in job_cluster.cluster("jobs", "--all", "--json").json if row["name"] == "moves"],
        lambda rows: bool(rows) and rows[0]["phases"][-1]["phase"] == "Succeeded",
    )
    assert (record["disruptions"], [attempt["outcome"] for attempt in record["attempts"]]) == (1, ["Disrupted", "Succeeded"])
    assert [container_exit["code"] for container_exit in record["attempts"][0]["exits"]] == [143], (
        "the launcher stopped because its only worker ends"
    )

    out = wait_until(lambda: read_health(job_cluster, broken), lambda health: health["state"] == "repairing")
    assert (out["cordoned"], out["takenOut"]["reason"]) == (True, "NvidiaXID79Error")
    assert [entry["text"].split(":")[0] for entry in out["history"] if entry["source"] == "controller"][:1] == [
        "taken out of service"
    ]

    create_client(job_cluster.cloud, "ec2").reboot_instances(InstanceIds=[out["instance"]])
    back = wait_until(lambda: read_health(job_cluster, broken), lambda health: health["state"] == "healthy")
    assert (back["cordoned"], back["gpus"]["usable"], back["takenOut"]) == (False, 1, None)
    assert job_cluster.cluster("delete", "moves").code == 0


@pytest.mark.mission_only
def test_a_job_moves_off_a_node_with_a_stopped_kubelet_even_if_its_ranks_still_run(
    job_cluster: JobCluster, tmp_path: Path
) -> None:
    command = [*build_python_command(TWICE), f"no-kubelet-{secrets.token_hex(3)}"]
    file = write_job_file(tmp_path, "no-kubelet", command=command, workers=1, maxRestarts=0)
    home = ("--home", str(job_cluster.cloud.folder))
    with job_cluster.run_in_background("submit", file, "--follow") as process:
        assert process.stdout is not None
        read_until(process.stdout, "first attempt")
        (worker,) = job_cluster.pods("no-kubelet", "worker")
        silent = worker["spec"]["nodeName"]
        assert job_cluster.cluster("local", "break", silent, "--kubelet", *home).code == 0
        try:
            assert silent not in read_until(process.stdout, "second attempt").split()
        finally:
            assert job_cluster.cluster("local", "break", silent, "--restore", *home).code == 0
    wait_until(lambda: read_health(job_cluster, silent)["state"], lambda state: state == "healthy")
    (record,) = [row for row in job_cluster.cluster("jobs", "--all", "--json").json if row["name"] == "no-kubelet"]
    assert record["disruptions"] == 1 and record["attempts"][0]["cause"].endswith(f"its node {silent} is not ready")
    assert job_cluster.cluster("delete", "no-kubelet").code == 0
