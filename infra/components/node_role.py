"""IAM role of EKS nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.components import iam, trust_policies
from infra.components.iam import Account
from infra.naming import COMPONENT, Naming

MANAGED_POLICIES: Final = (
    "AmazonEKSWorkerNodePolicy",  # join the cluster, request pod credentials
    "AmazonEC2ContainerRegistryPullOnly",  # pull images
    iam.SESSION_MANAGER,
)
"""https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html. The policy for the VPC CNI is missing here,
because the add-on has its own role."""


@dataclass(frozen=True)
class NodeRoleArgs:
    naming: Naming
    account: Account
    key_bucket_arn: pulumi.Input[str]


class NodeRole(pulumi.ComponentResource):
    """Creates the role of all nodes, with the policies that EKS requires and with permissions for Session Manager and
    for exchanging public keys."""

    def __init__(self, name: str, args: NodeRoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:NodeRole", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self._role = aws.iam.Role(
            name,
            description=f"Nodes of {args.naming.cluster}",
            assume_role_policy=iam.to_json(trust_policies.assumed_by_instances()),
            tags=args.naming.tags(Name=name),
            opts=child,
        )
        self._attachments = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy}", role=self._role.name, policy_arn=args.account.managed_policy(policy), opts=child
            )
            for policy in MANAGED_POLICIES
        ]
        key_bucket_arn = pulumi.Output.from_input(args.key_bucket_arn)
        aws.iam.RolePolicy(
            f"{name}-keys",
            role=self._role.name,
            policy=key_bucket_arn.apply(lambda arn: iam.to_json(iam.exchange_node_keys(arn))),
            opts=child,
        )
        self.register_outputs({"arn": self.arn})

    @property
    def arn(self) -> pulumi.Output[str]:
        return self._role.arn

    @property
    def attachments(self) -> Sequence[pulumi.Resource]:
        """Policy attachments. They must be created before the first node and deleted after the last one."""
        return self._attachments
