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


def test_node_registers_with_labels_for_pool_type_and_zone() -> None:
    born = labels.build_registration_labels(node_world.make_machine())
    assert born.items() >= node_world.LABELS.items()
    assert born["node.kubernetes.io/instance-type"] == "p4d.24xlarge"
    assert (born["topology.kubernetes.io/region"], born["topology.kubernetes.io/zone"]) == ("us-west-2", "us-west-2a")


def test_node_with_devices_has_the_emulated_label() -> None:
    assert labels.build_registration_labels(node_world.make_machine())[EMULATED_LABEL] == "true"
    without = node_world.make_machine(kind="m5.xlarge", NetworkInterfaces=[{"InterfaceType": "interface"}])
    assert EMULATED_LABEL not in labels.build_registration_labels(without)


def test_kubelet_gets_no_label_that_kubelets_may_not_set() -> None:
    """https://github.com/kubernetes/kubernetes/blob/v1.35.0/staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go"""
    allowed = {
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        *(f"failure-domain.beta.kubernetes.io/{part}" for part in ("zone", "region")),
        *(f"topology.kubernetes.io/{part}" for part in ("zone", "region")),
    }
    restricted = {
        key
        for key in labels.build_registration_labels(node_world.make_machine())
        if key.split("/")[0].endswith(("kubernetes.io", "k8s.io"))
    }
    assert restricted <= allowed


def test_controllers_label_nodes_with_node_group_and_launch_template() -> None:
    said = labels.build_controller_labels(node_world.make_machine(), GROUP)
    assert said["eks.amazonaws.com/nodegroup"] == "train"
    assert said["eks.amazonaws.com/sourceLaunchTemplateVersion"] == "3"
    assert said["topology.k8s.aws/zone-id"] == "usw2-az1"
    assert said["team"] == "a"


def test_label_update_adds_changes_and_removes_labels() -> None:
    change = labels.compute_change({"labels": {"a": "1", "b": "1"}, "taints": []}, {"labels": {"b": "2", "c": "3"}, "taints": []})
    assert change is not None and dict(change.labels) == {"a": None, "b": "2", "c": "3"}


def test_taint_update_keeps_foreign_taints() -> None:
    old, new = {"key": "old", "effect": "NO_EXECUTE"}, {"key": "new", "value": "x", "effect": "NO_SCHEDULE"}
    change = labels.compute_change({"taints": [old]}, {"taints": [new]})
    foreign_taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    assert change is not None
    after = change.apply_to_taints([{"key": "old", "effect": "NoExecute"}, foreign_taint])
    assert after == [foreign_taint, {"key": "new", "value": "x", "effect": "NoSchedule"}]


def test_size_change_affects_no_node() -> None:
    assert (
        labels.compute_change({**GROUP, "scalingConfig": {"desiredSize": 1}}, {**GROUP, "scalingConfig": {"desiredSize": 2}})
        is None
    )


@pytest.mark.parametrize("text", ["nvidia.com/gpu=true:NoSchedule", "alone:NoExecute"])
def test_taint_parsing_matches_the_kubelet(text: str) -> None:
    taint = Taint.parse(text)
    assert text in (f"{taint.key}={taint.value}:{taint.effect}", f"{taint.key}:{taint.effect}")


def test_simulated_node_has_capacity_of_its_type_and_a_taint() -> None:
    machine = node_world.make_machine()
    node = simulated.build_node_object(machine, GROUP)
    assert node["status"]["capacity"] == {
        "cpu": "96",
        "memory": f"{machine.memory_kib}Ki",
        "pods": "250",
        "ephemeral-storage": "8000G",
        "hugepages-2Mi": "10256Mi",
        "nvidia.com/gpu": "8",
        "vpc.amazonaws.com/efa": "4",
    }
    assert labels.SIMULATED.to_object() in node["spec"]["taints"]
    assert {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert node["metadata"]["labels"].items() >= labels.build_registration_labels(machine).items()


def test_simulated_node_has_less_allocatable_than_capacity() -> None:
    machine = node_world.make_machine()
    offered = simulated.compute_allocatable(machine)
    assert offered["cpu"] == f"{96_000 - 310}m"
    reserved_kib = (int(kubelet.compute_reservations(96, 250)["memory"].removesuffix("Mi")) + 100) * 1024
    assert offered["memory"] == f"{machine.memory_kib - machine.huge_page_kib - reserved_kib}Ki"
