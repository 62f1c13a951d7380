"""IAM role of EC2 cluster instances."""

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_aws as aws

from infra.components import iam, trust_policies
from infra.components.children import build_child_args
from infra.components.iam import Account
from infra.naming import COMPONENT, Naming


class InstanceRole(pulumi.ComponentResource):
    """Creates:
    - a role for EC2 instances with the given policies and the Session Manager policy
    - its instance profile
    """

    def __init__(
        self,
        name: str,
        naming: Naming,
        account: Account,
        description: str,
        policies: Mapping[str, pulumi.Input[str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`policies` are added to the Session Manager policy, keyed by name."""
        super().__init__(f"{COMPONENT}:InstanceRole", name, None, opts)
        role = aws.iam.Role(
            **build_child_args(self, naming, name),
            description=description,
            assume_role_policy=iam.to_json(trust_policies.build_instance_trust_policy()),
            permissions_boundary=account.permissions_boundary,
        )
        options = pulumi.ResourceOptions(parent=self)
        sessions = iam.to_json(iam.allow_session_manager())
        self.permissions: Sequence[pulumi.Resource] = [
            aws.iam.RolePolicy(f"{name}-{key}", role=role.name, policy=policy, opts=options)
            for key, policy in {"sessions": sessions, **policies}.items()
        ]
        """Policies of the role. They must be created before the first instance and deleted after the last one."""
        profile = aws.iam.InstanceProfile(**build_child_args(self, naming, f"{name}-profile"), role=role.name)
        self.profile_arn, self.unique_id = profile.arn, role.unique_id
        """The ID (AROA...) with which the `aws:userid` of every instance with this role starts."""
        self.register_outputs({"arn": role.arn})
