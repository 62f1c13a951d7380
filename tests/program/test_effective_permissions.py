"""What each role may do in total: its inline policies together with the AWS managed policies that are attached to it."""

import json
from collections.abc import Mapping

import pytest
from moto.iam.aws_managed_policies import aws_managed_policies_data

from infra.settings.stack import Settings
from localcloud.aws.policy_evaluation import Policy, Request, allows
from tests.program import engine
from tests.program.engine import Deployment, deploy
from tests.pure.world import account_facts, ec2_settings, pool, settings

MANAGED: Mapping[str, Mapping[str, Policy]] = json.loads(aws_managed_policies_data)
"""moto's copy of AWS's managed policies: names, mapped to `Document` and metadata."""

EC2 = {"Service": "ec2.amazonaws.com"}
SECRETS = (
    Request("ssm:GetParameter", "arn:aws:ssm:us-west-2:123456789012:parameter/team/password"),
    Request("ssm:GetParameters", "arn:aws:ssm:us-west-2:123456789012:parameter/team/password"),
    Request("ssm:GetParametersByPath", "arn:aws:ssm:us-west-2:123456789012:parameter/team"),
    Request("ssm:GetParameterHistory", "arn:aws:ssm:us-west-2:123456789012:parameter/team/password"),
    Request("ssm:SendCommand", "arn:aws:ec2:us-west-2:123456789012:instance/i-0123456789abcdef0"),
    Request("ssm:StartSession", "arn:aws:ec2:us-west-2:123456789012:instance/i-0123456789abcdef0"),
    Request("secretsmanager:GetSecretValue", "arn:aws:secretsmanager:us-west-2:123456789012:secret:team"),
    Request("s3:GetObject", "arn:aws:s3:::bucket-of-another-team/data"),
    Request("kms:Decrypt", "arn:aws:kms:us-west-2:123456789012:key/1234"),
    Request("sts:AssumeRole", "arn:aws:iam::123456789012:role/admin"),
    Request("iam:PassRole", "arn:aws:iam::123456789012:role/admin"),
    Request("iam:PutRolePolicy", "arn:aws:iam::123456789012:role/admin"),
    Request("ec2:CreateTags", "arn:aws:ec2:us-west-2:123456789012:instance/i-0123456789abcdef0"),
)
"""Requests that would give someone on a node more permissions than their job has."""
SESSION = (
    "ssm:UpdateInstanceInformation",
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
)


def list_instance_roles(stack: Deployment) -> dict[str, list[Policy]]:
    """Map the name of each role of EC2 instances to all of its policies."""
    return {
        role.name: [
            *(json.loads(policy.inputs["policy"]) for policy in stack.find_resources(engine.ROLE_POLICY, f"{role.name}-")),
            *(
                MANAGED[attachment.inputs["policyArn"].rpartition("/")[2]]["Document"]
                for attachment in stack.find_resources(engine.ROLE_POLICY_ATTACHMENT, f"{role.name}-")
            ),
        ]
        for role in stack.find_resources(engine.ROLE)
        if allows(Request("sts:AssumeRole", "role", {}, EC2), json.loads(role.inputs["assumeRolePolicy"]))
    }


@pytest.mark.parametrize(
    ("stack", "roles"),
    [(settings(pool()), {"gpumpi-test-node"}), (ec2_settings(), {"gpumpi-test-master-role", "gpumpi-test-worker-role"})],
    ids=["eks", "ec2"],
)
def test_a_node_can_use_session_manager_and_read_nothing_of_other_teams(stack: Settings, roles: set[str]) -> None:
    permissions = list_instance_roles(deploy(stack, account_facts(stack)))
    assert set(permissions) == roles
    for policies in permissions.values():
        assert [request.action for request in SECRETS if allows(request, *policies)] == []
        assert [action for action in SESSION if not allows(Request(action), *policies)] == []
