"""Names, tags and labels."""

import re

import pytest

from infra import naming
from infra.naming import Naming, Taint


def test_cluster_is_named_after_its_stack() -> None:
    assert Naming("prod").cluster == "gpumpi-prod"


def test_every_resource_gets_the_base_tags() -> None:
    assert Naming("prod", "research").tags() == {"gpumpi:stack": "prod", "cost-center": "research", "managed-by": "pulumi"}


def test_cost_center_tag_defaults_to_the_stack_name() -> None:
    assert Naming("prod").tags()["cost-center"] == "prod"


def test_user_tags_are_included_and_resource_tags_override_user_tags() -> None:
    tags = Naming("prod", extra={"team": "ml", "Name": "theirs"}).tags({"gpumpi:pool": "train"}, Name="ours")
    assert tags["team"] == "ml" and tags["gpumpi:pool"] == "train" and tags["Name"] == "ours"


@pytest.mark.parametrize("key", naming.BASE_TAGS)
def test_user_tags_cannot_override_base_tags(key: str) -> None:
    assert Naming("prod", "research", {key: "theirs"}).tags({key: "mine"})[key] in ("prod", "research", "pulumi")


@pytest.mark.parametrize(
    ("arn", "name"),
    [
        ("arn:aws:iam::123456789012:user/ada", "123456789012-user-ada"),
        ("arn:aws:iam::123456789012:role/team/a/Admin", "123456789012-role-Admin"),
        ("arn:aws-cn:iam::123456789012:role/Admin", "123456789012-role-Admin"),
    ],
)
def test_principal_name_contains_account_kind_and_name(arn: str, name: str) -> None:
    assert naming.build_principal_resource_name(arn) == name


def test_gpu_node_has_labels_for_device_plugins_and_autoscaler() -> None:
    assert naming.build_pool_labels("train", accelerator=naming.format_accelerator("NVIDIA", "RTX PRO 6000"), efa=True) == {
        "gpumpi.io/pool": "train",
        "nvidia.com/gpu.present": "true",
        "k8s.amazonaws.com/accelerator": "nvidia-rtx-pro-6000",
        "vpc.amazonaws.com/efa.present": "true",
    }


def test_generated_labels_are_valid_in_kubernetes() -> None:
    labels = naming.build_pool_labels("train", accelerator=naming.format_accelerator("NVIDIA", "RTX PRO Server 6000"), efa=True)
    assert all(re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value) for value in labels.values())


def test_a_cpu_node_has_no_gpu_labels() -> None:
    assert naming.build_pool_labels("system") == {"gpumpi.io/pool": "system"}


def test_autoscaler_tags_contain_labels_taints_and_resources() -> None:
    tags = naming.build_autoscaler_tags(
        "gpumpi-x", labels={"a/b": "c"}, taints=(Taint("nvidia.com/gpu", "true"),), resources={"vpc.amazonaws.com/efa": "4"}
    )
    assert tags == {
        "k8s.io/cluster-autoscaler/enabled": "true",
        "k8s.io/cluster-autoscaler/gpumpi-x": "owned",
        "k8s.io/cluster-autoscaler/node-template/label/a/b": "c",
        "k8s.io/cluster-autoscaler/node-template/taint/nvidia.com/gpu": "true:NoSchedule",
        "k8s.io/cluster-autoscaler/node-template/resources/vpc.amazonaws.com/efa": "4",
    }
