"""EKS clusters of the local AWS are real Kubernetes clusters, from creation to deletion."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from localcloud.control import ControlError
from localcloud.instance import LocalCloud
from localcloud.kubernetes.nodes.containerd import PAUSE_IMAGE
from localcloud.machine import network
from localcloud.processes import ROOT
from testkit.eks_clusters import PRIVATE, REGION, Account, Running, find_leftovers
from testkit.node_groups import NodeGroup, wait_for_phase
from testkit.waiting import retry_until_success, wait_while

pytestmark = pytest.mark.xdist_group("kubernetes")


def request_anonymously(cluster: Running, path: str, **headers: str) -> tuple[int, Any]:
    """Return the API server's answer to an anonymous request."""
    record = cluster.describe()
    context = ssl.create_default_context(cafile=cluster.folder / "pki" / "ca.crt")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    request = urllib.request.Request(record["endpoint"] + path, headers=headers)
    try:
        with opener.open(request, timeout=10) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_eks_reports_the_real_endpoint_and_certificate_authority_of_the_cluster(cluster: Running, tmp_path: Path) -> None:
    record = cluster.describe()
    assert urlsplit(record["endpoint"]).hostname == "127.0.0.1"
    config = cluster.write_kubeconfig(tmp_path / "config")
    server = json.loads(cluster.kubectl(config, "version", "--output", "json").stdout)["serverVersion"]
    assert server["gitVersion"] == "v1.35.0"
    assert cluster.kubectl(config, "get", "namespaces", "--output", "name").stdout.split() == [
        f"namespace/{name}" for name in ("default", "kube-node-lease", "kube-public", "kube-system")
    ]


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1/namespaces", "/healthz", "/readyz", "/version", "/openid/v1/jwks"])
def test_anonymous_requests_are_refused(cluster: Running, path: str) -> None:
    assert request_anonymously(cluster, path)[0] == 401
    assert request_anonymously(cluster, path, Authorization="Bearer k8s-aws-v1.invented")[0] == 401


def test_authorization_modes_are_node_and_rbac(cluster: Running) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "system:serviceaccount:default:default", "resourceAttributes": {"verb": "list", "resource": "secrets"}},
    }
    assert not cluster.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"]
    node = {"user": "system:node:a", "groups": ["system:nodes"], "resourceAttributes": {"verb": "list", "resource": "secrets"}}
    assert not cluster.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {**review, "spec": node})["status"][
        "allowed"
    ]


def test_service_names_resolve_through_the_dns_address_of_pods(cluster: Running) -> None:
    service = cluster.api.get("/api/v1/namespaces/kube-system/services/kube-dns")
    assert service["spec"]["clusterIP"] == "172.20.0.10"

    def resolve_address(name: str) -> str:
        query = b"\x00\x01\x01\x00\x00\x01" + b"\x00" * 6
        query += b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\x00\x00\x01\x00\x01"

        def send_dns_query() -> bytes:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
                asking.settimeout(5)
                asking.sendto(query, ("172.20.0.10", 53))
                return asking.recv(512)

        answer = network.run_in_namespace(cluster.state.namespace, send_dns_query)
        return socket.inet_ntoa(answer[-4:]) if answer[3] & 15 == 0 else f"rcode {answer[3] & 15}"

    assert resolve_address("kubernetes.default.svc.cluster.local") == "172.20.0.1"
    assert resolve_address("ip-10-0-1-2.us-west-2.compute.internal") == "10.0.1.2"
    assert resolve_address("example.com") == "rcode 3", "internet names do not resolve"


def test_the_vpc_reaches_aws_but_only_cluster_daemons_reach_their_control_api_paths(cluster: Running) -> None:
    def send_request(path: str, address: str = "169.254.100.1", port: int = 4566) -> bytes:
        with network.connect(cluster.state.namespace, address, port, 60) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {address}:{port}\r\n\r\n".encode())
            return b"".join(iter(lambda: connection.recv(4096), b""))

    own = f"/local-cloud/kubernetes/us-west-2/{cluster.name}/token-review"
    assert b"AccessDenied" in send_request("/some-bucket"), "S3 answers"
    assert b" 404 " in send_request("/local-cloud/health")
    assert b" 404 " in send_request(own)
    assert b" 404 " in send_request("/local-cloud/health", "127.0.0.1", 4567)
    assert b" 401 " in send_request(own, "127.0.0.1", 4567), "it needs the cluster's token"


