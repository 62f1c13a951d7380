"""Every pinned version, one per line, each with its source.

"Default" means the version that `aws eks describe-addon-versions` marked as EKS's default for that Kubernetes version
when it was looked up. `infra.facts` queries EKS at plan time, and validation reports a withdrawn version before
anything is created. `gpumpi:target.addonVersions` overrides any of them."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

VPC_CNI: Final = "vpc-cni"
POD_IDENTITY_AGENT: Final = "eks-pod-identity-agent"
KUBE_PROXY: Final = "kube-proxy"
COREDNS: Final = "coredns"
EFS_CSI_DRIVER: Final = "aws-efs-csi-driver"
NODE_MONITORING_AGENT: Final = "eks-node-monitoring-agent"
METRICS_SERVER: Final = "metrics-server"

_ADDONS: Final = MappingProxyType(
    {
        "1.33": {
            VPC_CNI: "v1.22.4-eksbuild.3",  # default of 1.33, seen in a 1.33 -> 1.34 upgrade plan of 2026-08
            POD_IDENTITY_AGENT: "v1.3.10-eksbuild.3",  # default of 1.33, looked up 2026-06-05
            KUBE_PROXY: "v1.33.10-eksbuild.29",  # a public 1.33 cluster, 2026-09
            COREDNS: "v1.13.2-eksbuild.31",  # the same cluster
            EFS_CSI_DRIVER: "v3.4.2-eksbuild.1",  # seen with 1.34 to 1.36; NOT VERIFIED for 1.33
            NODE_MONITORING_AGENT: "v1.4.0-eksbuild.2",  # a public 1.33 cluster, 2025
            METRICS_SERVER: "v0.8.1-eksbuild.14",  # newest for 1.33 in a table of 2026-07
        },
        "1.34": {
            VPC_CNI: "v1.22.4-eksbuild.3",  # default of 1.34, several public clusters of 2026-08
            POD_IDENTITY_AGENT: "v1.3.10-eksbuild.3",  # default of 1.34, looked up 2026-06-24
            KUBE_PROXY: "v1.34.6-eksbuild.29",  # log of an upgrade to 1.34, 2026-09
            COREDNS: "v1.12.4-eksbuild.29",  # default of 1.34, a public cluster of 2026-08
            EFS_CSI_DRIVER: "v3.4.2-eksbuild.1",  # a public 1.34 cluster, 2026-09
            NODE_MONITORING_AGENT: "v1.7.0-eksbuild.1",  # seen with 1.35; NOT VERIFIED for 1.34 (v1.4.2-eksbuild.1 was)
            METRICS_SERVER: "v0.9.0-eksbuild.11",  # log of an upgrade to 1.34, 2026-09
        },
        "1.35": {
            VPC_CNI: "v1.22.4-eksbuild.3",  # default of 1.35, looked up 2026-10-02; v1.23.2-eksbuild.1 is newer
            POD_IDENTITY_AGENT: "v1.3.10-eksbuild.3",  # default of 1.35, looked up 2026-10-02; v1.4.0-eksbuild.3 is newer
            KUBE_PROXY: "v1.35.3-eksbuild.29",  # default of 1.35, looked up 2026-10-02
            COREDNS: "v1.13.2-eksbuild.31",  # default of 1.35, looked up 2026-10-02; v1.14.6-eksbuild.4 is newer
            EFS_CSI_DRIVER: "v3.4.2-eksbuild.1",  # looked up for 1.35 on 2026-09-07
            NODE_MONITORING_AGENT: "v1.7.0-eksbuild.1",  # a public 1.35 cluster, 2026-08
            METRICS_SERVER: "v0.9.0-eksbuild.7",  # a public 1.35 cluster, 2026-08
        },
        "1.36": {
            VPC_CNI: "v1.22.4-eksbuild.3",  # a public 1.36 cluster, 2026-10; so are the next six
            POD_IDENTITY_AGENT: "v1.3.10-eksbuild.3",
            KUBE_PROXY: "v1.36.0-eksbuild.25",
            COREDNS: "v1.14.3-eksbuild.23",
            EFS_CSI_DRIVER: "v3.4.2-eksbuild.1",
            NODE_MONITORING_AGENT: "v1.7.2-eksbuild.1",
            METRICS_SERVER: "v0.9.0-eksbuild.11",
        },
    }
)

KUBERNETES_VERSIONS: Final = tuple(_ADDONS)
"""The supported Kubernetes versions, oldest first."""


def addon_versions(kubernetes_version: str) -> dict[str, str]:
    """Return the version to install for each EKS add-on. Raises KeyError for an unsupported Kubernetes version."""
    return dict(_ADDONS[kubernetes_version])


# --- platform ------------------------------------------------------------------------------------------------------------

NVIDIA_DEVICE_PLUGIN: Final = "v0.18.0"  # v0.20.0 is newer (2026-08)
MPI_OPERATOR: Final = "v0.8.2"  # the newest release as of 2026-07
KUEUE: Final = "v0.15.0"  # v0.19.2 is newer (2026-08); its module does not build here, so it was not tested
EFA_DEVICE_PLUGIN: Final = "v0.5.20"  # in chart aws-efa-k8s-device-plugin v0.5.30 (2026-08); NOT VERIFIED in an account

_CLUSTER_AUTOSCALER: Final = MappingProxyType(
    {
        "1.33": "v1.33.0",  # NOT VERIFIED: the first release of this minor version
        "1.34": "v1.34.0",  # v1.34.5 is newer
        "1.35": "v1.35.0",  # v1.35.2 is newer
        "1.36": "v1.36.0",  # v1.36.1 is newer
    }
)


def cluster_autoscaler(kubernetes_version: str) -> str:
    """Return the autoscaler version. The minor version of its simulated scheduler must match the cluster's."""
    return _CLUSTER_AUTOSCALER[kubernetes_version]


