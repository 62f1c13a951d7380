"""EKS add-ons that GPU clusters use, and their versions.

https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html. The version
lists are incomplete: they contain versions in cluster output and AWS tables published between 2025-10 and 2026-10.
`aws eks describe-addon-versions` prints the full list.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from localcloud.aws.call import Call
from localcloud.aws.eks import versions
from localcloud.aws.eks.errors import invalid_parameter
from localcloud.aws.eks.state import Record, page
from localcloud.aws.patching import operation

_FIRST, _LAST = 30, 36
"""First and last Kubernetes minor version that the version lists cover."""


@dataclass(frozen=True)
class CatalogAddon:
    name: str
    kind: str
    versions: dict[str, tuple[int, int]]
    """Add-on version (newest first) -> first and last Kubernetes minor version that it supports."""
    defaults: dict[int, str]
    """Kubernetes minor version -> add-on version that EKS installs by default."""
    needs_nodes: bool = False
    """Whether the add-on is DEGRADED until nodes run its Deployment.

    An add-on with only a DaemonSet is healthy without nodes.
    """
    service_account: str | None = None
    """The add-on's service account to which an IAM role can be assigned."""
    managed_policies: tuple[str, ...] = ()
    owner: str = "aws"

    def supports(self, version: str, kubernetes: str) -> bool:
        first, last = self.versions.get(version, (0, -1))
        return first <= versions.minor(kubernetes) <= last

    def default(self, kubernetes: str) -> str:
        return self.defaults[versions.minor(kubernetes)]


def _builds(version: str, *builds: int, kubernetes: tuple[int, int] = (_FIRST, _LAST)) -> Iterator[tuple[str, tuple[int, int]]]:
    for build in builds:
        yield f"{version}-eksbuild.{build}", kubernetes


def _always(version: str) -> dict[int, str]:
    return dict.fromkeys(range(_FIRST, _LAST + 1), version)


_VPC_CNI = CatalogAddon(
    "vpc-cni",
    "networking",
    dict(
        [
            *_builds("v1.23.2", 1),
            *_builds("v1.23.1", 1),
            *_builds("v1.23.0", 1),
            *_builds("v1.22.4", 3),
            *_builds("v1.22.3", 1),
            *_builds("v1.22.2", 1),
            *_builds("v1.22.1", 2),
            *_builds("v1.21.2", 2),
            *_builds("v1.21.1", 8, 7, 5, 3, 1, kubernetes=(_FIRST, 35)),
            *_builds("v1.20.5", 1, kubernetes=(_FIRST, 35)),
            *_builds("v1.20.4", 2, 1, kubernetes=(_FIRST, 34)),
        ]
    ),
    _always("v1.22.4-eksbuild.3"),
    service_account="aws-node",
    managed_policies=("arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy",),
)

_KUBE_PROXY = CatalogAddon(
    "kube-proxy",
    "networking",
    # The newest builds for a minor version also support the next one, so a cluster can be upgraded before its add-on.
    dict(
        [
            *_builds("v1.36.0", 25, 21, 14, 13, 9, kubernetes=(36, 36)),
            *_builds("v1.35.3", 29, 25, kubernetes=(35, 36)),
            *_builds("v1.35.3", 18, 13, 5, 2, kubernetes=(35, 35)),
            *_builds("v1.35.0", 2, kubernetes=(35, 35)),
            *_builds("v1.34.6", 29, 25, kubernetes=(34, 35)),
            *_builds("v1.34.6", 21, 18, 17, 13, 8, 5, 2, kubernetes=(34, 34)),
            *_builds("v1.34.5", 2, kubernetes=(34, 34)),
            *_builds("v1.34.3", 5, kubernetes=(34, 34)),
            *_builds("v1.34.0", 2, kubernetes=(34, 34)),
            *_builds("v1.33.10", 29, 25, kubernetes=(33, 34)),
            *_builds("v1.33.10", 18, 13, 2, kubernetes=(33, 33)),
            *_builds("v1.33.7", 2, kubernetes=(33, 33)),
            *_builds("v1.32.13", 32, 28, kubernetes=(32, 33)),
            *_builds("v1.32.13", 21, 16, 14, 11, 8, 5, 2, kubernetes=(32, 32)),
            *_builds("v1.32.11", 5, 2, kubernetes=(32, 32)),
            *_builds("v1.31.14", 32, 25, kubernetes=(31, 32)),
            *_builds("v1.31.14", 20, 18, 9, kubernetes=(31, 31)),
            *_builds("v1.30.14", 28, kubernetes=(30, 31)),
        ]
    ),
    {
        36: "v1.36.0-eksbuild.25",
        35: "v1.35.3-eksbuild.29",
        34: "v1.34.6-eksbuild.29",
        33: "v1.33.10-eksbuild.29",
        32: "v1.32.13-eksbuild.32",
        31: "v1.31.14-eksbuild.32",
        30: "v1.30.14-eksbuild.28",
    },
)

