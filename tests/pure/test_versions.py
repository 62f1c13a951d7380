"""Pinned versions."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest

from infra import versions
from infra.settings.targets import EksTarget

ROOT = Path(__file__).parent.parent.parent
ADDONS = {
    "vpc-cni",
    "eks-pod-identity-agent",
    "kube-proxy",
    "coredns",
    "aws-efs-csi-driver",
    "aws-fsx-csi-driver",
    "eks-node-monitoring-agent",
    "metrics-server",
}


@pytest.mark.parametrize("kubernetes", versions.LIVE_KUBERNETES_VERSIONS)
def test_every_known_kubernetes_version_has_every_add_on(kubernetes: str) -> None:
    found = versions.addon_versions(kubernetes)
    assert set(found) == ADDONS
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", one) for one in found.values())


@pytest.mark.parametrize("kubernetes", versions.LIVE_KUBERNETES_VERSIONS)
def test_kube_proxy_is_of_the_cluster_s_minor_version(kubernetes: str) -> None:
    assert versions.addon_versions(kubernetes)["kube-proxy"].startswith(f"v{kubernetes}.")


@pytest.mark.parametrize("kubernetes", versions.LIVE_KUBERNETES_VERSIONS)
def test_the_cni_knows_efa_only_interfaces(kubernetes: str) -> None:
    """EFA needs VPC CNI 1.18.5 or newer: https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html"""
    numbers = re.findall(r"\d+", versions.addon_versions(kubernetes)["vpc-cni"])
    assert tuple(map(int, numbers[:3])) >= (1, 18, 5)


def test_new_clusters_get_a_version_in_standard_support_and_by_default_not_the_newest() -> None:
    assert versions.KUBERNETES_VERSIONS == ("1.35", "1.36")
    assert EksTarget(kind="eks").kubernetes_version == "1.35"


def test_an_unknown_kubernetes_version_is_refused() -> None:
    with pytest.raises(KeyError):
        versions.addon_versions("1.30")


def test_the_table_cannot_be_changed_through_its_answers() -> None:
    versions.addon_versions("1.35").clear()
    assert versions.addon_versions("1.35")


def test_requirements_are_exact_reasoned_and_installed() -> None:
    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        pin, _, reason = line.partition("#")
        name, _, wanted = pin.strip().partition("==")
        assert reason.strip(), f"{name}: why?"
        assert version(name) == wanted