def test_a_private_cluster_is_reachable_only_from_its_vpc_until_its_endpoint_is_public(account: Account) -> None:
    cluster = account.create("private", **PRIVATE)
    try:
        assert cluster.describe()["endpoint"] == "https://10.0.0.1:443"
        assert cluster.api.is_ready()
        assert "loopback" not in [process.name for process in cluster.state.processes]
        public = {"endpointPublicAccess": True, "publicAccessCidrs": ["203.0.113.7/32"]}
        assert cluster.update("update_cluster_config", resourcesVpcConfig=public) == "Successful"
        endpoint = cluster.describe()["endpoint"]
        assert request_anonymously(cluster, "/api")[0] == 401
        assert cluster.update("update_cluster_config", resourcesVpcConfig={"endpointPublicAccess": False}) == "Successful"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", urlsplit(endpoint).port or 0), timeout=5)
    finally:
        cluster.delete()


def test_deleting_one_of_two_clusters_does_not_affect_the_other(account: Account, cluster: Running) -> None:
    other = account.create("other")
    endpoints = {running.describe()["endpoint"] for running in (cluster, other)}
    assert len(endpoints) == 2
    assert len({running.describe()["certificateAuthority"]["data"] for running in (cluster, other)}) == 2
    other.api.create("/api/v1/namespaces", {"metadata": {"name": "only-here"}})
    assert cluster.api.find("/api/v1/namespaces/only-here") is None

    processes, folder, namespace = other.state.processes, other.folder, other.state.namespace
    other.delete()
    assert [process.name for process in processes if process.find_process() is not None] == []
    assert not folder.exists()
    assert namespace
    assert not network.build_namespace_path(namespace).exists()
    assert cluster.api.is_ready()


def test_an_upgrade_restarts_the_api_server_and_keeps_its_objects(account: Account) -> None:
    account.eks.create_cluster(
        name="older",
        version="1.34",
        roleArn=account.world.cluster_role,
        resourcesVpcConfig={"subnetIds": account.world.subnets},
    )
    cluster = Running(account, "older")
    cluster.wait_until_settled("CREATING")
    try:
        cluster.api.create("/api/v1/namespaces", {"metadata": {"name": "kept"}})
        before = cluster.find_process("kube-apiserver")
        assert cluster.update("update_cluster_version", version="1.35") == "Successful"
        assert cluster.describe()["version"] == "1.35"
        assert cluster.find_process("kube-apiserver").pid != before.pid
        assert before.find_process() is None
        assert cluster.api.find("/api/v1/namespaces/kept") is not None
        assert cluster.state.crashes == []
    finally:
        cluster.delete()


def test_eks_restarts_a_crashed_api_server(account: Account, cluster: Running) -> None:
    before = cluster.find_process("kube-apiserver")
    account.cloud.control().post(f"kubernetes/{REGION}/{cluster.name}/restart-api-server", {})
    wait_while(lambda: before.find_process(), bool)
    wait_while(cluster.api.is_ready, lambda ready: not ready)
    assert cluster.state.crashes == []
    with pytest.raises(ControlError, match="no cluster nobody is running in"):
        account.cloud.control().post(f"kubernetes/{REGION}/nobody/restart-api-server", {})


def assert_update_fails_with(cluster: Running, reason: str) -> None:
    """Check that an operation on a cluster with a dead process fails at once, instead of waiting for the process."""
    eks, logging = cluster.account.world.eks, {"clusterLogging": [{"types": ["api"], "enabled": True}]}
    update_id = eks.update_cluster_config(name=cluster.name, logging=logging)["update"]["id"]
    update = eks.describe_update(name=cluster.name, updateId=update_id)["update"]
    assert (update["status"], cluster.describe()["status"]) == ("Failed", "ACTIVE")
    assert reason in update["errors"][0]["errorMessage"]


