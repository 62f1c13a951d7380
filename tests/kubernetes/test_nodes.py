"""Instances of node groups become Kubernetes nodes as on EKS: status of the nodes, and pods that run on them."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import main
from localcloud.kubernetes.nodes import finding, gpus
from localcloud.machine import network
from localcloud.processes import ROOT
from testkit.eks_clusters import Account, Running
from testkit.node_groups import (
    FOREVER,
    NodeGroup,
    build_pod,
    build_pod_path,
    create_node_group,
    create_pods,
    get_name,
    is_ready,
    wait_for_output,
    wait_for_phase,
)
from testkit.waiting import wait_while

pytestmark = pytest.mark.xdist_group("kubernetes")

KUBELET_PORT = 10250
REACH = """
import json, socket, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
token = open(f"{folder}/token").read()
request = urllib.request.Request("https://kubernetes.default.svc/version", headers={"Authorization": f"Bearer {token}"})
version = json.load(urllib.request.urlopen(request, context=ssl.create_default_context(cafile=f"{folder}/ca.crt"), timeout=10))
peer = socket.create_connection(("PEER", 7000), timeout=10).recv(100).decode()
names = {name: socket.gethostbyname(name) for name in ("kubernetes.default.svc.cluster.local", "NODE")}
print(json.dumps({"version": version["gitVersion"], "peer": peer, "names": names, "own": socket.gethostname()}))
"""
SERVE = """
import socket
listener = socket.create_server(("", 7000))
while True:
    connection = listener.accept()[0]
    connection.sendall(socket.gethostname().encode())
    connection.close()
