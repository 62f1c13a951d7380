"""Nodes join the cluster, and are drained, replaced or lost. The nodes leave nothing behind on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from infra.boot import eks_node
from localcloud.machine import network
from testkit.eks_clusters import Account, Running, find_cgroups
from testkit.node_groups import (
    NodeGroup,
    build_pod,
    build_pod_path,
    create_node_group,
    create_pods,
    find_daemon,
    get_name,
    is_ready,
    wait_for_phase,
)
from testkit.waiting import wait_while

UNREACHABLE = "node.kubernetes.io/unreachable"
REFUSED_LABELS = {"kubernetes.io/mine": "x"}
"""Labels that a kubelet may not set on its own node."""
REFUSAL = "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [kubernetes.io/mine]"
pytestmark = pytest.mark.xdist_group("kubernetes")


@pytest.fixture(scope="module")
def lifecycle_cluster(account: Account) -> Iterator[Running]:
    cluster = account.create("lively")
    yield cluster
    cluster.delete()


@pytest.fixture
def pool(lifecycle_cluster: Running) -> Iterator[NodeGroup]:
    """A node group of size 0."""
    with create_node_group(lifecycle_cluster, "pool", 0, "p4d.24xlarge") as group:
        yield group


def list_node_resources(cluster: Running) -> list[str]:
    """Return the nodes' resources on this machine: namespaces, cgroups, processes and folders."""
    namespace = cluster.state.namespace
    assert namespace is not None
    resources = [path.name for path in network.RUN.glob(f"{namespace}-*")]
    resources += find_cgroups(f"{namespace}-i-")
    resources += [process.name for process in cluster.state.processes if "ip-10-0-" in process.name]
    resources += [str(path) for path in cluster.folder.glob("nodes/*")]
    return resources


def test_a_node_group_scales_from_zero_and_back_to_zero(lifecycle_cluster: Running, pool: NodeGroup) -> None:
    assert list_node_resources(lifecycle_cluster) == []
    pool.scale(2)
    assert len(pool.list_real_nodes()) == 2
    assert list_node_resources(lifecycle_cluster), "check that running nodes have the traces that the test looks for"
    assert [is_ready(node) for node in pool.nodes()] == [True, True]
    pool.scale(0)
    wait_while(lambda: list_node_resources(lifecycle_cluster), bool)
    assert lifecycle_cluster.state.crashes == []


@pytest.mark.mission_only
def test_pods_are_evicted_before_their_node_is_deleted(lifecycle_cluster: Running, pool: NodeGroup) -> None:
    pool.scale(1)
    (node,) = pool.list_real_nodes()
    with create_pods(lifecycle_cluster, build_pod("moved", node=node, terminationGracePeriodSeconds=20)):
        wait_for_phase(lifecycle_cluster, "moved", "Running")
        watched = lifecycle_cluster.api.watch("/api/v1/namespaces/default/pods", fieldSelector="metadata.name=moved")
        next(watched)
        pool.update("update_nodegroup_config", scalingConfig={"minSize": 0, "maxSize": 4, "desiredSize": 0})
        last = next(event["object"] for event in watched if event["type"] == "DELETED")
    conditions = {condition["type"]: condition.get("reason") for condition in last["status"]["conditions"]}
    assert conditions["DisruptionTarget"] == "EvictionByEvictionAPI"
    state = last["status"]["containerStatuses"][0]["state"]
    assert state["terminated"]["exitCode"] == 0, "the pod had its grace period"
    wait_while(pool.nodes, bool)


