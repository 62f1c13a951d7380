"""IAM role for the pods of one Kubernetes service account (EKS Pod Identity)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from infra.components import iam, trust_policies
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
        child = pulumi.ResourceOptions(parent=self)
        trust = trust_policies.assumed_by_pods(args.account, args.naming.cluster, args.namespace, args.service_account)
        self._role = aws.iam.Role(
            name,
            description=args.description,
            assume_role_policy=iam.to_json(trust),
            tags=args.naming.tags(Name=name),
            opts=child,
        )
        self._permission: pulumi.Resource
        if isinstance(args.policy, ManagedPolicy):
            self._permission = aws.iam.RolePolicyAttachment(
                f"{name}-policy", role=self._role.name, policy_arn=args.policy.arn, opts=child
            )
        else:
            self._permission = aws.iam.RolePolicy(f"{name}-policy", role=self._role.name, policy=args.policy, opts=child)
        for suffix, policy in args.more.items():
            aws.iam.RolePolicy(f"{name}-{suffix}", role=self._role.name, policy=policy, opts=child)
        self._association: pulumi.Resource | None = None
        if args.cluster_name is not None:
            self._association = aws.eks.PodIdentityAssociation(
                f"{name}-association",
                cluster_name=args.cluster_name,
                namespace=args.namespace,
                service_account=args.service_account,
                role_arn=self._role.arn,
                tags=args.naming.tags(Name=name),
                opts=child,
            )
        self.register_outputs({"arn": self.arn})

    @property
    def arn(self) -> pulumi.Output[str]:
        return self._role.arn

    @property
    def association(self) -> pulumi.Resource | None:
        """Pod Identity association. It must exist before a pod with the role starts. None if an add-on creates it."""
        return self._association

    @property
    def permission(self) -> pulumi.Resource:
        """Policy of the role. Without it, the pods have no permissions."""
        return self._permission
