"""EKS add-ons: their configuration, and the component that installs them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.components.iam import Account
from infra.components.pod_role import ManagedPolicy, PodRole, PodRoleArgs
from infra.naming import (
    COMPONENT,
    COREDNS,
    EFS_CSI_DRIVER,
    FSX_CSI_DRIVER,
    GPU_TAINT,
    KUBE_PROXY,
    KUBE_SYSTEM,
    METRICS_SERVER,
    NODE_MONITORING_AGENT,
    POD_IDENTITY_AGENT,
    VPC_CNI,
    Naming,
)


@dataclass(frozen=True)
class Addon:
    """One add-on: configuration and permissions."""

    name: str
    configuration: Mapping[str, object] = field(default_factory=dict)
    # AWS permissions, if any
    service_account: str | None = None
    managed_policy: str | None = None


NEEDED_BY_NODES: Final = (
    Addon(
        VPC_CNI,
        {
            "enableNetworkPolicy": "true",
            # Allocate a few addresses at a time. By default, each node reserves a whole spare interface (50 addresses on a
            # p5), so forty idle nodes exhaust a subnet. https://docs.aws.amazon.com/eks/latest/best-practices/vpc-cni.html
            "env": {"MINIMUM_IP_TARGET": "12", "WARM_IP_TARGET": "4"},
        },
        service_account="aws-node",
        managed_policy="AmazonEKS_CNI_Policy",
    ),
    Addon(POD_IDENTITY_AGENT),
)
"""Add-ons without which nodes do not become Ready, or pods get no credentials."""

RUN_ON_NODES: Final = (
    Addon(KUBE_PROXY),
    Addon(COREDNS),
    Addon(EFS_CSI_DRIVER, service_account="efs-csi-controller-sa", managed_policy="service-role/AmazonEFSCSIDriverPolicy"),
    # The driver's controller gets no AWS permissions: jobs use only static volumes, so it must not create file systems.
    Addon(FSX_CSI_DRIVER),
    Addon(
        NODE_MONITORING_AGENT,
        # By default, the add-on's DCGM agent has no tolerations and does not run on GPU nodes (aws/containers-roadmap#2567).
        {"dcgmAgent": {"tolerations": [{"key": GPU_TAINT.key, "operator": "Exists", "effect": GPU_TAINT.effect}]}},
    ),
    Addon(METRICS_SERVER),
)
"""Add-ons whose pods need nodes. Without nodes, EKS reports the add-ons as degraded after 20 minutes."""


@dataclass(frozen=True)
class EksAddonsArgs:
    naming: Naming
    account: Account
    cluster_name: pulumi.Input[str]
    addons: Sequence[Addon]
    versions: Mapping[str, str | None]
    """Maps each add-on to its version; None for AWS's default. Add-ons without an entry are not installed."""
    after: Sequence[pulumi.Resource] = ()
    """Resources that must exist before the add-ons. The IAM roles of the add-ons do not wait for these resources."""


class EksAddons(pulumi.ComponentResource):
    """Creates managed add-ons. Add-ons get AWS permissions through Pod Identity, never from the
    node role."""

    def __init__(self, name: str, args: EksAddonsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:EksAddons", name, None, opts)
        self._name, self._args = name, args
        self._addons = {addon.name: self._create_addon(addon) for addon in args.addons if addon.name in args.versions}
        self.register_outputs({})

    def _create_addon(self, addon: Addon) -> aws.eks.Addon:
        args = self._args
        role = self._create_role(addon)
        return aws.eks.Addon(
            f"{self._name}-{addon.name}",
            cluster_name=args.cluster_name,
            addon_name=addon.name,
            addon_version=args.versions[addon.name],
            configuration_values=json.dumps(addon.configuration) if addon.configuration else None,
            pod_identity_associations=(
                [{"role_arn": role.arn, "service_account": addon.service_account}] if role and addon.service_account else None
            ),
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE",
            tags=args.naming.tags(Name=f"{args.naming.cluster}-{addon.name}"),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*args.after, *(role.permissions if role else [])],
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
                policies={"policy": ManagedPolicy(args.account.managed_policy_arn(addon.managed_policy))},
            ),
            pulumi.ResourceOptions(parent=self),
        )

    @property
    def addons(self) -> Sequence[pulumi.Resource]:
        return list(self._addons.values())

    def find_addon(self, name: str) -> pulumi.Resource:
        return self._addons[name]
