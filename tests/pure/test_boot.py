"""User data equals the files in `tests/golden/boot`; other tests check individual rules."""

import base64
import email
import json
from pathlib import Path

import pytest
import yaml

from infra.boot import eks_node
from infra.boot.eks_node import ClusterAccess
from infra.naming import GPU_TAINT
from tests.pure.test_boot_ec2 import BOOTS as EC2_BOOTS

GOLDEN = Path(__file__).parent.parent / "golden" / "boot"
ACCESS = ClusterAccess("gpumpi-x", "https://x.eks.amazonaws.com", "Y2VydGlmaWNhdGU=", "172.20.0.0/16")
LABELS = {"gpumpi.io/pool": "train", "nvidia.com/gpu.present": "true"}

BOOTS = {
    "system": eks_node.render_user_data(eks_node.build_node_config(raid0=False, pinned_memory=False)),
    "gpu": eks_node.render_user_data(eks_node.build_node_config(raid0=True, pinned_memory=True)),
    "gpu-efa": eks_node.render_user_data(
        eks_node.build_node_config(raid0=True, pinned_memory=True), huge_pages=eks_node.HUGE_PAGES
    ),
    "own-ami": eks_node.render_user_data(
        eks_node.build_node_config(raid0=True, pinned_memory=True, cluster=ACCESS, labels=LABELS, taints=[GPU_TAINT])
    ),
}


@pytest.mark.parametrize("name", BOOTS)
def test_user_data_matches_golden_file(name: str) -> None:
    assert BOOTS[name] == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def test_every_golden_user_data_file_is_used() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(BOOTS) | set(EC2_BOOTS)


@pytest.mark.parametrize("name", BOOTS)
def test_user_data_is_mime_with_one_node_config(name: str) -> None:
    parts = email.message_from_string(BOOTS[name]).get_payload()
    assert isinstance(parts, list)
    kinds = [part.get_content_type() for part in parts]
    assert kinds[0] == "application/node.eks.aws" and kinds.count("application/node.eks.aws") == 1
    config = yaml.safe_load(parts[0].get_payload())
    assert (config["apiVersion"], config["kind"]) == ("node.eks.aws/v1alpha1", "NodeConfig")


def test_node_config_without_custom_ami_omits_cluster_for_eks_to_add() -> None:
    assert "cluster" not in eks_node.build_node_config(raid0=True, pinned_memory=True)["spec"]  # type: ignore[operator]


def test_memory_limit_survives_float_conversion_by_nodeadm() -> None:
    """nodeadm, written in Go, converts numbers in free-form JSON to float64, but containerd expects a uint64."""
    limit = json.loads(json.dumps(eks_node.LARGEST_LIMIT), parse_int=float)
    assert int(limit) == eks_node.LARGEST_LIMIT < 2**64


def test_pinned_memory_keeps_default_open_file_limit() -> None:
    config = yaml.safe_load(yaml.safe_dump(eks_node.build_node_config(raid0=False, pinned_memory=True)))
    limits = config["spec"]["containerd"]["baseRuntimeSpec"]["process"]["rlimits"]
    assert [limit["type"] for limit in limits] == ["RLIMIT_NOFILE", "RLIMIT_MEMLOCK"]


def test_huge_pages_are_reserved_before_the_kubelet_counts_them() -> None:
    assert "vm.nr_hugepages = 5128" in eks_node.render_huge_pages_script(5128)
    assert "nr_hugepages" not in BOOTS["gpu"]


def test_launch_template_user_data_is_base64() -> None:
    assert base64.b64decode(eks_node.encode_base64("über")).decode() == "über"
