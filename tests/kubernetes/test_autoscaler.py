"""The autoscaler emulator in a pod, with the permissions, Pod Identity credentials and group tags of the real
autoscaler.
"""

import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from infra import naming
from infra.components import iam, trust_policies
from infra.components.iam import Account as Owner
from infra.naming import AUTOSCALER_TAG, EFA_RESOURCE, GPU_RESOURCE, GPU_TAINT, Taint
from infra.platform import cluster_autoscaler
from localcloud.aws.account import ACCOUNT
from testkit.eks_clusters import REGION, Account, Running
from testkit.node_groups import NodeGroup, Object, build_pod, build_pod_path, create_node_group, create_pods, is_ready
from testkit.waiting import wait_until, wait_while

pytestmark = pytest.mark.xdist_group("kubernetes")

NAME, SYSTEM = "cluster-autoscaler", "kube-system"
IMAGE = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0"
EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture(scope="module")
def autoscaled_cluster(account: Account) -> Iterator[Running]:
    """A cluster with a system node, device plugins and the autoscaler."""
    cluster = account.create("scaled")
    account.eks.create_addon(clusterName=cluster.name, addonName="eks-pod-identity-agent")
    role = create_role(cluster)
    account.eks.create_pod_identity_association(clusterName=cluster.name, namespace=SYSTEM, serviceAccount=NAME, roleArn=role)
    with create_node_group(cluster, "system", 1, "m5.large") as group:
        assert group.describe()["status"] == "ACTIVE", group.describe()["health"]
        for each in (*list_rbac_objects(), *build_device_plugins(), build_deployment(cluster)):
            cluster.api.apply(each)
        path = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/{NAME}"
        wait_while(lambda: cluster.api.get(path)["status"].get("readyReplicas"), lambda ready: ready != 1)
        yield cluster
    cluster.delete()


def create_role(cluster: Running) -> str:
    """Create the autoscaler's role with the program's policies; return its ARN."""
    owner = Owner(ACCOUNT, REGION, "aws")
    trust = trust_policies.build_pod_trust_policy(owner, cluster.name, SYSTEM, NAME)
    client = cluster.account.client("iam")
    role = client.create_role(RoleName="autoscaler", AssumeRolePolicyDocument=iam.to_json(trust))["Role"]["Arn"]
    policy = iam.to_json(iam.allow_node_group_scaling(owner, cluster.name, AUTOSCALER_TAG))
    client.put_role_policy(RoleName="autoscaler", PolicyName="scale", PolicyDocument=policy)
    return str(role)


def list_rbac_objects() -> Iterator[Object]:
    """Yield exactly the Kubernetes permissions that the platform grants the real autoscaler."""
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    subjects = [{"kind": "ServiceAccount", "name": NAME, "namespace": SYSTEM}]
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": SYSTEM}}
    for kind, rules, where in (
        ("ClusterRole", cluster_autoscaler._build_cluster_rules(), {}),
        ("Role", cluster_autoscaler._build_status_rules(), {"namespace": SYSTEM}),
    ):
        metadata = {"name": NAME, **where}
        plain = [{_to_camel_case(key): value for key, value in rule.items()} for rule in rules]
        yield {**rbac, "kind": kind, "metadata": metadata, "rules": plain}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME}
        yield {**rbac, "kind": f"{kind}Binding", "metadata": metadata, "roleRef": reference, "subjects": subjects}


def _to_camel_case(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word.title() for word in rest)