"""


@pytest.fixture(scope="module")
def busy_cluster(account: Account) -> Iterator[Running]:
    """A cluster that all tests in this module share."""
    cluster = account.create("busy")
    yield cluster
    cluster.delete()


@pytest.fixture(scope="module")
def system_group(busy_cluster: Running) -> Iterator[NodeGroup]:
    with create_node_group(busy_cluster, "system", 1, "m5.large") as group:
        yield group


@pytest.fixture(scope="module")
def train_group(busy_cluster: Running, system_group: NodeGroup) -> Iterator[NodeGroup]:
    """Three GPU instances. This machine runs only two of its nodes as real nodes."""
    with create_node_group(busy_cluster, "train", 3, "p4d.24xlarge") as group:
        yield group


def test_a_node_group_is_active_when_its_nodes_are_ready(train_group: NodeGroup) -> None:
    assert train_group.describe()["status"] == "ACTIVE"
    assert [is_ready(node) for node in train_group.nodes()] == [True, True, True]


def test_a_node_reports_the_properties_of_its_instance(train_group: NodeGroup) -> None:
    instances = {item["PrivateDnsName"]: item for item in train_group.cluster.account.world.instances(train_group.describe())}
    assert {get_name(node) for node in train_group.nodes()} == set(instances)
    for node in train_group.nodes():
        instance, labels = instances[get_name(node)], node["metadata"]["labels"]
        assert node["spec"]["providerID"] == f"aws:///us-west-2a/{instance['InstanceId']}"
        assert {"type": "InternalIP", "address": instance["PrivateIpAddress"]} in node["status"]["addresses"]
        assert labels["eks.amazonaws.com/nodegroup"] == labels["gpumpi.io/pool"] == "train"
        assert labels["eks.amazonaws.com/capacityType"] == "ON_DEMAND"
        assert labels["eks.amazonaws.com/nodegroup-image"] == instance["ImageId"]
        assert labels["node.kubernetes.io/instance-type"] == "p4d.24xlarge"
        assert labels["kubernetes.io/hostname"] == get_name(node)
        zones = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "topology.k8s.aws/zone-id")
        assert [labels[zone] for zone in zones] == ["us-west-2a", "us-west-2", "usw2-az2"]
        assert {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]


def test_a_node_has_the_memory_hugepages_and_pod_capacity_of_its_instance_type(train_group: NodeGroup) -> None:
    for node in train_group.list_real_nodes():
        capacity = node["status"]["capacity"]
        assert int(capacity["memory"].removesuffix("Ki")) == pytest.approx(1152 * 1024**2, rel=0.05)
        assert (capacity["hugepages-2Mi"], capacity["pods"]) == ("10256Mi", "250")
        assert int(node["status"]["allocatable"]["memory"].removesuffix("Ki")) < int(capacity["memory"].removesuffix("Ki"))


def test_nodes_beyond_the_limit_are_simulated_and_accept_no_ordinary_pod(busy_cluster: Running, train_group: NodeGroup) -> None:
    (simulated,) = [node for node in train_group.nodes() if node not in train_group.list_real_nodes()]
    assert {"key": "gpumpi.dev/simulated", "value": "true", "effect": "NoSchedule"} in simulated["spec"]["taints"]
    assert simulated["status"]["capacity"]["cpu"] == "96"
    assert simulated["status"]["capacity"]["nvidia.com/gpu"] == "8"
    with create_pods(busy_cluster, build_pod("ordinary", node=simulated)):
        waiting = wait_while(
            lambda: busy_cluster.api.get(build_pod_path("ordinary")), lambda each: "conditions" not in each["status"]
        )
        assert waiting["status"]["phase"] == "Pending"
        assert "untolerated taint(s)" in waiting["status"]["conditions"][0]["message"]


def test_a_pod_reaches_pods_on_other_nodes_the_api_server_and_dns_names(busy_cluster: Running, train_group: NodeGroup) -> None:
    first, second = train_group.list_real_nodes()
    with create_pods(busy_cluster, build_pod("serving", SERVE, node=first)):
        address = wait_for_phase(busy_cluster, "serving", "Running")["status"]["podIP"]
        with create_pods(
            busy_cluster, build_pod("asking", REACH.replace("PEER", address).replace("NODE", get_name(second)), node=second)
        ):
            said = wait_for_output(busy_cluster, "asking")
    assert said["peer"] == "serving", "pods reach each other across two nodes"
    assert said["version"] == "v1.35.0", "pods reach the API server through its service and kube-proxy"
    host = get_name(second).split(".")[0].removeprefix("ip-").replace("-", ".")
    assert said["names"] == {"kubernetes.default.svc.cluster.local": "172.20.0.1", get_name(second): host}


def test_a_service_reaches_pods_on_every_node(busy_cluster: Running, train_group: NodeGroup) -> None:
    first, second = train_group.list_real_nodes()
    service = {"metadata": {"name": "both"}, "spec": {"selector": {"part": "both"}, "ports": [{"port": 7000}]}}
    servers = [build_pod(f"server-{number}", SERVE, node=node) for number, node in enumerate((first, second))]
    for server in servers:
        server["metadata"]["labels"]["part"] = "both"
    program = """
import json, socket, time
seen = set()
while len(seen) < 2:
    try:
        seen.add(socket.create_connection(("both", 7000), timeout=2).recv(100).decode())
    except OSError:
        time.sleep(0.2)