@pytest.mark.mission_only
def test_a_pod_disruption_budget_delays_a_node_drain(lifecycle_cluster: Running, pool: NodeGroup) -> None:
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    budget = {"metadata": {"name": "all"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}}
    pool.scale(1)
    (node,) = pool.list_real_nodes()
    lifecycle_cluster.api.create(budgets, budget)
    try:
        with create_pods(lifecycle_cluster, build_pod("guarded", node=node)):
            wait_for_phase(lifecycle_cluster, "guarded", "Running")
            wait_while(
                lambda: lifecycle_cluster.api.get(f"{budgets}/all").get("status", {}).get("currentHealthy"), lambda n: n != 1
            )
            pool.start_update("update_nodegroup_config", scalingConfig={"minSize": 0, "maxSize": 4, "desiredSize": 0})
            wait_while(pool.nodes, lambda nodes: not nodes[0]["spec"].get("unschedulable"))
            assert pool.describe()["status"] == "UPDATING"
            assert is_ready(pool.nodes()[0])
            assert "deletionTimestamp" not in lifecycle_cluster.api.get(build_pod_path("guarded"))["metadata"]
            lifecycle_cluster.api.delete(f"{budgets}/all")
            pool.wait_until_settled("UPDATING")
            assert pool.nodes() == []
    finally:
        lifecycle_cluster.api.delete(f"{budgets}/all")


@pytest.mark.mission_only
def test_a_node_with_a_crashed_kubelet_is_not_ready_and_the_crash_is_reported(
    lifecycle_cluster: Running, pool: NodeGroup
) -> None:
    pool.scale(1)
    (node,) = pool.list_real_nodes()
    find_daemon(lifecycle_cluster, node, "kubelet").kill()
    crash = wait_while(lambda: lifecycle_cluster.state.crashes, lambda crashes: not crashes)[0]
    assert str(crash).startswith(f"kubelet-{get_name(node).split('.')[0]} was ended by SIGKILL; the end of ")
    wait_while(pool.nodes, lambda nodes: is_ready(nodes[0]))
    wait_while(lambda: {taint["key"] for taint in pool.nodes()[0]["spec"]["taints"]}, lambda keys: UNREACHABLE not in keys)
    pool.scale(0)
    wait_while(lambda: list_node_resources(lifecycle_cluster), bool)
    assert lifecycle_cluster.state.crashes == [], "deleted nodes are not reported as crashes"


def test_a_terminated_instance_is_replaced_and_its_node_removed(lifecycle_cluster: Running, pool: NodeGroup) -> None:
    pool.scale(1)
    (node,) = pool.list_real_nodes()
    instance = node["spec"]["providerID"].rsplit("/", 1)[1]
    lifecycle_cluster.account.world.ec2.terminate_instances(InstanceIds=[instance])
    wait_while(lambda: lifecycle_cluster.api.find(f"/api/v1/nodes/{get_name(node)}"), lambda remaining: remaining is not None)
    (other,) = wait_while(pool.list_real_nodes, lambda nodes: len(nodes) != 1 or not is_ready(nodes[0]))
    assert get_name(other) != get_name(node)


def create_template_version(cluster: Running, template: dict[str, Any], **data: Any) -> dict[str, Any]:
    """Create a new version of a launch template; return the reference that EKS accepts."""
    version = cluster.account.world.ec2.create_launch_template_version(
        LaunchTemplateId=template["id"], SourceVersion="1", LaunchTemplateData=data
    )
    return {"id": template["id"], "version": str(version["LaunchTemplateVersion"]["VersionNumber"])}


@pytest.mark.mission_only
def test_a_new_template_version_replaces_every_node_and_respects_disruption_budgets(
    lifecycle_cluster: Running, pool: NodeGroup
) -> None:
    pool.scale(2)
    before = {node["spec"]["providerID"] for node in pool.nodes()}
    with create_guarded_deployment(lifecycle_cluster, "served", replicas=2) as path:
        start = wait_while(
            lambda: lifecycle_cluster.api.get(path), lambda deployment: deployment["status"].get("availableReplicas") != 2
        )
        done = pool.update(
            "update_nodegroup_version",
            launchTemplate=create_template_version(lifecycle_cluster, pool.describe()["launchTemplate"]),
        )
        assert done["status"] == "Successful", done["errors"]
        wait_while(lambda: lifecycle_cluster.api.get(path), lambda deployment: deployment["status"].get("availableReplicas") != 2)
        events = lifecycle_cluster.api.watch(
            path.rpartition("/")[0],
            seconds=1,
            fieldSelector="metadata.name=served",
            resourceVersion=start["metadata"]["resourceVersion"],
        )
        available = [event["object"]["status"].get("availableReplicas", 0) for event in events]
    assert set(available) == {1, 2}, "one pod was moved at a time, and only while the other one was available"
    after = {node["spec"]["providerID"] for node in pool.nodes()}
    assert len(after) == 2 and not before & after
    assert [is_ready(node) for node in pool.list_real_nodes()] == [True, True], (
        "the recreated nodes are real nodes, like the original ones"
    )
    versions = {node["metadata"]["labels"]["eks.amazonaws.com/sourceLaunchTemplateVersion"] for node in pool.nodes()}
    assert versions == {"2"}