_COREDNS = CatalogAddon(
    "coredns",
    "networking",
    dict(
        [
            *_builds("v1.14.6", 4, kubernetes=(35, 36)),
            *_builds("v1.14.3", 23, 16, 3, kubernetes=(35, 36)),
            *_builds("v1.14.2", 4, kubernetes=(35, 36)),
            *_builds("v1.13.2", 31, 24, 11, 7, 4, 3, 1, kubernetes=(33, 35)),
            *_builds("v1.12.4", 29, 18, 10, 1, kubernetes=(33, 34)),
            *_builds("v1.12.3", 1, kubernetes=(33, 34)),
            *_builds("v1.11.4", 60, 40, 33, 32, kubernetes=(30, 32)),
        ]
    ),
    {
        36: "v1.14.3-eksbuild.23",
        35: "v1.13.2-eksbuild.31",
        34: "v1.12.4-eksbuild.29",
        33: "v1.12.4-eksbuild.29",
        32: "v1.11.4-eksbuild.60",
        31: "v1.11.4-eksbuild.60",
        30: "v1.11.4-eksbuild.60",
    },
    needs_nodes=True,
)

_OTHERS = (
    CatalogAddon(
        "eks-pod-identity-agent",
        "security",
        dict([*_builds("v1.4.0", 3, 1), *_builds("v1.3.10", 3, 2), *_builds("v1.3.9", 5, 3), *_builds("v1.3.8", 2)]),
        _always("v1.3.10-eksbuild.3"),
    ),
    CatalogAddon(
        "aws-efs-csi-driver",
        "storage",
        dict(
            [
                *_builds("v3.4.2", 1),
                *_builds("v3.4.1", 1),
                *_builds("v3.4.0", 1),
                *_builds("v3.1.0", 1),
                *_builds("v2.1.8", 1, kubernetes=(_FIRST, 34)),
            ]
        ),
        _always("v3.4.2-eksbuild.1"),
        needs_nodes=True,
        service_account="efs-csi-controller-sa",
        managed_policies=("arn:aws:iam::aws:policy/service-role/AmazonEFSCSIDriverPolicy",),
    ),
    CatalogAddon(
        "aws-ebs-csi-driver",
        "storage",
        dict(
            [
                *_builds("v1.64.0", 1),
                *_builds("v1.63.1", 1),
                *_builds("v1.63.0", 1),
                *_builds("v1.60.0", 1),
                *_builds("v1.59.0", 1),
                *_builds("v1.58.0", 1),
                *_builds("v1.57.1", 1),
                *_builds("v1.55.0", 2, kubernetes=(_FIRST, 35)),
            ]
        ),
        _always("v1.64.0-eksbuild.1"),
        needs_nodes=True,
        service_account="ebs-csi-controller-sa",
        managed_policies=("arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy",),
    ),
    CatalogAddon(
        "eks-node-monitoring-agent",
        "observability",
        dict(
            [*_builds("v1.7.2", 1), *_builds("v1.7.0", 1), *_builds("v1.6.4", 1), *_builds("v1.4.2", 1), *_builds("v1.4.0", 2)],
        ),
        _always("v1.7.0-eksbuild.1"),
    ),
    CatalogAddon(
        "metrics-server",
        "observability",
        dict([*_builds("v0.9.0", 11, 7, 6), *_builds("v0.8.1", 14, 6, 5, 2), *_builds("v0.8.0", 6, 3, 2, 1)]),
        _always("v0.9.0-eksbuild.7"),
        needs_nodes=True,
        owner="community",
    ),
)

CATALOG = {addon.name: addon for addon in (_VPC_CNI, _KUBE_PROXY, _COREDNS, *_OTHERS)}


def find(name: str) -> CatalogAddon:
    addon = CATALOG.get(name)
    if addon is None:
        raise invalid_parameter(f"Addon {name} specified is not supported", addonName=name)
    return addon


@operation("eks", "DescribeAddonVersions")
def describe_addon_versions(call: Call) -> Record:
    params = call.params
    if params.get("addonName"):
        find(params["addonName"])
    kubernetes = params.get("kubernetesVersion")
    if kubernetes is not None and kubernetes not in versions.VERSIONS:
        raise invalid_parameter("unsupported Kubernetes version")
    chosen = [
        addon
        for addon in CATALOG.values()
        if params.get("addonName", addon.name) == addon.name
        and addon.kind in (params.get("types") or [addon.kind])
        and "eks" in (params.get("publishers") or ["eks"])
        and addon.owner in (params.get("owners") or [addon.owner])
    ]
    return page(call, "addons", [_describe(addon, kubernetes) for addon in chosen])


def _describe(addon: CatalogAddon, kubernetes: str | None) -> Record:
    infos = []
    for version, (first, last) in addon.versions.items():
        names = [f"1.{minor}" for minor in range(last, first - 1, -1)]
        compatible = [name for name in names if kubernetes in (None, name)]
        if compatible:
            infos.append(_version_info(addon, version, compatible))
    return {
        "addonName": addon.name,
        "type": addon.kind,
        "publisher": "eks",
        "owner": addon.owner,
        "defaultNamespace": "kube-system",
        "addonVersions": infos,
    }


def _version_info(addon: CatalogAddon, version: str, compatible: list[str]) -> Record:
    return {
        "addonVersion": version,
        "architecture": ["amd64", "arm64"],
        "computeTypes": ["ec2", "auto", "hybrid"],
        "compatibilities": [
            {"clusterVersion": name, "platformVersions": ["*"], "defaultVersion": addon.default(name) == version}
            for name in compatible
        ],
        "requiresConfiguration": False,
        "requiresIamPermissions": addon.service_account is not None,
    }