print(json.dumps(sorted(seen)))
"""
    busy_cluster.api.create("/api/v1/namespaces/default/services", service)
    try:
        with create_pods(busy_cluster, *servers, build_pod("client", program, node=first)):
            assert wait_for_output(busy_cluster, "client") == ["server-0", "server-1"]
    finally:
        busy_cluster.api.delete("/api/v1/namespaces/default/services/both")


def test_a_pod_can_use_the_memory_and_hugepages_of_its_instance_type(busy_cluster: Running, train_group: NodeGroup) -> None:
    amounts = {"memory": "900Gi", "hugepages-2Mi": "5Gi"}
    container = {"resources": {"requests": {"cpu": "100m", **amounts}, "limits": amounts}}
    with create_pods(busy_cluster, build_pod("large", node=train_group.list_real_nodes()[0], container=container)):
        assert wait_for_phase(busy_cluster, "large", "Running")["spec"]["containers"][0]["resources"]["limits"] == amounts


def test_a_pod_with_a_missing_image_has_reason_err_image_pull(busy_cluster: Running, system_group: NodeGroup) -> None:
    with create_pods(
        busy_cluster, build_pod("missing", container={"image": "ghcr.io/nobody/nothing:1"}, node=system_group.nodes()[0])
    ):

        def read_reason() -> str:
            states = busy_cluster.api.get(build_pod_path("missing"))["status"].get("containerStatuses", [])
            return str(states[0]["state"].get("waiting", {}).get("reason")) if states else ""

        assert wait_while(read_reason, lambda text: text in ("", "ContainerCreating")) in ("ErrImagePull", "ImagePullBackOff")


def test_a_device_plugin_advertises_gpus_and_efa_and_removes_a_broken_gpu(busy_cluster: Running, train_group: NodeGroup) -> None:
    """The device plugins run in DaemonSets like the upstream ones: with a host path, dropped capabilities and no
    arguments.
    """
    node = train_group.list_real_nodes()[0]
    resources = ("nvidia.com/gpu", "vpc.amazonaws.com/efa")
    assert not set(resources) & set(node["status"]["capacity"])
    images = (
        "nvcr.io/nvidia/k8s-device-plugin:v0.18.0",
        "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.13",
    )
    for name, image in zip(("gpu-plugin", "efa-plugin"), images, strict=True):
        busy_cluster.api.create("/apis/apps/v1/namespaces/kube-system/daemonsets", build_device_plugin(name, image))
    try:
        for each in train_group.list_real_nodes():
            path = f"/api/v1/nodes/{get_name(each)}"
            offered = wait_while(
                lambda path=path: busy_cluster.api.get(path)["status"]["allocatable"],
                lambda allocatable: [allocatable.get(name, "0") for name in resources] != ["8", "2"],
            )
            assert [offered[name] for name in resources] == ["8", "2"]
        limits = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "2"}
        program = "import json, os; print(json.dumps(os.environ['NVIDIA_VISIBLE_DEVICES'].split(',')))"
        with create_pods(busy_cluster, build_pod("with-gpus", program, container={"resources": {"limits": limits}}, node=node)):
            assert len(set(wait_for_output(busy_cluster, "with-gpus"))) == 8
        gpus.break_gpu(finding.find_real_node(busy_cluster.cloud.kubernetes_folder, get_name(node)), 5, 79)
        wait_while(lambda: read_gpus(busy_cluster, node), lambda number: number != "7")
    finally:
        for name in ("gpu-plugin", "efa-plugin"):
            busy_cluster.api.delete(f"/apis/apps/v1/namespaces/kube-system/daemonsets/{name}")


def test_a_broken_node_is_reported_and_can_be_restored(busy_cluster: Running, train_group: NodeGroup, tmp_path: Path) -> None:
    """The test checks the node's kubelet and network link directly: Kubernetes reports NotReady only 50 s after they
    fail."""
    node = train_group.list_real_nodes()[1]
    assert "AcceleratedHardwareReady" not in read_conditions(busy_cluster, node), "no condition without the add-on"
    eks, addon = busy_cluster.account.eks, {"clusterName": busy_cluster.name, "addonName": "eks-node-monitoring-agent"}
    eks.create_addon(**addon)
    try:
        wait_while(
            lambda: read_conditions(busy_cluster, node).get("AcceleratedHardwareReady"),
            lambda reason: reason != "NvidiaGPUIsReady",
        )
        assert break_node(busy_cluster, node, "--xid", "79")["gpu"] == 0
        wait_while(
            lambda: read_conditions(busy_cluster, node)["AcceleratedHardwareReady"], lambda reason: reason != "NvidiaXID79Error"
        )
        shown = read_health(busy_cluster, node, busy_cluster.write_kubeconfig(tmp_path / "kubeconfig"))
        assert (shown["state"], shown["pool"], shown["faults"][0]["reason"]) == ("broken", "train", "NvidiaXID79Error")
        assert shown["next"] == "EKS replaces it 10 min after the fault, or after `local clock --advance 10m`"
        assert {"node", "condition", "event"} <= {entry["source"] for entry in shown["history"]}
        for part in ("--kubelet", "--link"):
            assert is_reachable(busy_cluster, node)
            assert "--restore" in break_node(busy_cluster, node, part)["restore"]
            wait_while(lambda: is_reachable(busy_cluster, node), bool)
            break_node(busy_cluster, node, "--restore")
            wait_while(lambda: is_reachable(busy_cluster, node), lambda reachable: not reachable)
        assert all(cluster.is_healthy for cluster in busy_cluster.cloud.clusters())
    finally:
        eks.delete_addon(**addon)


def read_conditions(busy: Running, node: dict[str, Any]) -> dict[str, str]:
    conditions = busy.api.get(f"/api/v1/nodes/{get_name(node)}")["status"]["conditions"]
    return {condition["type"]: condition["reason"] for condition in conditions}


def break_node(busy: Running, node: dict[str, Any], *fault: str) -> Any:
    done = CliRunner().invoke(
        main.app, ["local", "break", get_name(node), *fault, "--json", "--home", str(busy.cloud.folder)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def read_health(busy: Running, node: dict[str, Any], kubeconfig: Path) -> Any:
    command = [ROOT / "scripts" / "cluster", "health", get_name(node), "--kubeconfig", kubeconfig, "--json"]
    done = subprocess.run(command, env=busy.cloud.process_environment(), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def is_reachable(busy: Running, node: dict[str, Any]) -> bool:
    """Return whether the node's kubelet accepts connections over the cluster network."""
    (namespace,) = [state.namespace for state in busy.cloud.clusters() if state.name == busy.name]
    (address,) = [entry["address"] for entry in node["status"]["addresses"] if entry["type"] == "InternalIP"]
    try:
        network.connect(namespace, address, KUBELET_PORT, 1.0).close()
    except OSError:
        return False
    return True