def build_deployment(cluster: Running) -> Object:
    """Return the platform's autoscaler Deployment, with shorter timeouts."""
    flags = [
        "--cloud-provider=aws",
        f"--node-group-auto-discovery=asg:tag={AUTOSCALER_TAG}/enabled,{AUTOSCALER_TAG}/{cluster.name}",
        "--aws-use-static-instance-list=false",
        "--skip-nodes-with-local-storage=false",
        "--scan-interval=1s",
        "--local-gpu-pod-delay=0s",
        "--scale-down-unneeded-time=3s",
        "--scale-down-delay-after-add=3s",
        "--v=4",
    ]
    probe = {"httpGet": {"path": "/health-check", "port": 8085}, "periodSeconds": 1}
    container = {
        "name": NAME,
        "image": IMAGE,
        "command": ["./cluster-autoscaler", *flags],
        "readinessProbe": probe,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    spec = {"serviceAccountName": NAME, "nodeSelector": {"gpumpi.io/pool": "system"}, "containers": [container]}
    return build_workload("Deployment", NAME, spec, replicas=1)


def build_device_plugins() -> Iterator[Object]:
    for name, image in (
        ("gpu-plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.18.0"),
        ("efa-plugin", "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.13"),
    ):
        folder = "/var/lib/kubelet/device-plugins"
        mount = {"name": "device-plugin", "mountPath": folder}
        spec = {
            "tolerations": [{"operator": "Exists"}],
            "nodeSelector": {naming.GPU_LABEL: "true"},
            "containers": [{"name": name, "image": image, "volumeMounts": [mount]}],
            "volumes": [{"name": "device-plugin", "hostPath": {"path": folder}}],
        }
        yield build_workload("DaemonSet", name, spec)


def build_workload(kind: str, name: str, spec: Object, **settings: Any) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    metadata = {"name": name, "namespace": SYSTEM}
    workload_spec = {"selector": {"matchLabels": labels}, "template": template, **settings}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": workload_spec}


@pytest.fixture
def train_group(autoscaled_cluster: Running, request: pytest.FixtureRequest) -> Iterator[NodeGroup]:
    """A GPU pool without nodes. Each test adds the Pulumi program's tags with `tag`, which can omit a tag."""
    name = f"train-{zlib.crc32(request.node.name.encode()):x}"
    labels = naming.build_pool_labels("train", accelerator="nvidia-a100", efa=True)
    sizes = {"minSize": 0, "maxSize": 2, "desiredSize": 0}
    with create_node_group(autoscaled_cluster, name, 0, "p4d.24xlarge", labels=labels, scalingConfig=sizes) as group:
        yield group


def tag_group(group: NodeGroup, *, without: str = "", taints: tuple[Taint, ...] = (GPU_TAINT,)) -> None:
    labels = naming.build_pool_labels("train", accelerator="nvidia-a100", efa=True)
    resources = {EFA_RESOURCE: "2", "hugepages-2Mi": "10Gi"}
    tags = naming.build_autoscaler_tags(group.cluster.name, labels=labels, taints=taints, resources=resources)
    remaining_tags = {key: value for key, value in tags.items() if not (without and key.endswith(without))}
    assert len(remaining_tags) == len(tags) - bool(without)
    name = group.describe()["resources"]["autoScalingGroups"][0]["name"]
    group.cluster.account.client("autoscaling").create_or_update_tags(
        Tags=[
            {"ResourceId": name, "ResourceType": "auto-scaling-group", "Key": key, "Value": value, "PropagateAtLaunch": False}
            for key, value in remaining_tags.items()
        ]
    )


def build_worker(name: str, **spec: Any) -> Object:
    """Return a pod that requests all GPUs of a node."""
    limits = {GPU_RESOURCE: "8", EFA_RESOURCE: "2"}
    return build_pod(name, nodeSelector={"gpumpi.io/pool": "train"}, container={"resources": {"limits": limits}}, **spec)


def read_sizes(group: NodeGroup) -> tuple[int, int]:
    """Return the desired size in AWS and the number of ready nodes."""
    name = group.describe()["resources"]["autoScalingGroups"][0]["name"]
    client = group.cluster.account.client("autoscaling")
    (auto_scaling_group,) = client.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
    nodes = [node for node in group.nodes() if is_ready(node)]
    return int(auto_scaling_group["DesiredCapacity"]), len(nodes)


def test_pending_pods_scale_a_pool_from_zero_to_two_and_idle_nodes_are_removed(
    autoscaled_cluster: Running, train_group: NodeGroup
) -> None:
    tag_group(train_group)
    workers = [build_worker("worker-0"), build_worker("worker-1")]
    with create_pods(autoscaled_cluster, *workers):
        for name in ("worker-0", "worker-1"):
            wait_while(
                lambda name=name: autoscaled_cluster.api.get(build_pod_path(name))["status"]["phase"],
                lambda phase: phase != "Running",
            )
        assert read_sizes(train_group) == (2, 2)
        assert list_events(autoscaled_cluster, "worker-0", "TriggeredScaleUp")
    wait_while(lambda: read_sizes(train_group), lambda sizes: sizes != (0, 0))
    assert read_log(autoscaled_cluster).count("the node is no longer needed") == 2


@pytest.mark.parametrize(
    ("name", "without", "reason"),
    [
        ("without-efa", f"resources/{EFA_RESOURCE}", f"no group has {EFA_RESOURCE}"),
        ("without-label", "label/gpumpi.io/pool", "no label gpumpi.io/pool=train"),
    ],
)
def test_a_pod_stays_pending_with_a_reason_if_an_autoscaler_tag_is_missing(
    autoscaled_cluster: Running, train_group: NodeGroup, name: str, without: str, reason: str
) -> None:
    tag_group(train_group, without=without)
    with create_pods(autoscaled_cluster, build_worker(name)):
        wait_for_event(autoscaled_cluster, name, reason)
        assert read_sizes(train_group) == (0, 0)
        assert reason in read_log(autoscaled_cluster)
        tag_group(train_group)
        wait_while(lambda: read_sizes(train_group)[0], lambda desired: desired != 1)


def test_a_pod_that_does_not_tolerate_the_tagged_taint_stays_pending(autoscaled_cluster: Running, train_group: NodeGroup) -> None:
    """The API server adds a toleration for the GPU taint to pods that request GPUs, but not for the team's taint."""
    tag_group(train_group, taints=(GPU_TAINT, Taint("team", "a")))
    with create_pods(autoscaled_cluster, build_worker("stranger", tolerations=[])):
        wait_for_event(autoscaled_cluster, "stranger", "untolerated taint {team: a}")
        assert read_sizes(train_group) == (0, 0)
        assert "untolerated taint {nvidia.com/gpu" not in str(list_events(autoscaled_cluster, "stranger", "NotTriggerScaleUp"))


def test_the_autoscaler_writes_its_status_to_the_same_config_map_as_upstream(autoscaled_cluster: Running) -> None:
    path = f"/api/v1/namespaces/{SYSTEM}/configmaps/cluster-autoscaler-status"
    config_map = wait_while(lambda: autoscaled_cluster.api.find(path), lambda config_map: config_map is None)
    assert "unschedulable pods: " in config_map["data"]["status"]
    assert "shortened: new pods with GPUs wait 0 s" in config_map["data"]["status"]


def wait_for_event(cluster: Running, name: str, reason: str) -> None:
    """Wait for an event that contains this reason.

    Earlier events can contain another reason, because the autoscaler may have listed the groups before the test tagged
    its own group.
    """
    wait_until(
        lambda: list_events(cluster, name, "NotTriggerScaleUp"), lambda messages: any(reason in message for message in messages)
    )


def list_events(cluster: Running, name: str, reason: str) -> list[str]:
    events = cluster.api.get(EVENTS, fieldSelector=f"involvedObject.name={name},reason={reason}")["items"]
    return sorted({event["message"] for event in events})


def read_log(cluster: Running) -> str:
    """The autoscaler's log."""
    (pod,) = cluster.api.get(f"/api/v1/namespaces/{SYSTEM}/pods", labelSelector=f"app={NAME}")["items"]
    path = f"/api/v1/namespaces/{SYSTEM}/pods/{pod['metadata']['name']}/log"
    status, text = wait_while(lambda: cluster.api._send_request("GET", path, None, {}), lambda answer: answer[0] >= 500)
    assert status == 200, text
    return str(text.decode())
