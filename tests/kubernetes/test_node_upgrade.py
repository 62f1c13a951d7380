"""Upgrade of a node group from Kubernetes 1.34 to 1.35, with the kubelet of each version."""

import pytest

from localcloud.instance import LocalCloud
from localcloud.kubernetes.nodes import kubelets
from localcloud.tools.build import ensure_tool
from localcloud.tools.catalogue import KUBELET, KUBELET_BEFORE
from testkit.eks_clusters import Account, Running
from testkit.node_groups import NodeGroup, build_pod, create_node_group, create_pods, wait_for_phase

pytestmark = [pytest.mark.xdist_group("kubernetes"), pytest.mark.mission_only]

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def list_kubelet_versions(group: NodeGroup) -> list[str]:
    return [node["status"]["nodeInfo"]["kubeletVersion"] for node in group.list_real_nodes()]


def block_eviction(cluster: Running, name: str) -> str:
    """Create a PodDisruptionBudget that never allows this pod's eviction, and return the budget's API path."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": name}}},
    }
    cluster.api.create(BUDGETS, budget)
    return f"{BUDGETS}/{name}"


def test_nodes_created_after_an_upgrade_run_the_new_kubelet_version(
    own_cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_tool(KUBELET_BEFORE, print)  # compiling the kubelet on the first run takes longer than the wait for a node group
    monkeypatch.setenv(kubelets.VARIABLE, "1.34")
    own_cloud.start(print, kubernetes=True)
    cluster = Account(own_cloud).create("upgraded", version="1.34")
    with create_node_group(cluster, "pool", 1, "p4d.24xlarge") as group:
        assert list_kubelet_versions(group) == [f"v{KUBELET_BEFORE.version}"]
        assert cluster.update("update_cluster_version", version="1.35") == "Successful"
        (node,) = group.list_real_nodes()
        guarded = build_pod("guarded", node=node)
        guarded["metadata"]["labels"] = {"app": "guarded"}
        with create_pods(cluster, guarded):
            wait_for_phase(cluster, "guarded", "Running")
            budget = block_eviction(cluster, "guarded")
            failed = group.update("update_nodegroup_version", version="1.35")
            assert [error["errorCode"] for error in failed["errors"]] == ["PodEvictionFailure"]
            assert (group.describe()["version"], group.describe()["status"]) == ("1.34", "ACTIVE")
            wait_for_phase(cluster, "guarded", "Running")
            cluster.api.delete(budget)
            done = group.update("update_nodegroup_version", version="1.35")
        assert done["status"] == "Successful", done["errors"]
        assert group.describe()["version"] == "1.35"
        assert list_kubelet_versions(group) == [f"v{KUBELET.version}"]
    cluster.delete()
