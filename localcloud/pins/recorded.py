"""Newest versions found in documents and public repositories, for pins that no package registry serves.

Each entry records the version, the source and the date. Entries can be out of date, but none is a guess.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Recorded:
    newest: str
    source: str
    date: str


_IMAGES = "manifests of public programs"
_CHANGELOG = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-changelog.html"
_DLAMI = "https://docs.aws.amazon.com/dlami/latest/devguide/appendix-ami-release-notes.html"
_AUTOSCALER = "kubernetes/autoscaler, releases"

RECORDED: Final = {
    "aws-efa-k8s-device-plugin": Recorded("v0.5.22-eksbuild.9", "aws/eks-charts#1386, release v0.0.249", "2026-11"),
    "prometheus": Recorded("v3.14.0", _IMAGES, "2026-11-23"),
    "dcgm-exporter": Recorded("4.6.1-4.8.4-distroless", _IMAGES, "2026-11-23"),
    "cluster-autoscaler 1.34": Recorded("v1.34.5", _AUTOSCALER, "2026-08"),
    "cluster-autoscaler 1.35": Recorded("v1.35.2", _AUTOSCALER, "2026-08"),
    "cluster-autoscaler 1.36": Recorded("v1.36.1", _AUTOSCALER, "2026-08"),
    "efa_version": Recorded("1.51.0", _CHANGELOG, "2026-10-22"),
    "gdrcopy_version": Recorded("2.6", "NVIDIA/gdrcopy, as installed by aws/deep-learning-containers@e0ecede", "2026-08-21"),
    "nccl_tests_version": Recorded("2.20.0", "awslabs/awsome-distributed-ai PR 1255", "2026-09"),
    "efs_utils_version": Recorded("3.2.0", "aws/efs-utils, tags", "2026-07-13"),
    "nvidia_driver_version": Recorded("595.91.07", _DLAMI, "2026-10-06"),
    "nvidia_container_toolkit_version": Recorded(
        "1.20.1-1", "NVIDIA's package repository, as seen in public programs", "2026-11-22"
    ),
    "dlami_ubuntu_24_04": Recorded("20261006", _DLAMI, "2026-11-22"),
    "dlami_ubuntu_22_04": Recorded("20260929", _DLAMI, "2026-11-22"),
    "dlami_amazon_linux_2023": Recorded("20260916", _DLAMI, "2026-11-22"),
}

WHERE: Final = {
    "cluster-autoscaler 1.33": "https://github.com/kubernetes/autoscaler/releases",
    "debian_suite": "https://www.debian.org/releases/",
    "debian_torch2_suite": "https://tracker.debian.org/pkg/pytorch",
    "openmpi4_debian_version": "https://tracker.debian.org/pkg/openmpi",
    "openmpi5_debian_version": "https://tracker.debian.org/pkg/openmpi",
    "pause_version": "kubeadm config images list",
    "tini_version": "https://github.com/krallin/tini/releases",
    "flannel_version": "https://github.com/flannel-io/flannel/releases",
}
"""Where to look up pins without a recorded version."""