def test_a_crashed_daemon_is_reported_with_the_last_lines_of_its_log(account: Account) -> None:
    cluster = account.create("broken")
    try:
        scheduler = cluster.find_process("kube-scheduler")
        with Path(scheduler.log).open("a") as log:
            log.write("its last words\n")
        os.kill(scheduler.pid, signal.SIGKILL)
        crash = wait_while(lambda: cluster.state.crashes, lambda crashes: not crashes)[0]
        assert str(crash).startswith(f"kube-scheduler was ended by SIGKILL; the end of {scheduler.log}:\n")
        assert str(crash).endswith("its last words")
        issue = wait_while(lambda: cluster.describe()["health"]["issues"], lambda issues: not issues)[0]
        assert issue["code"] == "InternalFailure"
        assert "its last words" in issue["message"]
        assert_update_fails_with(cluster, "its last words")
        said = subprocess.run(
            [sys.executable, "scripts/cluster", "local", "status", "--home", str(account.cloud.folder)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.returncode == 1
        assert "its last words" in said.stderr
    finally:
        cluster.delete()


def test_a_cluster_that_cannot_start_becomes_failed_with_the_reason(account: Account) -> None:
    cluster = account.start_creation("doomed")
    etcd = retry_until_success(lambda: cluster.find_process("etcd"), StopIteration)
    os.kill(etcd.pid, signal.SIGKILL)
    record = cluster.wait_until_settled("CREATING")
    assert record["status"] == "FAILED"
    assert record["health"]["issues"][0]["message"].startswith("etcd was ended by SIGKILL")
    cluster.delete()


@pytest.mark.mission_only
def test_a_reset_stops_a_cluster_that_is_still_starting(own_cloud: LocalCloud) -> None:
    own_cloud.start(print, kubernetes=True)
    Account(own_cloud).start_creation("short")
    own_cloud.reset()
    assert own_cloud.clusters() == []
    assert [line for line in find_leftovers(own_cloud) if "-m localcloud." not in line] == []
    again = Account(own_cloud).create("again")
    assert again.api.is_ready()


def create_busy_cluster(cloud: LocalCloud, name: str) -> Running:
    """Create a cluster with a node and a running pod."""
    cluster = Account(cloud).create(name)
    world = cluster.account.world
    asked = {"instanceTypes": ["m7i.large"], "subnets": world.subnets[:1]}
    sizes = {"minSize": 1, "maxSize": 1, "desiredSize": 1}
    world.eks.create_nodegroup(**world.build_node_group_request("system", name, scalingConfig=sizes, **asked))
    assert NodeGroup(cluster, "system").wait_until_settled()["status"] == "ACTIVE"
    container = {"name": "pause", "image": PAUSE_IMAGE}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "still"}, "spec": {"containers": [container]}}
    cluster.api.create("/api/v1/namespaces/default/pods", pod)
    wait_for_phase(cluster, "still", "Running")
    return cluster


def parse_kinds(lines: list[str]) -> set[str]:
    return {line.split()[0] for line in lines}


@pytest.mark.mission_only
def test_the_next_start_cleans_up_after_a_killed_local_cloud(own_cloud: LocalCloud) -> None:
    own_cloud.start(print, kubernetes=True)
    cluster = create_busy_cluster(own_cloud, "killed")
    assert parse_kinds(find_leftovers(own_cloud)) >= {"namespace", "control", "process"}, (
        "check that a running cloud has the traces that the test looks for"
    )
    orphans = cluster.state.processes
    for server in own_cloud.servers():
        os.kill(server.pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(server.pid) for server in own_cloud.servers() if server.find_process()])
    assert all(process.find_process() for process in orphans), "cluster processes outlive the local AWS"

    assert own_cloud.start(print, kubernetes=True)
    assert [process.name for process in orphans if process.find_process()] == []
    assert own_cloud.clusters() == []
    assert parse_kinds(find_leftovers(own_cloud)) == {"process"}, "only processes of the new local cloud remain"
    assert Account(own_cloud).create("killed").api.is_ready()


@pytest.mark.mission_only
def test_stop_leaves_no_processes_or_files_behind(own_cloud: LocalCloud) -> None:
    own_cloud.start(print, kubernetes=True)
    cluster = create_busy_cluster(own_cloud, "brief")
    processes = cluster.state.processes
    own_cloud.stop()
    assert [process.name for process in processes if process.find_process()] == []
    assert find_leftovers(own_cloud) == []
    assert not own_cloud.folder.exists()
