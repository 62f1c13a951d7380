"""Nodes join the cluster, and are drained, replaced or lost. They leave nothing behind on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from infra.boot import eks_node
from localcloud.machine import network
from testkit.eks_clusters import Account, Running, control_groups
from testkit.node_groups import NodeGroup, daemon, is_ready, name_of, node_group, pod, pod_in, pod_path, pods
from testkit.waiting import wait_while

UNREACHABLE = "node.kubernetes.io/unreachable"
REFUSED_LABELS = {"kubernetes.io/mine": "x"}
"""Labels that a kubelet may not set on its own node."""
REFUSAL = "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [kubernetes.io/mine]"
pytestmark = pytest.mark.xdist_group("kubernetes")


@pytest.fixture(scope="module")
def lively(account: Account) -> Iterator[Running]:
    made = account.create("lively")
    yield made
    made.delete()


@pytest.fixture
def pool(lively: Running) -> Iterator[NodeGroup]:
    """A node group of size 0."""
    with node_group(lively, "pool", 0, "p4d.24xlarge") as group:
        yield group


def held(cluster: Running) -> list[str]:
    """Return the nodes' resources on this machine: namespaces, cgroups, processes and folders."""
    namespace = cluster.state.namespace
    assert namespace is not None
    found = [path.name for path in network.RUN.glob(f"{namespace}-*")]
    found += control_groups(f"{namespace}-i-")
    found += [process.name for process in cluster.state.processes if "ip-10-0-" in process.name]
    found += [str(path) for path in cluster.folder.glob("nodes/*")]
    return found


def test_a_node_group_grows_from_zero_and_shrinks_to_zero(lively: Running, pool: NodeGroup) -> None:
    assert held(lively) == []
    pool.scale(2)
    assert len(pool.real_nodes()) == 2
    assert held(lively), "running nodes have the traces that the test looks for"
    assert [is_ready(node) for node in pool.nodes()] == [True, True]
    pool.scale(0)
    wait_while(lambda: held(lively), bool)
    assert lively.state.crashes == []


@pytest.mark.mission_only
def test_pods_are_evicted_before_their_node_is_deleted(lively: Running, pool: NodeGroup) -> None:
    pool.scale(1)
    (node,) = pool.real_nodes()
    with pods(lively, pod("moved", node=node, terminationGracePeriodSeconds=20)):
        pod_in(lively, "moved", "Running")
        watched = lively.api.watch("/api/v1/namespaces/default/pods", fieldSelector="metadata.name=moved")
        next(watched)
        pool.update("update_nodegroup_config", scalingConfig={"minSize": 0, "maxSize": 4, "desiredSize": 0})
        last = next(event["object"] for event in watched if event["type"] == "DELETED")
    conditions = {condition["type"]: condition.get("reason") for condition in last["status"]["conditions"]}
    assert conditions["DisruptionTarget"] == "EvictionByEvictionAPI"
    state = last["status"]["containerStatuses"][0]["state"]
    assert state["terminated"]["exitCode"] == 0, "the pod had its grace period"
    wait_while(pool.nodes, bool)


@pytest.mark.mission_only
def test_a_disruption_budget_delays_a_nodes_drain(lively: Running, pool: NodeGroup) -> None:
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    budget = {"metadata": {"name": "all"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}}
    pool.scale(1)
    (node,) = pool.real_nodes()
    lively.api.create(budgets, budget)
    try:
        with pods(lively, pod("guarded", node=node)):
            pod_in(lively, "guarded", "Running")
            wait_while(lambda: lively.api.get(f"{budgets}/all").get("status", {}).get("currentHealthy"), lambda n: n != 1)
            pool.begin("update_nodegroup_config", scalingConfig={"minSize": 0, "maxSize": 4, "desiredSize": 0})
            wait_while(pool.nodes, lambda nodes: not nodes[0]["spec"].get("unschedulable"))
            assert pool.describe()["status"] == "UPDATING"
            assert is_ready(pool.nodes()[0])
            assert "deletionTimestamp" not in lively.api.get(pod_path("guarded"))["metadata"]
            lively.api.delete(f"{budgets}/all")
            pool.settled("UPDATING")
            assert pool.nodes() == []
    finally:
        lively.api.delete(f"{budgets}/all")


@pytest.mark.mission_only
def test_a_node_whose_kubelet_crashes_is_not_ready_and_the_crash_is_reported(lively: Running, pool: NodeGroup) -> None:
    pool.scale(1)
    (node,) = pool.real_nodes()
    daemon(lively, node, "kubelet").kill()
    crash = wait_while(lambda: lively.state.crashes, lambda crashes: not crashes)[0]
    assert str(crash).startswith(f"kubelet-{name_of(node).split('.')[0]} was ended by SIGKILL; the end of ")
    wait_while(pool.nodes, lambda nodes: is_ready(nodes[0]))
    wait_while(lambda: {taint["key"] for taint in pool.nodes()[0]["spec"]["taints"]}, lambda keys: UNREACHABLE not in keys)
    pool.scale(0)
    wait_while(lambda: held(lively), bool)
    assert lively.state.crashes == [], "deleted nodes are not reported as crashes"


def test_an_instance_that_is_terminated_is_lost_and_replaced(lively: Running, pool: NodeGroup) -> None:
    pool.scale(1)
    (node,) = pool.real_nodes()
    instance = node["spec"]["providerID"].rsplit("/", 1)[1]
    lively.account.world.ec2.terminate_instances(InstanceIds=[instance])
    wait_while(lambda: lively.api.find(f"/api/v1/nodes/{name_of(node)}"), lambda found: found is not None)
    (other,) = wait_while(pool.real_nodes, lambda nodes: len(nodes) != 1 or not is_ready(nodes[0]))
    assert name_of(other) != name_of(node)


