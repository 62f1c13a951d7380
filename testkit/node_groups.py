"""Node groups and pods of a running cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil

from infra.boot import eks_node
from infra.boot.eks_node import HUGE_PAGES
from testkit.eks_clusters import LIMIT_SECONDS, Running
from testkit.waiting import wait_while

Object = dict[str, Any]
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}
JOB_IMAGE = "registry.example.com/team/openmpi:4"
FOREVER = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(0)); signal.pause()"


@dataclass
class NodeGroup:
    """One node group."""

    cluster: Running
    name: str

    @property
    def eks(self) -> Any:
        return self.cluster.account.eks

    def describe(self) -> Object:
        record: Object = self.eks.describe_nodegroup(clusterName=self.cluster.name, nodegroupName=self.name)["nodegroup"]
        return record

    def wait_until_settled(self, passing: str = "CREATING") -> Object:
        group: Object = wait_while(self.describe, lambda record: record["status"] == passing)
        return group

    def start_update(self, operation: str, **change: Any) -> str:
        """Start an update and return its id."""
        names = {"clusterName": self.cluster.name, "nodegroupName": self.name}
        return str(getattr(self.eks, operation)(**names, **change)["update"]["id"])

    def update(self, operation: str, **change: Any) -> Object:
        """Run an update and wait until it completes."""
        look = {"name": self.cluster.name, "nodegroupName": self.name, "updateId": self.start_update(operation, **change)}
        done: Object = wait_while(
            lambda: self.eks.describe_update(**look)["update"], lambda update: update["status"] == "InProgress"
        )
        return done

    def scale(self, size: int) -> None:
        """Set the size through EKS, then wait until exactly that many nodes exist and are ready."""
        self.update("update_nodegroup_config", scalingConfig={"minSize": 0, "maxSize": 4, "desiredSize": size})
        wait_while(self.nodes, lambda nodes: len(nodes) != size or not all(map(is_ready, nodes)))

    def delete(self) -> None:
        missing = self.eks.exceptions.ResourceNotFoundException
        try:
            self.eks.delete_nodegroup(clusterName=self.cluster.name, nodegroupName=self.name)
            while True:
                self.wait_until_settled("DELETING")
        except missing:
            return

    def nodes(self) -> list[Object]:
        selector = f"eks.amazonaws.com/nodegroup={self.name}"
        nodes: list[Object] = self.cluster.api.get("/api/v1/nodes", labelSelector=selector)["items"]
        return sorted(nodes, key=lambda node: node["metadata"]["creationTimestamp"])

    def list_real_nodes(self) -> list[Object]:
        return [node for node in self.nodes() if "gpumpi.dev/simulated" not in node["metadata"]["labels"]]


@contextmanager
def create_node_group(cluster: Running, name: str, size: int, kind: str, **request: Any) -> Iterator[NodeGroup]:
    """Create a node group and delete it at the end. For an instance type p*, add EFA interfaces, huge pages and the GPU
    taint."""
    world, group = cluster.account.world, NodeGroup(cluster, name)
    gpu = kind.startswith("p")
    if gpu:
        template = request.get("launchTemplate") or create_gpu_template(cluster, name, kind)
        request = {**request, "launchTemplate": template, "taints": [GPU_TAINT]}
    else:
        request = {"instanceTypes": [kind], **request}
    sizes = {"minSize": 0, "maxSize": 4, "desiredSize": size}
    ami = "AL2023_x86_64_NVIDIA" if gpu else "AL2023_x86_64_STANDARD"
    asked = {"scalingConfig": sizes, "amiType": ami, "labels": {"gpumpi.io/pool": name}, **request}
    world.eks.create_nodegroup(**world.build_node_group_request(name, cluster.name, **{"subnets": world.subnets[:1], **asked}))
    try:
        group.wait_until_settled()
        yield group
    finally:
        group.delete()
        if gpu:
            world.ec2.delete_launch_template(LaunchTemplateName=name)


def create_gpu_template(cluster: Running, name: str, kind: str) -> Object:
    """Create a launch template with two EFA interfaces; return the reference that CreateNodegroup accepts."""
    config = eks_node.build_node_config(raid0=True, pinned_memory=True)
    interfaces = [
        {"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "interface"},
        {"DeviceIndex": 1, "NetworkCardIndex": 0, "InterfaceType": "efa-only"},
        {"DeviceIndex": 1, "NetworkCardIndex": 1, "InterfaceType": "efa-only"},
    ]
    text = eks_node.encode_base64(eks_node.render_user_data(config, huge_pages=HUGE_PAGES))
    return cluster.account.world.template(name, InstanceType=kind, UserData=text, NetworkInterfaces=interfaces)


def is_ready(node: Object) -> bool:
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in node["status"]["conditions"])


def get_name(item: Object) -> str:
    return str(item["metadata"]["name"])


def find_daemon(cluster: Running, node: Object, kind: str) -> psutil.Process:
    """Return the process of a real node's daemon, such as its kubelet."""
    server = cluster.find_process(f"{kind}-{get_name(node).split('.')[0]}")
    (process,) = psutil.Process(server.pid).children()
    return process


def build_pod(name: str, program: str = FOREVER, *, node: Object | None = None, **spec: Any) -> Object:
    """Return the manifest of a pod that runs a Python program in the job image."""
    container = {"name": "main", "image": JOB_IMAGE, "command": ["python3", "-c", program], **spec.pop("container", {})}
    if node is not None:
        spec["nodeSelector"] = {"kubernetes.io/hostname": get_name(node)}
    pod_spec = {"restartPolicy": "Never", "tolerations": [TOLERATION], "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": pod_spec}


def build_pod_path(name: str) -> str:
    return f"/api/v1/namespaces/default/pods/{name}"


@contextmanager
def create_pods(cluster: Running, *manifests: Object) -> Iterator[None]:
    """Create pods and delete them at the end."""
    try:
        for each in manifests:
            cluster.api.create("/api/v1/namespaces/default/pods", each)
        yield
    finally:
        for each in manifests:
            cluster.api.delete(build_pod_path(get_name(each)), gracePeriodSeconds=0)


def wait_for_phase(cluster: Running, name: str, *phases: str) -> Object:
    """Wait until the pod is in one of the phases; return the pod."""
    pod: Object = wait_while(
        lambda: cluster.api.get(build_pod_path(name)), lambda each: each["status"]["phase"] not in phases, seconds=LIMIT_SECONDS
    )
    return pod


def wait_for_output(cluster: Running, name: str) -> Any:
    """Wait until the pod has finished; return the JSON that it printed."""
    over = wait_for_phase(cluster, name, "Succeeded", "Failed")
    assert over["status"]["phase"] == "Succeeded", over["status"]
    return cluster.api.get(f"{build_pod_path(name)}/log")
