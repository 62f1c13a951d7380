"""EKS add-ons: their configuration, and the component that installs them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from infra import versions
from infra.components.iam import Account
from infra.components.pod_role import ManagedPolicy, PodRole, PodRoleArgs
from infra.naming import COMPONENT, GPU_TAINT, KUBE_SYSTEM, Naming


@dataclass(frozen=True)
class Addon:
    """One add-on: version, configuration and permissions."""

    name: str
    version: str
    configuration: Mapping[str, object] = field(default_factory=dict)
    # AWS permissions, if any
    service_account: str | None = None
    managed_policy: str | None = None


def needed_by_nodes(wanted: Mapping[str, str]) -> tuple[Addon, ...]:
    """Return the add-ons without which nodes do not become Ready, or pods get no credentials. `wanted` maps add-on
    names to versions."""
    return (
        Addon(
            versions.VPC_CNI,
            wanted[versions.VPC_CNI],
            {
                "enableNetworkPolicy": "true",
                # Allocate a few addresses at a time. By default, each node reserves a whole spare interface (50 addresses
                # on a p5), so forty idle nodes exhaust a subnet.
                # https://docs.aws.amazon.com/eks/latest/best-practices/vpc-cni.html
                "env": {"MINIMUM_IP_TARGET": "12", "WARM_IP_TARGET": "4"},
            },
            service_account="aws-node",
            managed_policy="AmazonEKS_CNI_Policy",
        ),
        Addon(versions.POD_IDENTITY_AGENT, wanted[versions.POD_IDENTITY_AGENT]),
    )


def run_on_nodes(wanted: Mapping[str, str], *, shared_storage: bool, lustre: bool = False) -> tuple[Addon, ...]:
    """Return the add-ons whose pods need nodes. Without nodes, EKS reports the add-ons as degraded after 20 minutes."""
    gpu_toleration = {"key": GPU_TAINT.key, "operator": "Exists", "effect": GPU_TAINT.effect}
    efs = Addon(
        versions.EFS_CSI_DRIVER,
        wanted[versions.EFS_CSI_DRIVER],
        service_account="efs-csi-controller-sa",
        managed_policy="service-role/AmazonEFSCSIDriverPolicy",
    )
    return (
        Addon(versions.KUBE_PROXY, wanted[versions.KUBE_PROXY]),
        Addon(versions.COREDNS, wanted[versions.COREDNS]),
        *((efs,) if shared_storage else ()),
        # The driver's controller gets no AWS permissions: jobs use only static volumes, so it must not create file systems.
        *((Addon(versions.FSX_CSI_DRIVER, wanted[versions.FSX_CSI_DRIVER]),) if lustre else ()),
        Addon(
            versions.NODE_MONITORING_AGENT,
            wanted[versions.NODE_MONITORING_AGENT],
            # By default, the add-on's DCGM agent has no tolerations and does not run on GPU nodes (aws/containers-roadmap#2567).
            {"dcgmAgent": {"tolerations": [gpu_toleration]}},
        ),
        Addon(versions.METRICS_SERVER, wanted[versions.METRICS_SERVER]),
    )


@dataclass(frozen=True)
class EksAddonsArgs:
    naming: Naming
    account: Account
    cluster_name: pulumi.Input[str]
    addons: Sequence[Addon]
    after: Sequence[pulumi.Resource] = ()
    """Resources that must exist before the add-ons. The IAM roles of the add-ons do not wait for these resources."""


class EksAddons(pulumi.ComponentResource):
    """Creates managed add-ons with pinned versions. Add-ons get AWS permissions through Pod Identity, never from the
    node role."""

    def __init__(self, name: str, args: EksAddonsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:EksAddons", name, None, opts)
        self._name, self._args = name, args
        self._addons = {addon.name: self._create(addon) for addon in args.addons}
        self.register_outputs({})

    def _create(self, addon: Addon) -> aws.eks.Addon:
        args = self._args
        role = self._create_role(addon)
        return aws.eks.Addon(
            f"{self._name}-{addon.name}",
            cluster_name=args.cluster_name,
            addon_name=addon.name,
            addon_version=addon.version,
            configuration_values=json.dumps(addon.configuration) if addon.configuration else None,
            pod_identity_associations=(
                [{"role_arn": role.arn, "service_account": addon.service_account}] if role and addon.service_account else None
            ),
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE",
            tags=args.naming.tags(Name=f"{args.naming.cluster}-{addon.name}"),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*args.after, *([role.permission] if role else [])],
                delete_before_replace=True,  # a cluster cannot have two add-ons with the same name
            ),
        )

    def _create_role(self, addon: Addon) -> PodRole | None:
        args = self._args
        if addon.service_account is None or addon.managed_policy is None:
            return None
        short = addon.name.removeprefix("aws-")  # role names have at most 64 characters
        return PodRole(
            f"{self._name}-{short}",
            PodRoleArgs(
                args.naming,
                account=args.account,
                description=f"Add-on {addon.name} of {args.naming.cluster}",
                namespace=KUBE_SYSTEM,
                service_account=addon.service_account,
                policy=ManagedPolicy(args.account.managed_policy(addon.managed_policy)),
            ),
            pulumi.ResourceOptions(parent=self),
        )

    @property
    def addons(self) -> Sequence[pulumi.Resource]:
        return list(self._addons.values())

    def named(self, name: str) -> pulumi.Resource:
        return self._addons[name]