def read_gpus(busy: Running, node: dict[str, Any]) -> str:
    return str(busy.api.get(f"/api/v1/nodes/{get_name(node)}")["status"]["allocatable"].get("nvidia.com/gpu"))


def build_device_plugin(name: str, image: str) -> dict[str, Any]:
    folder = "/var/lib/kubelet/device-plugins"
    container = {
        "name": name,
        "image": image,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "device-plugin", "mountPath": folder}],
    }
    spec = {
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {"gpumpi.io/pool": "train"},
        "containers": [container],
        "volumes": [{"name": "device-plugin", "hostPath": {"path": folder}}],
    }
    labels = {"name": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def test_running_nodes_get_new_labels_and_taints_of_their_node_group(busy_cluster: Running, system_group: NodeGroup) -> None:
    taint = {"key": "team", "value": "a", "effect": "NO_EXECUTE"}
    system_group.update(
        "update_nodegroup_config", labels={"addOrUpdateLabels": {"team": "a"}}, taints={"addOrUpdateTaints": [taint]}
    )
    (node,) = wait_while(system_group.nodes, lambda nodes: nodes[0]["metadata"]["labels"].get("team") != "a")
    assert {"key": "team", "value": "a", "effect": "NoExecute"} in node["spec"]["taints"]
    system_group.update("update_nodegroup_config", labels={"removeLabels": ["team"]}, taints={"removeTaints": [taint]})
    (node,) = wait_while(system_group.nodes, lambda nodes: "team" in nodes[0]["metadata"]["labels"])
    assert "taints" not in node["spec"]


def test_kubectl_logs_and_kubectl_exec_work(busy_cluster: Running, system_group: NodeGroup, tmp_path: Path) -> None:
    with create_pods(busy_cluster, build_pod("talking", "print('hello', flush=True)\n" + FOREVER, node=system_group.nodes()[0])):
        wait_for_phase(busy_cluster, "talking", "Running")
        config = busy_cluster.write_kubeconfig(tmp_path / "config")
        wait_while(lambda: busy_cluster.kubectl(config, "logs", "talking").stdout, lambda text: text != "hello\n")
        assert busy_cluster.kubectl(config, "exec", "talking", "--", "echo", "from inside").stdout == "from inside\n"
