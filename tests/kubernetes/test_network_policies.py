"""Network policies on real nodes: allowed and blocked traffic of job pods, and a policy that breaks jobs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.naming import GPU_TAINT
from localcloud.kubernetes.network_policy.part import ENFORCED
from testkit.job_cluster import NAMESPACE, JobCluster, build_python_command, write_job_file
from testkit.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("enforced_policies", "job_cleanup")]

POLICY = "jobs-among-themselves"
NEIGHBOR = "neighbor"
EVERYTHING_BUT_SSH = [{"port": 1, "endPort": 2221}, {"port": 2223, "endPort": 65535}]


@pytest.fixture
def enforced_policies(job_cluster: JobCluster) -> None:
    (cluster,) = [state for state in job_cluster.cloud.clusters() if state.name == "gpumpi-jobs"]
    if cluster.network_policies != ENFORCED:
        pytest.skip(f"network policies are {cluster.network_policies}")


def read_policy(cluster: JobCluster) -> dict[str, Any]:
    policy: dict[str, Any] = cluster.kubectl("get", "networkpolicy", POLICY, "-n", NAMESPACE, "-o", "json").json
    return policy


def build_listener(name: str, image: str) -> dict[str, Any]:
    program = "import socket, signal; listening = socket.create_server(('', 7777)); signal.pause()"
    probe = {"tcpSocket": {"port": 7777}, "periodSeconds": 1}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NEIGHBOR, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"key": GPU_TAINT.key, "operator": "Exists"}],
            "containers": [{"name": "main", "image": image, "command": build_python_command(program), "readinessProbe": probe}],
        },
    }


def get_image_name(cluster: JobCluster, file: str) -> str:
    """Return the full name of a job's image."""
    manifest = cluster.cluster("submit", file, "--dry-run", "--json").json[0]
    (worker,) = manifest["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    return str(worker["image"])


@contextmanager
def create_neighbor(cluster: JobCluster, image: str) -> Iterator[dict[str, str]]:
    """Create another namespace with two pods that listen on port 7777. Yield the pods' addresses.

    The platform's network policy applies only to the pod `closed`.
    """
    closed = read_policy(cluster)["spec"] | {"podSelector": {"matchLabels": {"app": "closed"}}}
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": POLICY, "namespace": NEIGHBOR}}
    items = [policy | {"spec": closed}, build_listener("open", image), build_listener("closed", image)]
    assert cluster.kubectl("create", "namespace", NEIGHBOR).code == 0
    try:
        result = cluster.kubectl("create", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        assert result.code == 0, result.err
        ready = wait_until(lambda: list_addresses(cluster), lambda addresses: len(addresses) == 2)
        yield ready
    finally:
        cluster.kubectl("delete", "namespace", NEIGHBOR, "--wait=false")


def list_addresses(cluster: JobCluster) -> dict[str, str]:
    """Return the addresses of the ready pods, keyed by pod name. The kubelet's probes reach even a pod that allows no
    other ingress, so that pod becomes ready too."""
    pods = cluster.list_objects("pods", namespace=NEIGHBOR)
    ready = [pod for pod in pods if {"type": "Ready", "status": "True"}.items() <= find_ready_condition(pod).items()]
    return {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in ready}


def find_ready_condition(pod: dict[str, Any]) -> dict[str, Any]:
    conditions = pod["status"].get("conditions", ())
    return next(
        ({key: condition[key] for key in ("type", "status")} for condition in conditions if condition["type"] == "Ready"), {}
    )


PROBE = """
import json, socket, sys, time, urllib.error, urllib.request
def reaches(address, port, seconds=60):
    try:
        socket.create_connection((address, int(port)), timeout=seconds).close()
        return "reached"
    except TimeoutError:
        return "dropped"
    except OSError as error:
        return error.strerror
def settled(address, port):
    end = time.monotonic() + 60  # a new policy takes a moment
    while (found := reaches(address, port, 3)) == "reached" and time.monotonic() < end:
        time.sleep(0.1)
    return found
def answer(url):
    try:
        return urllib.request.urlopen(url, timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code
opened, closed = sys.argv[1:]
print("probed", json.dumps({
    "a pod without a policy": reaches(opened, 7777),
    "a pod of another namespace": settled(closed, 7777),
    "instance metadata": settled("169.254.169.254", 80),
    "control API": answer("http://169.254.100.1:4566/local-cloud/health"),
    "control API of the control plane": reaches("127.0.0.1", 4567),
    "webhook of the control plane": reaches("169.254.170.23", 23443),
    "etcd": reaches("169.254.100.1", 2379),
    "credentials of Pod Identity": reaches("169.254.170.23", 80),
    "AWS": reaches("169.254.100.1", 4566),
    "API server": reaches(socket.gethostbyname("kubernetes.default.svc.cluster.local"), 443),
}))
"""
REACHED = {
    "a pod without a policy": "reached",
    "a pod of another namespace": "dropped",
    "instance metadata": "dropped",
    "control API": 404,
    "control API of the control plane": "Connection refused",
    "webhook of the control plane": "Connection refused",
    "etcd": "Connection refused",
    "credentials of Pod Identity": "reached",
    "AWS": "reached",
    "API server": "reached",
}


def test_job_pods_reach_aws_and_the_api_server_but_not_other_jobs_or_the_control_api(
    job_cluster: JobCluster, tmp_path: Path
) -> None:
    with create_neighbor(
        job_cluster, get_image_name(job_cluster, write_job_file(tmp_path, "probe", command=build_python_command("")))
    ) as addresses:
        file = write_job_file(
            tmp_path, "probe", command=[*build_python_command(PROBE), addresses["open"], addresses["closed"]], ranks=1
        )
        done = job_cluster.cluster("submit", file, "--follow")
    assert done.code == 0, done.out + done.err
    (line,) = [line for line in done.out.splitlines() if line.startswith("probed ")]
    assert json.loads(line.removeprefix("probed ")) == REACHED


@pytest.mark.mission_only
def test_a_policy_that_blocks_ssh_between_ranks_fails_jobs_with_that_reason_until_its_removal(
    job_cluster: JobCluster, tmp_path: Path
) -> None:
    hello = build_python_command("from mpi4py import MPI; print('rank', MPI.COMM_WORLD.rank, flush=True)")
    quickly = {"ATTEMPTS": "1", "CONNECT_SECONDS": "5"}
    file = write_job_file(tmp_path, "no-ssh", command=hello, env=quickly, maxRestarts=0)
    usual = read_policy(job_cluster)["spec"]
    wrong = usual | {"ingress": [{"from": [{"podSelector": {}}], "ports": EVERYTHING_BUT_SSH}]}
    set_policy(job_cluster, wrong)
    try:
        done = job_cluster.cluster("submit", file, "--follow")
        assert done.code == 1, done.out + done.err
        assert "port 2222: Connection timed out" in done.out + done.err
    finally:
        set_policy(job_cluster, usual)
    assert job_cluster.cluster("cancel", "no-ssh").code == 0
    done = job_cluster.cluster("submit", file, "--follow")
    assert done.code == 0, done.out + done.err
    assert {"rank 0", "rank 1"} <= set(done.out.splitlines())


def set_policy(cluster: JobCluster, spec: dict[str, Any]) -> None:
    change = json.dumps({"spec": spec})
    done = cluster.kubectl("patch", "networkpolicy", POLICY, "-n", NAMESPACE, "--type=merge", "-p", change)
    assert done.code == 0, done.err
