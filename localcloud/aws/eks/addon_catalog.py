"""EKS add-ons that GPU clusters use, and their versions.

https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html. The versions are in
localcloud/published/addons.yaml.
"""

from dataclasses import dataclass

from localcloud import published
from localcloud.aws.call import Call
from localcloud.aws.eks import versions
from localcloud.aws.eks.errors import build_invalid_parameter_error
from localcloud.aws.eks.state import Record, build_page
from localcloud.aws.patching import operation


@dataclass(frozen=True)
class CatalogAddon:
    name: str
    kind: str
    versions: dict[str, tuple[int, int]]
    """Maps an add-on version to the first and last Kubernetes minor version that it supports. The newest add-on
    version comes first."""
    defaults: dict[int, str]
    """Maps a Kubernetes minor version to the add-on version that EKS installs by default."""
    needs_nodes: bool = False
    """Whether the add-on is DEGRADED until nodes run its Deployment.

    An add-on with only a DaemonSet is healthy without nodes.
    """
    service_account: str | None = None
    """Name of the add-on's service account, if an IAM role can be assigned to it."""
    managed_policies: tuple[str, ...] = ()
    owner: str = "aws"

    def supports(self, version: str, kubernetes: str) -> bool:
        first, last = self.versions.get(version, (0, -1))
        return first <= versions.parse_minor_version(kubernetes) <= last

    def default(self, kubernetes: str) -> str:
        return self.defaults[versions.parse_minor_version(kubernetes)]


@dataclass(frozen=True)
class _Traits:
    """Properties of an add-on, apart from its versions."""

    needs_nodes: bool = False
    service_account: str | None = None
    managed_policies: tuple[str, ...] = ()


_TRAITS = {
    "vpc-cni": _Traits(service_account="aws-node", managed_policies=("arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy",)),
    "coredns": _Traits(needs_nodes=True),
    "aws-efs-csi-driver": _Traits(
        True, "efs-csi-controller-sa", ("arn:aws:iam::aws:policy/service-role/AmazonEFSCSIDriverPolicy",)
    ),
    "aws-fsx-csi-driver": _Traits(True, "fsx-csi-controller-sa", ("arn:aws:iam::aws:policy/AmazonFSxFullAccess",)),
    "aws-ebs-csi-driver": _Traits(
        True, "ebs-csi-controller-sa", ("arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy",)
    ),
    "metrics-server": _Traits(needs_nodes=True),
}


def _build_addon(name: str, entry: Record) -> CatalogAddon:
    traits = _TRAITS.get(name, _Traits())
    return CatalogAddon(
        name,
        entry["type"],
        {
            version: (
                versions.parse_minor_version(release["kubernetes"][0]),
                versions.parse_minor_version(release["kubernetes"][1]),
            )
            for version, release in entry["versions"].items()
        },
        {
            minor: version
            for version, release in entry["versions"].items()
            if (default := release.get("default"))
            for minor in range(versions.parse_minor_version(default[0]), versions.parse_minor_version(default[1]) + 1)
        },
        needs_nodes=traits.needs_nodes,
        service_account=traits.service_account,
        managed_policies=traits.managed_policies,
        owner=entry["owner"],
    )


CATALOG = {name: _build_addon(name, entry) for name, entry in published.load_table("addons").items()}


def find(name: str) -> CatalogAddon:
    addon = CATALOG.get(name)
    if addon is None:
        raise build_invalid_parameter_error(f"Addon {name} specified is not supported", addonName=name)
    return addon


@operation("eks", "DescribeAddonVersions")
def describe_addon_versions(call: Call) -> Record:
    params = call.params
    if params.get("addonName"):
        find(params["addonName"])
    kubernetes = params.get("kubernetesVersion")
    if kubernetes is not None and kubernetes not in versions.VERSIONS:
        raise build_invalid_parameter_error("unsupported Kubernetes version")
    chosen = [
        addon
        for addon in CATALOG.values()
        if params.get("addonName", addon.name) == addon.name
        and addon.kind in (params.get("types") or [addon.kind])
        and "eks" in (params.get("publishers") or ["eks"])
        and addon.owner in (params.get("owners") or [addon.owner])
    ]
    return build_page(call, "addons", [_describe(addon, kubernetes) for addon in chosen])


def _describe(addon: CatalogAddon, kubernetes: str | None) -> Record:
    infos = []
    for version, (first, last) in addon.versions.items():
        names = [f"1.{minor}" for minor in range(last, first - 1, -1)]
        compatible = [name for name in names if kubernetes in (None, name)]
        if compatible:
            infos.append(_describe_version(addon, version, compatible))
    return {
        "addonName": addon.name,
        "type": addon.kind,
        "publisher": "eks",
        "owner": addon.owner,
        "defaultNamespace": "kube-system",
        "addonVersions": infos,
    }


def _describe_version(addon: CatalogAddon, version: str, compatible: list[str]) -> Record:
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
