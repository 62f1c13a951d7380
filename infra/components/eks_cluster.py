"""EKS control plane and access to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pulumi
import pulumi_aws as aws

from infra.components import iam, trust_policies
from infra.components.children import build_child_args
from infra.components.encryption_key import EncryptionKey
from infra.components.iam import Account
from infra.components.node_security_group import HTTPS, create_ingress_rule
from infra.naming import COMPONENT, Naming, build_principal_resource_name

LOG_TYPES: Final = ("api", "audit", "authenticator", "controllerManager", "scheduler")
ADMIN_POLICY: Final = "AmazonEKSClusterAdminPolicy"


@dataclass(frozen=True)
class EksClusterArgs:
    naming: Naming
    account: Account
    version: str
    support_type: Literal["STANDARD", "EXTENDED"]
    """STANDARD: EKS upgrades the control plane automatically when standard support for the version ends. EXTENDED: the
    version enters extended support instead."""
    service_cidr: str
    """Address range of Kubernetes services."""
    subnet_ids: Sequence[pulumi.Input[str]]
    """Subnets in at least two zones. EKS creates the control plane's network interfaces in these subnets."""
    # access
    admins: Sequence[str]
    """IAM users and roles with cluster-admin."""
    public_cidrs: Sequence[str]
    """CIDRs that may reach the public endpoint. If there are none, the cluster has no public endpoint."""
    private_cidrs: Sequence[str]
    """CIDRs that may reach the private endpoint, in addition to the nodes."""
    # logs
    logs_key_arn: pulumi.Input[str]
    log_retention_days: int
    # lifecycle
    deletion_protection: bool


class EksCluster(pulumi.ComponentResource):
    """Creates:
    - an EKS control plane with a private endpoint and, if addresses are given, a public endpoint for these addresses
      only
    - a KMS key for Kubernetes secrets, and a log group with a retention period for all five log types
    - an access entry with cluster-admin for each admin; the creator of the cluster gets no access by default
    - a rule in the cluster security group for each CIDR that may reach the private endpoint; EKS itself admits only
      members of this group (https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html)
    """

    def __init__(self, name: str, args: EksClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:EksCluster", name, None, opts)
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        key = EncryptionKey(
            f"{name}-secrets-key",
            args.naming,
            "Kubernetes secrets",
            iam.to_json(iam.build_secrets_key_policy(args.account)),
            self._child,
        )
        cluster = self._create_cluster(key)
        self.name, self.endpoint, self.service_cidr = cluster.name, cluster.endpoint, args.service_cidr
        self.version = cluster.version
        """Kubernetes version of the control plane. Resources that use this output wait for a control plane upgrade."""
        self.certificate_authority = cluster.certificate_authority.data.apply(lambda data: data or "")
        """Base64-encoded certificate authority, in the form that kubeconfigs and nodes expect."""
        self.security_group_id = cluster.vpc_config.cluster_security_group_id.apply(lambda group: group or "")
        """The cluster security group, which EKS creates for traffic between the control plane and the nodes."""
        self.access: Sequence[pulumi.CustomResource] = [
            *(self._create_admin_access(arn) for arn in args.admins),
            *(self._open_private_endpoint(cidr) for cidr in args.private_cidrs),
        ]
        """Resources that give admins access, and that open the private endpoint to their networks."""
        self.register_outputs({"name": self.name, "endpoint": self.endpoint})

    def _create_cluster(self, key: EncryptionKey) -> aws.eks.Cluster:
        args, naming = self._args, self._args.naming
        role = aws.iam.Role(
            **build_child_args(self, naming, f"{self._name}-role"),
            description=f"Control plane of {naming.cluster}",
            assume_role_policy=iam.to_json(trust_policies.build_cluster_trust_policy(args.account, naming.cluster)),
        )
        permission = aws.iam.RolePolicyAttachment(
            f"{self._name}-role-policy",
            role=role.name,
            policy_arn=args.account.managed_policy_arn("AmazonEKSClusterPolicy"),
            opts=self._child,
        )
        logs = aws.cloudwatch.LogGroup(
            **build_child_args(self, naming, f"{self._name}-logs"),
            name=naming.control_plane_logs,
            retention_in_days=args.log_retention_days,
            kms_key_id=args.logs_key_arn,
        )
        return aws.eks.Cluster(
            self._name,
            name=naming.cluster,
            version=args.version,
            upgrade_policy={"support_type": args.support_type},
            role_arn=role.arn,
            access_config={"authentication_mode": "API", "bootstrap_cluster_creator_admin_permissions": False},
            bootstrap_self_managed_addons=False,  # all add-ons are managed
            deletion_protection=args.deletion_protection,
            enabled_cluster_log_types=list(LOG_TYPES),
            kubernetes_network_config={"service_ipv4_cidr": args.service_cidr},
            encryption_config={"provider": {"key_arn": key.arn}, "resources": ["secrets"]},
            vpc_config={
                "subnet_ids": list(args.subnet_ids),
                "endpoint_private_access": True,
                "endpoint_public_access": bool(args.public_cidrs),
                "public_access_cidrs": list(args.public_cidrs) or None,
            },
            tags=naming.tags(Name=naming.cluster),
            # `permission`: EKS needs the policy until it has deleted its network interfaces.
            # `logs`: the logs in a log group created by EKS would never expire.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[permission, logs], delete_before_replace=True),
        )

    def _create_admin_access(self, arn: str) -> pulumi.CustomResource:
        key = f"{self._name}-{build_principal_resource_name(arn)}"
        entry = aws.eks.AccessEntry(
            **build_child_args(self, self._args.naming, key, "access"), cluster_name=self.name, principal_arn=arn, type="STANDARD"
        )
        return aws.eks.AccessPolicyAssociation(
            f"{key}-admin",
            cluster_name=self.name,
            principal_arn=entry.principal_arn,
            policy_arn=f"arn:{self._args.account.partition}:eks::aws:cluster-access-policy/{ADMIN_POLICY}",
            access_scope={"type": "cluster"},
            opts=self._child,
        )

    def _open_private_endpoint(self, cidr: str) -> pulumi.CustomResource:
        purpose, group = "Kubernetes API for a network in the settings of the stack", self.security_group_id
        return create_ingress_rule(self._name, self._args.naming, group, cidr, port=HTTPS, description=purpose, opts=self._child)
