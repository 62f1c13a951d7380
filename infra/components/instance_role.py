"""IAM role of EC2 cluster instances."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components import iam, trust_policies
from infra.components.iam import Account
from infra.naming import COMPONENT, Naming


@dataclass(frozen=True)
class InstanceRoleArgs:
    naming: Naming
    account: Account
    description: str
    policies: Mapping[str, pulumi.Input[str]]
    """Policies in addition to the Session Manager policy, keyed by name."""


class InstanceRole(pulumi.ComponentResource):
    """Creates:
    - a role for EC2 instances with the given policies and the Session Manager policy
    - its instance profile
    """

    def __init__(self, name: str, args: InstanceRoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:InstanceRole", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self._role = aws.iam.Role(
            name,
            description=args.description,
            assume_role_policy=iam.to_json(trust_policies.assumed_by_instances()),
            tags=args.naming.tags(Name=name),
            opts=child,
        )
        managed = args.account.managed_policy(iam.SESSION_MANAGER)
        self._permissions: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(f"{name}-{iam.SESSION_MANAGER}", role=self._role.name, policy_arn=managed, opts=child),
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
        """Unique ID of the role (AROA...). The `aws:userid` of every instance with this role starts with this ID."""
        return self._role.unique_id

    @property
    def profile_arn(self) -> pulumi.Output[str]:
        return self._profile.arn

    @property
    def permissions(self) -> Sequence[pulumi.Resource]:
        """Policies of the role. They must be created before the first instance and deleted after the last one."""
        return self._permissions
