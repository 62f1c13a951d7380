"""IAM role of EKS nodes."""

from collections.abc import Sequence
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.components import iam, trust_policies
from infra.components.children import build_child_args
from infra.components.iam import Account
from infra.naming import COMPONENT, Naming

MANAGED_POLICIES: Final = (
    "AmazonEKSWorkerNodePolicy",  # join the cluster, request pod credentials
    "AmazonEC2ContainerRegistryPullOnly",  # pull images
)
"""https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html. The policy for the VPC CNI is missing here,
because the add-on has its own role."""


class NodeRole(pulumi.ComponentResource):
    """Creates the role of all nodes, with the policies that EKS requires and with permissions for Session Manager."""

    def __init__(
        self,
        name: str,
        naming: Naming,
        account: Account,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(f"{COMPONENT}:NodeRole", name, None, opts)
        role = aws.iam.Role(
            **build_child_args(self, naming, name),
            description=f"Nodes of {naming.cluster}",
            assume_role_policy=iam.to_json(trust_policies.build_instance_trust_policy()),
            permissions_boundary=account.permissions_boundary,
        )
        options = pulumi.ResourceOptions(parent=self)
        self.attachments: Sequence[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy}", role=role.name, policy_arn=account.managed_policy_arn(policy), opts=options
            )
            for policy in MANAGED_POLICIES
        ]
        """Policies. They must be created before the first node and deleted after the last one."""
        sessions = iam.to_json(iam.allow_session_manager())
        aws.iam.RolePolicy(f"{name}-sessions", role=role.name, policy=sessions, opts=options)
        self.arn = role.arn
        self.register_outputs({"arn": self.arn})