def new_version(cluster: Running, template: dict[str, Any], **data: Any) -> dict[str, Any]:
    """Create a new version of a launch template; return the reference that EKS accepts."""
    made = cluster.account.world.ec2.create_launch_template_version(
        LaunchTemplateId=template["id"], SourceVersion="1", LaunchTemplateData=data
    )
    return {"id": template["id"], "version": str(made["LaunchTemplateVersion"]["VersionNumber"])}


@pytest.mark.mission_only
def test_a_new_template_version_replaces_every_node_and_respects_disruption_budgets(lively: Running, pool: NodeGroup) -> None:
    pool.scale(2)
    before = {node["spec"]["providerID"] for node in pool.nodes()}
    with guarded_deployment(lively, "served", replicas=2) as path:
        start = wait_while(lambda: lively.api.get(path), lambda found: found["status"].get("availableReplicas") != 2)
        done = pool.update("update_nodegroup_version", launchTemplate=new_version(lively, pool.describe()["launchTemplate"]))
        assert done["status"] == "Successful", done["errors"]
        wait_while(lambda: lively.api.get(path), lambda found: found["status"].get("availableReplicas") != 2)
        seen = lively.api.watch(
            path.rpartition("/")[0],
            seconds=1,
            fieldSelector="metadata.name=served",
            resourceVersion=start["metadata"]["resourceVersion"],
        )
        available = [event["object"]["status"].get("availableReplicas", 0) for event in seen]
    assert set(available) == {1, 2}, "one pod moved at a time, and only while the other one was available"
    after = {node["spec"]["providerID"] for node in pool.nodes()}
    assert len(after) == 2 and not before & after
    assert [is_ready(node) for node in pool.real_nodes()] == [True, True], (
        "the recreated nodes are real nodes, like the original ones"
    )
    versions = {node["metadata"]["labels"]["eks.amazonaws.com/sourceLaunchTemplateVersion"] for node in pool.nodes()}
    assert versions == {"2"}


@pytest.mark.mission_only
def test_an_update_whose_nodes_do_not_join_fails_and_keeps_the_old_node(lively: Running) -> None:
    template = own_image_template(lively, "own", "p4d.24xlarge", {"gpumpi.io/pool": "own"})
    with node_group(lively, "own", 1, "p4d.24xlarge", amiType="CUSTOM", launchTemplate=template) as group:
        (node,) = group.real_nodes()
        with pods(lively, pod("working", node=node)):
            pod_in(lively, "working", "Running")
            wanted = new_version(lively, template, UserData=node_user_data(lively, REFUSED_LABELS))
            done = group.update("update_nodegroup_version", launchTemplate=wanted)
            assert done["status"] == "Failed"
            (error,) = done["errors"]
            assert error["errorCode"] == "NodeCreationFailure"
            assert REFUSAL in error["errorMessage"]
            assert lively.api.get(pod_path("working"))["status"]["phase"] == "Running"
        assert (group.describe()["status"], group.describe()["launchTemplate"]["version"]) == ("ACTIVE", "1")
        wait_while(lambda: [name_of(each) for each in group.nodes()], lambda names: names != [name_of(node)])


def node_user_data(cluster: Running, labels: dict[str, str]) -> str:
    """Return user data for a custom AMI whose kubelets register with these labels."""
    record = cluster.describe()
    access = eks_node.ClusterAccess(cluster.name, record["endpoint"], record["certificateAuthority"]["data"], "172.20.0.0/16")
    config = eks_node.node_config(raid0=False, pinned_memory=False, cluster=access, labels=labels)
    return eks_node.encoded(eks_node.user_data(config))


def own_image_template(cluster: Running, name: str, kind: str, labels: dict[str, str]) -> dict[str, Any]:
    world = cluster.account.world
    images = world.ec2.describe_images(Owners=["amazon"], Filters=[{"Name": "architecture", "Values": ["x86_64"]}])["Images"]
    made: dict[str, Any] = world.template(
        name, ImageId=images[0]["ImageId"], InstanceType=kind, UserData=node_user_data(cluster, labels)
    )
    return made


@contextmanager
def guarded_deployment(cluster: Running, name: str, replicas: int) -> Iterator[str]:
    """Create a Deployment whose disruption budget allows one unavailable pod; yield the Deployment's API path."""
    labels, one = {"app": name}, pod(name)
    template = {"metadata": {"labels": labels}, "spec": {**one["spec"], "restartPolicy": "Always"}}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    template["spec"]["topologySpreadConstraints"] = [spread]
    deployments, budgets = (
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    )
    selector = {"matchLabels": labels}
    cluster.api.create(budgets, {"metadata": {"name": name}, "spec": {"maxUnavailable": 1, "selector": selector}})
    try:
        spec = {"replicas": replicas, "selector": selector, "template": template}
        cluster.api.create(deployments, {"metadata": {"name": name}, "spec": spec})
        yield f"{deployments}/{name}"
    finally:
        cluster.api.delete(f"{deployments}/{name}")
        cluster.api.delete(f"{budgets}/{name}")


@pytest.mark.mission_only
def test_a_kubelet_that_rejects_its_user_data_fails_the_node_group_with_the_kubelets_error(lively: Running) -> None:
    template = own_image_template(lively, "refused", "m5.large", REFUSED_LABELS)
    with node_group(lively, "refused", 1, "m5.large", amiType="CUSTOM", instanceTypes=None, launchTemplate=template) as group:
        shown: Any = group.describe()
        assert shown["status"] == "CREATE_FAILED"
        (issue,) = shown["health"]["issues"]
        assert issue["code"] == "NodeCreationFailure"
        assert REFUSAL in issue["message"]
    wait_while(lambda: held(lively), bool)