@pytest.mark.mission_only
def test_an_update_with_nodes_that_fail_to_join_fails_and_keeps_the_old_node(lifecycle_cluster: Running) -> None:
    template = create_custom_ami_template(lifecycle_cluster, "own", "p4d.24xlarge", {"gpumpi.io/pool": "own"})
    with create_node_group(lifecycle_cluster, "own", 1, "p4d.24xlarge", amiType="CUSTOM", launchTemplate=template) as group:
        (node,) = group.list_real_nodes()
        with create_pods(lifecycle_cluster, build_pod("working", node=node)):
            wait_for_phase(lifecycle_cluster, "working", "Running")
            reference = create_template_version(
                lifecycle_cluster, template, UserData=build_user_data(lifecycle_cluster, REFUSED_LABELS)
            )
            done = group.update("update_nodegroup_version", launchTemplate=reference)
            assert done["status"] == "Failed"
            (error,) = done["errors"]
            assert error["errorCode"] == "NodeCreationFailure"
            assert REFUSAL in error["errorMessage"]
            assert lifecycle_cluster.api.get(build_pod_path("working"))["status"]["phase"] == "Running"
        assert (group.describe()["status"], group.describe()["launchTemplate"]["version"]) == ("ACTIVE", "1")
        wait_while(lambda: [get_name(each) for each in group.nodes()], lambda names: names != [get_name(node)])


def build_user_data(cluster: Running, labels: dict[str, str]) -> str:
    """Return user data for a custom AMI whose kubelets register with these labels."""
    record = cluster.describe()
    access = eks_node.ClusterAccess(cluster.name, record["endpoint"], record["certificateAuthority"]["data"], "172.20.0.0/16")
    config = eks_node.build_node_config(raid0=False, pinned_memory=False, cluster=access, labels=labels)
    return eks_node.encode_base64(eks_node.render_user_data(config))


def create_custom_ami_template(cluster: Running, name: str, kind: str, labels: dict[str, str]) -> dict[str, Any]:
    world = cluster.account.world
    images = world.ec2.describe_images(Owners=["amazon"], Filters=[{"Name": "architecture", "Values": ["x86_64"]}])["Images"]
    template: dict[str, Any] = world.template(
        name, ImageId=images[0]["ImageId"], InstanceType=kind, UserData=build_user_data(cluster, labels)
    )
    return template


@contextmanager
def create_guarded_deployment(cluster: Running, name: str, replicas: int) -> Iterator[str]:
    """Create a Deployment whose disruption budget allows one unavailable pod; yield the Deployment's API path."""
    labels, pod = {"app": name}, build_pod(name)
    template = {"metadata": {"labels": labels}, "spec": {**pod["spec"], "restartPolicy": "Always"}}
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
def test_a_kubelet_that_rejects_its_user_data_fails_the_node_group_with_the_kubelet_error(lifecycle_cluster: Running) -> None:
    template = create_custom_ami_template(lifecycle_cluster, "refused", "m5.large", REFUSED_LABELS)
    with create_node_group(
        lifecycle_cluster, "refused", 1, "m5.large", amiType="CUSTOM", instanceTypes=None, launchTemplate=template
    ) as group:
        shown: Any = group.describe()
        assert shown["status"] == "CREATE_FAILED"
        (issue,) = shown["health"]["issues"]
        assert issue["code"] == "NodeCreationFailure"
        assert REFUSAL in issue["message"]
    wait_while(lambda: list_node_resources(lifecycle_cluster), bool)
