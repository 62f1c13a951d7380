"""What the instances of a plain EC2 cluster may do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.components import iam
from infra.components.iam import Account
from infra.naming import COMPONENT, Naming

SESSIONS: Final = "AmazonSSMManagedInstanceCore"
"""A shell and SSH through Session Manager: no open port."""


@dataclass(frozen=True)
class InstanceRoleArgs:
    naming: Naming
    account: Account
    description: str
    policies: Mapping[str, pulumi.Input[str]]
    """By name: what they may do beside Session Manager."""


class InstanceRole(pulumi.ComponentResource):
    """Creates:
    - a role that EC2 instances take, with the given policies and Session Manager's
    - the instance profile that hands it to them
    """

    def __init__(self, name: str, args: InstanceRoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:InstanceRole", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self._role = aws.iam.Role(
            name,
            description=args.description,
            assume_role_policy=iam.to_json(iam.assumed_by_service("ec2.amazonaws.com")),
            tags=args.naming.tags(Name=name),
            opts=child,
        )
        managed = args.account.managed_policy(SESSIONS)
        self._permissions: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(f"{name}-{SESSIONS}", role=self._role.name, policy_arn=managed, opts=child),
            *(
                aws.iam.RolePolicy(f"{name}-{key}", role=self._role.name, policy=policy, opts=child)
                for key, policy in args.policies.items()
            ),
        ]
        self._profile = aws.iam.InstanceProfile(
            f"{name}-profile", role=self._role.name, tags=args.naming.tags(Name=f"{name}-profile"), opts=child
        )
        self.register_outputs({"arn": self._role.arn})

    @property
    def unique_id(self) -> pulumi.Output[str]:
        """AROA...: the first part of its instances' identity."""
        return self._role.unique_id

    @property
    def profile_arn(self) -> pulumi.Output[str]:
        return self._profile.arn

    @property
    def permissions(self) -> Sequence[pulumi.Resource]:
        """What must be there before an instance boots, and stay until the last one is gone."""
        return self._permissions