@dataclass(frozen=True)
class Pinned:
    """File at a Git tag on GitHub, with the hash of its content."""

    repository: str
    version: str
    file: str
    sha256: str

    @property
    def path(self) -> str:
        """Path on raw.githubusercontent.com and in a mirror."""
        return f"{self.repository}/{self.version}/{self.file}"


NVIDIA_MANIFEST: Final = Pinned(
    "NVIDIA/k8s-device-plugin",
    NVIDIA_DEVICE_PLUGIN,
    "deployments/static/nvidia-device-plugin.yml",
    "8704c60143ade2c54941d317378df0c4633f9339f03f22474abad0930d4f1b94",
)
MPI_OPERATOR_MANIFEST: Final = Pinned(
    "kubeflow/mpi-operator",
    MPI_OPERATOR,
    "deploy/v2beta1/mpi-operator.yaml",
    "a7eafe901bebde1410ae0448c2d1ada214a64b2686f6aa44e74eff978573033f",
)


def _kueue(file: str, sha256: str) -> Pinned:
    return Pinned("kubernetes-sigs/kueue", KUEUE, f"config/components/{file}", sha256)


def _kueue_crd(kind: str, sha256: str) -> Pinned:
    return _kueue(f"crd/bases/kueue.x-k8s.io_{kind}.yaml", sha256)


# Kueue's Git tag contains only the parts of its one-file manifest. The long parts are fetched from there, and
# `infra.platform.kueue_upstream` and `infra.platform.queue` add what `config/default` would add.
KUEUE_CRDS: Final = (
    _kueue_crd("admissionchecks", "c8bc860c0dfb5e83019ad693d5a43e6ed758ceb28aac46d921ff5a748cc4c4b2"),
    _kueue_crd("clusterqueues", "7e6d060f748b3c669929091a1ead115452f1c848d0753c092aca011d7c3f126d"),
    _kueue_crd("cohorts", "646290350f33efccbc9a16e486583814554f64c1d080eaae7b5ba27b324b5ea5"),
    _kueue_crd("localqueues", "4024fcc64ca42f46167c0fb1d44e9fa82da431c95f240125ef87bd4419468667"),
    _kueue_crd("multikueueclusters", "860c921d375edc65ad9b1f0d3b869014a69230266a4a75f2774d38567337513f"),
    _kueue_crd("multikueueconfigs", "938d98e5807ebf1945e9aaa2da79548d237207ab55b55c720343f46a6775a9e3"),
    _kueue_crd("provisioningrequestconfigs", "d2e9b20fe5bee03dc5253c3755827ec52d046e4cf53ebe1118f6a3d6f0f47f14"),
    _kueue_crd("resourceflavors", "8566ccd95ad63a4de59192bf0ca9afe753e939a4b401deef7d087ed7871a876c"),
    _kueue_crd("topologies", "967d6e643c40c9bb7351dde43e81dfe9223d3ef4de99f06123ed735fc6582c5e"),
    _kueue_crd("workloadpriorityclasses", "7c64d107b7366ac090d436c3c6a9e9ae494e8e789ff8d0673ced7d818b636bc3"),
    _kueue_crd("workloads", "ee9a7815594d678e7bf65d25786ae3e7b961706cd434a8524a7771c6ac32d1c3"),
)
KUEUE_ROLE: Final = _kueue("rbac/role.yaml", "f4f342928c8c57c562a500645a90c542b972903b52b1a12b00f5261ac8f4b7c6")
KUEUE_WEBHOOKS: Final = _kueue("webhook/manifests.yaml", "18ad819d47f8a5ebbf9e9ac188cb8fcadf16405331dee1d7a6e91d2ea1b5c5aa")

MANIFESTS: Final = (NVIDIA_MANIFEST, MPI_OPERATOR_MANIFEST, *KUEUE_CRDS, KUEUE_ROLE, KUEUE_WEBHOOKS)
"""All upstream files that the program may fetch."""
