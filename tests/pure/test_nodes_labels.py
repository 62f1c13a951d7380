"""Labels and taints of nodes, and how a node group update changes them."""

from typing import Any

import pytest

from infra.naming import EMULATED_LABEL
from localcloud.kubernetes.nodes import kubelet, labels, simulated
from localcloud.kubernetes.nodes.labels import Taint
from tests.pure import node_world

GROUP: dict[str, Any] = {
    "labels": {"team": "a"},
    "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
    "launchTemplate": {"id": "lt-1", "name": "x", "version": "3"},
}


def test_a_node_is_born_with_its_pool_its_type_and_its_place() -> None:
    born = labels.at_registration(node_world.machine())
    assert born.items() >= node_world.LABELS.items()
    assert born["node.kubernetes.io/instance-type"] == "p4d.24xlarge"
    assert (born["topology.kubernetes.io/region"], born["topology.kubernetes.io/zone"]) == ("us-west-2", "us-west-2a")


def test_a_node_with_devices_says_that_they_are_emulated() -> None:
    assert labels.at_registration(node_world.machine())[EMULATED_LABEL] == "true"
    without = node_world.machine(kind="m5.xlarge", NetworkInterfaces=[{"InterfaceType": "interface"}])
    assert EMULATED_LABEL not in labels.at_registration(without)


def test_a_kubelet_is_given_no_label_that_it_may_not_set() -> None:
    """https://github.com/kubernetes/kubernetes/blob/v1.35.0/staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go"""
    allowed = {
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        *(f"failure-domain.beta.kubernetes.io/{part}" for part in ("zone", "region")),
        *(f"topology.kubernetes.io/{part}" for part in ("zone", "region")),
    }
    restricted = {
        key for key in labels.at_registration(node_world.machine()) if key.split("/")[0].endswith(("kubernetes.io", "k8s.io"))
    }
    assert restricted <= allowed


def test_controllers_say_the_node_group_and_its_template() -> None:
    said = labels.of_controllers(node_world.machine(), GROUP)
    assert said["eks.amazonaws.com/nodegroup"] == "train"
    assert said["eks.amazonaws.com/sourceLaunchTemplateVersion"] == "3"
    assert said["topology.k8s.aws/zone-id"] == "usw2-az1"
    assert said["team"] == "a"


def test_an_update_adds_changes_and_removes_labels() -> None:
    change = labels.change({"labels": {"a": "1", "b": "1"}, "taints": []}, {"labels": {"b": "2", "c": "3"}, "taints": []})
    assert change is not None and dict(change.labels) == {"a": None, "b": "2", "c": "3"}


def test_an_update_of_taints_leaves_those_of_others() -> None:
    old, new = {"key": "old", "effect": "NO_EXECUTE"}, {"key": "new", "value": "x", "effect": "NO_SCHEDULE"}
    change = labels.change({"taints": [old]}, {"taints": [new]})
    foreign_taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert change is not None
    after = change.taints_after([{"key": "old", "effect": "NoExecute"}, foreign_taint])
    assert after == [foreign_taint, {"key": "new", "value": "x", "effect": "NoSchedule"}]


def test_a_change_of_size_concerns_no_node() -> None:
    assert labels.change({**GROUP, "scalingConfig": {"desiredSize": 1}}, {**GROUP, "scalingConfig": {"desiredSize": 2}}) is None


@pytest.mark.parametrize("text", ["nvidia.com/gpu=true:NoSchedule", "alone:NoExecute"])
def test_a_taint_is_read_as_the_kubelet_reads_it(text: str) -> None:
    taint = Taint.parse(text)
    assert text in (f"{taint.key}={taint.value}:{taint.effect}", f"{taint.key}:{taint.effect}")


def test_a_simulated_node_has_everything_of_its_type_and_a_taint() -> None:
    machine = node_world.machine()
    node = simulated.node(machine, GROUP)
    assert node["status"]["capacity"] == {
        "cpu": "96",
        "memory": f"{machine.memory_kib}Ki",
        "pods": "250",
        "ephemeral-storage": "8000G",
        "hugepages-2Mi": "10256Mi",
        "nvidia.com/gpu": "8",
        "vpc.amazonaws.com/efa": "4",
    }
    assert labels.SIMULATED.as_object() in node["spec"]["taints"]
    assert {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert node["metadata"]["labels"].items() >= labels.at_registration(machine).items()


def test_a_simulated_node_offers_less_than_it_has() -> None:
    machine = node_world.machine()
    offered = simulated.allocatable(machine)
    assert offered["cpu"] == f"{96_000 - 310}m"
    reserved_kib = (int(kubelet.reserved(96, 250)["memory"].removesuffix("Mi")) + 100) * 1024
    assert offered["memory"] == f"{machine.memory_kib - machine.huge_page_kib - reserved_kib}Ki"
