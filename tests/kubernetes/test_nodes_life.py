"""Nodes come, are drained, replaced, lost, and leave nothing behind."""

from collections.abc import Iterator
from typing import Any

import pytest

from infra.boot import eks_node
from localcloud.machine import network
from tests.kubernetes.node_groups import NodeGroup, daemon, is_ready, name_of, node_group, pod, pod_in, pod_path, pods
from tests.kubernetes.running import Account, Running, control_groups, wait_while

UNREACHABLE = "node.kubernetes.io/unreachable"
pytestmark = pytest.mark.xdist_group("kubernetes")


@pytest.fixture(scope="module")
def lively(account: Account) -> Iterator[Running]:
    made = account.create("lively")
    yield made
    made.delete()


@pytest.fixture
def pool(lively: Running) -> Iterator[NodeGroup]:
    """A node group without nodes."""
    with node_group(lively, "pool", 0, "p4d.24xlarge") as group:
        yield group


def held(cluster: Running) -> list[str]:
    """What nodes have on this machine: namespaces, control groups, processes, folders."""
    namespace = cluster.state.namespace
    assert namespace is not None
    found = [path.name for path in network.RUN.glob(f"{namespace}-*")]
    found += control_groups(f"{namespace}-i-")
    found += [process.name for process in cluster.state.processes if "ip-10-0-" in process.name]
    found += [str(path) for path in cluster.folder.glob("nodes/*")]
    return found


def test_a_group_grows_from_nothing_and_shrinks_to_nothing(lively: Running, pool: NodeGroup) -> None:
    assert held(lively) == []
    pool.scale(2)
    assert len(pool.real_nodes()) == 2
    assert held(lively), "what is looked for is there"
    assert [is_ready(node) for node in pool.nodes()] == [True, True]
    pool.scale(0)
    wait_while(lambda: held(lively), bool)
    assert lively.state.crashes == []


def test_pods_are_evicted_before_their_node_goes(lively: Running, pool: NodeGroup) -> None:
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
    assert state["terminated"]["exitCode"] == 0, "it had its time to end"
    wait_while(pool.nodes, bool)


def test_a_disruption_budget_keeps_a_node_until_it_allows(lively: Running, pool: NodeGroup) -> None:
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


def test_a_node_whose_kubelet_ends_is_not_ready_and_the_crash_is_told(lively: Running, pool: NodeGroup) -> None:
    pool.scale(1)
    (node,) = pool.real_nodes()
    daemon(lively, node, "kubelet").kill()
    crash = wait_while(lambda: lively.state.crashes, lambda crashes: not crashes)[0]
    assert str(crash).startswith(f"kubelet-{name_of(node).split('.')[0]} was ended by SIGKILL; the end of ")
    wait_while(pool.nodes, lambda nodes: is_ready(nodes[0]))
    wait_while(lambda: {taint["key"] for taint in pool.nodes()[0]["spec"]["taints"]}, lambda keys: UNREACHABLE not in keys)
    pool.scale(0)
    wait_while(lambda: held(lively), bool)
    assert lively.state.crashes == [], "of what is gone nobody complains"


def test_an_instance_that_is_terminated_is_lost_and_replaced(lively: Running, pool: NodeGroup) -> None:
    pool.scale(1)
    (node,) = pool.real_nodes()
    instance = node["spec"]["providerID"].rsplit("/", 1)[1]
    lively.account.world.ec2.terminate_instances(InstanceIds=[instance])
    wait_while(lambda: lively.api.find(f"/api/v1/nodes/{name_of(node)}"), lambda found: found is not None)
    (other,) = wait_while(pool.real_nodes, lambda nodes: len(nodes) != 1 or not is_ready(nodes[0]))
    assert name_of(other) != name_of(node)


def test_a_new_template_version_replaces_every_node(lively: Running, pool: NodeGroup) -> None:
    pool.scale(2)
    before = {node["spec"]["providerID"] for node in pool.nodes()}
    ec2, template = lively.account.world.ec2, pool.describe()["launchTemplate"]
    ec2.create_launch_template_version(
        LaunchTemplateId=template["id"], SourceVersion="1", LaunchTemplateData={"EbsOptimized": True}
    )
    done = pool.update("update_nodegroup_version", launchTemplate={"id": template["id"], "version": "2"})
    assert done["status"] == "Successful", done["errors"]
    after = {node["spec"]["providerID"] for node in pool.nodes()}
    assert len(after) == 2 and not before & after
    assert [is_ready(node) for node in pool.real_nodes()] == [True, True], "the new ones are as real as the old ones were"
    versions = {node["metadata"]["labels"]["eks.amazonaws.com/sourceLaunchTemplateVersion"] for node in pool.nodes()}
    assert versions == {"2"}


def test_a_kubelet_that_refuses_its_boot_text_fails_the_node_group_with_its_own_words(lively: Running) -> None:
    record = lively.describe()
    config = eks_node.node_config(
        raid0=False,
        pinned_memory=False,
        cluster=eks_node.ClusterAccess(lively.name, record["endpoint"], record["certificateAuthority"]["data"], "172.20.0.0/16"),
        labels={"kubernetes.io/mine": "x"},
    )
    text = eks_node.encoded(eks_node.user_data(config))
    images = lively.account.world.ec2.describe_images(Owners=["amazon"], Filters=[{"Name": "architecture", "Values": ["x86_64"]}])
    template = lively.account.world.template(
        "refused", ImageId=images["Images"][0]["ImageId"], InstanceType="m5.large", UserData=text
    )
    with node_group(lively, "refused", 1, "m5.large", amiType="CUSTOM", instanceTypes=None, launchTemplate=template) as group:
        shown: Any = group.describe()
        assert shown["status"] == "CREATE_FAILED"
        (issue,) = shown["health"]["issues"]
        assert issue["code"] == "NodeCreationFailure"
        assert "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [kubernetes.io/mine]" in issue["message"]
    wait_while(lambda: held(lively), bool)
