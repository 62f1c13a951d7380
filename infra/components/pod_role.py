"""IAM role for the pods of one Kubernetes service account (EKS Pod Identity)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from infra.components import iam, trust_policies
from infra.components.children import child
from infra.components.iam import Account
from infra.naming import COMPONENT, Naming


@dataclass(frozen=True)
class ManagedPolicy:
    """AWS managed policy."""

    arn: str


@dataclass(frozen=True)
class PodRoleArgs:
    naming: Naming
    description: str
    account: Account
    namespace: str
    service_account: str
    policy: pulumi.Input[str] | ManagedPolicy
    """Permissions of the pods."""
    more: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """Additional policies, keyed by the suffix of their resource names."""
    cluster_name: pulumi.Input[str] | None = None
    """If given, the component associates the role with the service account. EKS add-ons create their own
    associations."""


class PodRole(pulumi.ComponentResource):
    """Creates:
    - a role that only pods of the service account in this namespace and cluster can assume
    - its inline policies, or an attachment of AWS's managed policy
    - the Pod Identity association with the service account, if a cluster is given
    """

    def __init__(self, name: str, args: PodRoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:PodRole", name, None, opts)
        naming, options = args.naming, pulumi.ResourceOptions(parent=self)
        trust = trust_policies.assumed_by_pods(args.account, naming.cluster, args.namespace, args.service_account)
        role = aws.iam.Role(**child(self, naming, name), description=args.description, assume_role_policy=iam.to_json(trust))
        self.permission: pulumi.Resource
        """Policy of the role. Without it, the pods have no permissions."""
        if isinstance(args.policy, ManagedPolicy):
            self.permission = aws.iam.RolePolicyAttachment(
                f"{name}-policy", role=role.name, policy_arn=args.policy.arn, opts=options
            )
        else:
            self.permission = aws.iam.RolePolicy(f"{name}-policy", role=role.name, policy=args.policy, opts=options)
        for suffix, policy in args.more.items():
            aws.iam.RolePolicy(f"{name}-{suffix}", role=role.name, policy=policy, opts=options)
        self.association: pulumi.Resource | None = None
        """It must exist before a pod with the role starts. None if an add-on creates it."""
        if args.cluster_name is not None:
            self.association = aws.eks.PodIdentityAssociation(
                **child(self, naming, name, "association"),
                cluster_name=args.cluster_name,
                namespace=args.namespace,
                service_account=args.service_account,
                role_arn=role.arn,
            )
        self.arn = role.arn
        self.register_outputs({"arn": self.arn})
