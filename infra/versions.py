"""Every pinned version, one a line, each with where it was seen.

"Default" means the version that `aws eks describe-addon-versions` marked as EKS's default for that Kubernetes version when
it was looked up. `infra.facts` asks EKS at plan time and a version that is gone is reported before anything is created;
`gpumpi:target.addonVersions` overrides any of them.
"""

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
            VPC_CNI: "v1.22.4-eksbuild.3",  # a public 1.36 cluster, 2026-10, as are the next six
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
"""The Kubernetes versions that this program knows, oldest first."""


def addon_versions(kubernetes_version: str) -> dict[str, str]:
    """EKS add-on -> the version that this program installs with a Kubernetes version; KeyError for one it does not know."""
    return dict(_ADDONS[kubernetes_version])
