"""IAM role for the pods of one Kubernetes service account (EKS Pod Identity)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components import iam, trust_policies
from infra.components.children import build_child_args
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
    policies: Mapping[str, pulumi.Input[str] | ManagedPolicy]
    """Permissions of the pods, keyed by the suffix of their resource names."""
    cluster_name: pulumi.Input[str] | None = None
    """If given, the component associates the role with the service account. EKS add-ons create their own
    associations."""


class PodRole(pulumi.ComponentResource):
    """Creates:
    - a role that only pods of the service account in this namespace and cluster can assume
    - its inline policies, and attachments of AWS's managed policies
    - the Pod Identity association with the service account, if a cluster is given
    """

    def __init__(self, name: str, args: PodRoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:PodRole", name, None, opts)
        naming, options = args.naming, pulumi.ResourceOptions(parent=self)
        trust = trust_policies.build_pod_trust_policy(args.account, naming.cluster, args.namespace, args.service_account)
        role = aws.iam.Role(
            **build_child_args(self, naming, name), description=args.description, assume_role_policy=iam.to_json(trust)
        )
        self.permissions: Sequence[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(f"{name}-{suffix}", role=role.name, policy_arn=policy.arn, opts=options)
            if isinstance(policy, ManagedPolicy)
            else aws.iam.RolePolicy(f"{name}-{suffix}", role=role.name, policy=policy, opts=options)
            for suffix, policy in args.policies.items()
        ]
        """Policies of the role. Without them, the pods have no permissions."""
        self.association: pulumi.Resource | None = None
        """The role must exist before a pod that uses it starts. None if an add-on creates the role."""
        if args.cluster_name is not None:
            self.association = aws.eks.PodIdentityAssociation(
                **build_child_args(self, naming, name, "association"),
                cluster_name=args.cluster_name,
                namespace=args.namespace,
                service_account=args.service_account,
                role_arn=role.arn,
            )
        self.arn = role.arn
        self.register_outputs({"arn": self.arn})
