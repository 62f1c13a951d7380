"""Upgrade of a node group from Kubernetes 1.34 to 1.35, with the kubelet of each version."""

import pytest

from localcloud.instance import LocalCloud
from localcloud.kubernetes.nodes import kubelets
from localcloud.tools.build import ensure
from localcloud.tools.catalogue import KUBELET, KUBELET_BEFORE
from testkit.eks_clusters import Account, Running
from testkit.node_groups import NodeGroup, node_group, pod, pod_in, pods

pytestmark = [pytest.mark.xdist_group("kubernetes"), pytest.mark.mission_only]

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def kubelet_versions(group: NodeGroup) -> list[str]:
    return [node["status"]["nodeInfo"]["kubeletVersion"] for node in group.real_nodes()]


def guard(cluster: Running, name: str) -> str:
    """Create a PodDisruptionBudget that never allows this pod's eviction, and return the budget's API path."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": name}}},
    }
    cluster.api.create(BUDGETS, budget)
    return f"{BUDGETS}/{name}"


def test_new_nodes_run_the_kubelet_of_the_new_version(own_cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(KUBELET_BEFORE, print)  # compiling the kubelet on the first run takes longer than the wait for a node group
    monkeypatch.setenv(kubelets.VARIABLE, "1.34")
    own_cloud.start(print, kubernetes=True)
    cluster = Account(own_cloud).create("upgraded", version="1.34")
    with node_group(cluster, "pool", 1, "p4d.24xlarge") as group:
        assert kubelet_versions(group) == [f"v{KUBELET_BEFORE.version}"]
        assert cluster.update("update_cluster_version", version="1.35") == "Successful"
        (node,) = group.real_nodes()
        guarded = pod("guarded", node=node)
        guarded["metadata"]["labels"] = {"app": "guarded"}
        with pods(cluster, guarded):
            pod_in(cluster, "guarded", "Running")
            budget = guard(cluster, "guarded")
            failed = group.update("update_nodegroup_version", version="1.35")
            assert [error["errorCode"] for error in failed["errors"]] == ["PodEvictionFailure"]
            assert (group.describe()["version"], group.describe()["status"]) == ("1.34", "ACTIVE")
            pod_in(cluster, "guarded", "Running")
            cluster.api.delete(budget)
            done = group.update("update_nodegroup_version", version="1.35")
        assert done["status"] == "Successful", done["errors"]
        assert group.describe()["version"] == "1.35"
        assert kubelet_versions(group) == [f"v{KUBELET.version}"]
    cluster.delete()
