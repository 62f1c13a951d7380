"""Properties of a node, derived from its instance's description and user data."""

import base64
from dataclasses import replace
from typing import Any

import pytest
import yaml
from moto.ec2.models.instance_types import INSTANCE_TYPES

from localcloud.aws import images
from localcloud.kubernetes.nodes import kubelets, machine, user_data
from localcloud.kubernetes.nodes.user_data import UserData
from localcloud.tools.catalogue import KUBELET, KUBELET_BEFORE, Tool
from tests.pure import node_world


def make_mime_message(*parts: tuple[str, Any]) -> str:
    bodies = [f"--B\nContent-Type: {kind}\n\n{text if isinstance(text, str) else yaml.safe_dump(text)}\n" for kind, text in parts]
    head = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="B"\n\n'
    return base64.b64encode((head + "".join(bodies) + "--B--\n").encode()).decode()


def make_node_config(**spec: Any) -> tuple[str, Any]:
    return user_data.NODE_CONFIG, {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}


def test_labels_and_taints_come_from_the_user_data() -> None:
    parsed = user_data.parse_user_data(node_world.make_user_data())
    assert parsed.cluster == "demo"
    assert parsed.labels == node_world.LABELS
    assert parsed.taints == ("nvidia.com/gpu=true:NoSchedule",)


def test_later_user_data_parts_win_and_node_configs_are_merged() -> None:
    first = make_node_config(
        kubelet={"flags": ["--node-labels=a=1", "--v=4"], "config": {"maxPods": 10, "evictionHard": {"x": "1"}}}
    )
    second = make_node_config(
        cluster={"name": "demo"}, kubelet={"flags": ["--node-labels=b=2"], "config": {"evictionHard": {"y": "2"}}}
    )
    parsed = user_data.parse_user_data(make_mime_message(first, second))
    assert parsed.labels == {"b": "2"}, "the last occurrence of a kubelet flag wins"
    assert parsed.other_flags == ("--v=4",)
    assert parsed.kubelet_config == {"maxPods": 10, "evictionHard": {"x": "1", "y": "2"}}
    assert parsed.cluster == "demo"


def test_huge_pages_match_the_reservation_in_user_data() -> None:
    assert user_data.parse_user_data(node_world.make_user_data(huge_pages=5128)).huge_pages == 5128
    assert user_data.parse_user_data(node_world.make_user_data()).huge_pages == 0


@pytest.mark.parametrize("text", [None, "", base64.b64encode(b"#!/bin/sh\ntrue\n").decode()])
def test_user_data_without_a_node_config_joins_no_cluster(text: str | None) -> None:
    assert user_data.parse_user_data(text) == UserData()


def test_node_config_does_not_require_mime() -> None:
    text = yaml.safe_dump(make_node_config(cluster={"name": "demo"})[1])
    assert user_data.parse_user_data(base64.b64encode(text.encode()).decode()).cluster == "demo"


def test_machine_has_resources_of_its_type_and_interfaces() -> None:
    machine = node_world.make_machine()
    assert machine.provider_id == "aws:///us-west-2a/i-0a"
    assert machine.devices == {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 4}
    assert machine.huge_page_kib == 5128 * 2048
    assert 0.95 * 1152 < machine.memory_kib / 1024**2 < 1152
    assert (machine.kind, node_world.make_machine(kind="m5.large").kind) == ("gpu", "cpu")


def test_gpus_without_an_nvidia_plugin_are_not_advertised() -> None:
    machine = node_world.make_machine()
    other = replace(machine, type=replace(machine.type, gpu_manufacturer="AMD"))
    assert "nvidia.com/gpu" not in other.devices


def test_instance_outside_of_node_groups_is_not_a_node() -> None:
    described = node_world.describe_instance(Tags=[{"Key": "Name", "Value": "x"}])
    assert machine.parse_instance(described, None, INSTANCE_TYPES["p4d.24xlarge"], "usw2-az1", "us-west-2") is None


@pytest.mark.parametrize(
    ("kind", "pods"), [("m5.large", 29), ("t3.small", 11), ("m6i.2xlarge", 58), ("p5.48xlarge", 100), ("p4d.24xlarge", 250)]
)
def test_max_pods_matches_eks(kind: str, pods: int) -> None:
    """EKS reads the limits from this file and caps them at 110 or 250.

    https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/eni-max-pods.txt
    """
    assert machine.compute_maximum_pods(INSTANCE_TYPES[kind]) == pods


def test_node_version_is_the_version_of_its_ami() -> None:
    path = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/nvidia/recommended/image_id"
    assert node_world.make_machine(ImageId=images.list_ssm_parameters("us-west-2")[path]).version == "1.34"
    assert node_world.make_machine().version is None, "an AMI that is not EKS's own"


@pytest.mark.parametrize(
    ("variable", "version", "kubelet"),
    [("1.34", "1.34", KUBELET_BEFORE), ("1.34", "1.35", KUBELET), ("1.34", None, KUBELET), ("", "1.34", KUBELET)],
)
def test_older_kubelets_run_on_request(variable: str, version: str | None, kubelet: Tool) -> None:
    assert kubelets.select_kubelet(version, {kubelets.VARIABLE: variable}) == kubelet


def test_a_kubelet_that_does_not_exist_is_refused() -> None:
    with pytest.raises(kubelets.BadVersion, match=r"GPUMPI_LOCAL_KUBELETS: no kubelet of version 1\.20\. Possible: 1\.34"):
        kubelets.select_kubelet("1.34", {kubelets.VARIABLE: "1.20"})
