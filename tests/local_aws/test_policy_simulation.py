"""IAM's policy simulator makes the same decisions as the authorization of real requests."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.aws.account import ADMINISTRATOR_ACCESS, USER_ARN, USER_NAME
from localcloud.aws.permissions import organization
from testkit.aws_clients import Client

ROLE_TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
)


@pytest.fixture
def iam(aws: Client) -> Any:
    return aws("iam")


def create_role(iam: Any, *statements: dict[str, Any]) -> str:
    arn = iam.create_role(RoleName="builder", AssumeRolePolicyDocument=ROLE_TRUST)["Role"]["Arn"]
    document = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    iam.put_role_policy(RoleName="builder", PolicyName="build", PolicyDocument=document)
    return str(arn)


def allow_statement(*actions: str, **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": "*", **more}


def simulate_policy(iam: Any, arn: str, *actions: str, **more: Any) -> dict[str, dict[str, Any]]:
    results = iam.simulate_principal_policy(PolicySourceArn=arn, ActionNames=list(actions), **more)["EvaluationResults"]
    return {result["EvalActionName"]: result for result in results}


def simulate_decisions(iam: Any, arn: str, *actions: str, **more: Any) -> dict[str, str]:
    return {name: result["EvalDecision"] for name, result in simulate_policy(iam, arn, *actions, **more).items()}


def test_the_simulator_evaluates_the_policies_of_a_role(iam: Any) -> None:
    arn = create_role(iam, allow_statement("ec2:Create*"), {"Effect": "Deny", "Action": "ec2:CreateVpc", "Resource": "*"})
    assert simulate_decisions(iam, arn, "ec2:CreateSubnet", "ec2:CreateVpc", "ec2:RunInstances") == {
        "ec2:CreateSubnet": "allowed",
        "ec2:CreateVpc": "explicitDeny",
        "ec2:RunInstances": "implicitDeny",
    }


def test_the_default_user_is_allowed_everything_and_another_user_nothing(iam: Any) -> None:
    assert simulate_decisions(iam, USER_ARN, "eks:CreateCluster") == {"eks:CreateCluster": "allowed"}
    other = iam.create_user(UserName="other")["User"]["Arn"]
    assert simulate_decisions(iam, other, "eks:CreateCluster") == {"eks:CreateCluster": "implicitDeny"}


def test_the_simulator_includes_policies_of_the_groups_of_a_user(iam: Any) -> None:
    arn = iam.create_user(UserName="other")["User"]["Arn"]
    group = iam.create_group(GroupName="admins")["Group"]["Arn"]
    iam.attach_group_policy(GroupName="admins", PolicyArn=ADMINISTRATOR_ACCESS)
    iam.add_user_to_group(GroupName="admins", UserName="other")
    assert {
        decision["eks:CreateCluster"]
        for decision in (simulate_decisions(iam, name, "eks:CreateCluster") for name in (arn, group))
    } == {"allowed"}


def test_the_simulator_lists_missing_context_keys(iam: Any) -> None:
    condition = {"StringEquals": {"aws:RequestTag/team": "gpu"}}
    arn = create_role(iam, allow_statement("ec2:RunInstances", Condition=condition))
    [without] = simulate_policy(iam, arn, "ec2:RunInstances").values()
    assert (without["EvalDecision"], without["MissingContextValues"]) == ("implicitDeny", ["aws:RequestTag/team"])
    entry = {"ContextKeyName": "aws:RequestTag/team", "ContextKeyValues": ["gpu"], "ContextKeyType": "string"}
    [matched] = simulate_policy(iam, arn, "ec2:RunInstances", ContextEntries=[entry]).values()
    assert (matched["EvalDecision"], matched["MissingContextValues"]) == ("allowed", [])


def test_a_simulation_returns_a_decision_for_each_resource(iam: Any) -> None:
    ours = "arn:aws:iam::123456789012:role/gpumpi-node"
    arn = create_role(iam, {"Effect": "Allow", "Action": "iam:PassRole", "Resource": "arn:aws:iam::123456789012:role/gpumpi-*"})
    [result] = simulate_policy(iam, arn, "iam:PassRole", ResourceArns=[ours, "arn:aws:iam::123456789012:role/other"]).values()
    assert [verdict["EvalResourceDecision"] for verdict in result["ResourceSpecificResults"]] == ["allowed", "implicitDeny"]


def test_a_permissions_boundary_limits_allowed_actions(iam: Any) -> None:
    limit = json.dumps({"Version": "2012-10-17", "Statement": [allow_statement("ec2:*")]})
    boundary = iam.create_policy(PolicyName="limit", PolicyDocument=limit)["Policy"]["Arn"]
    arn = create_role(iam, allow_statement("*"))
    iam.put_role_permissions_boundary(RoleName="builder", PermissionsBoundary=boundary)
    result = simulate_policy(iam, arn, "ec2:CreateVpc", "eks:CreateCluster")
    assert [decision["EvalDecision"] for decision in result.values()] == ["allowed", "implicitDeny"]
    assert result["eks:CreateCluster"]["PermissionsBoundaryDecisionDetail"] == {"AllowedByPermissionsBoundary": False}


def test_an_action_denied_by_the_organization_is_denied_in_simulation_and_call(aws: Client, iam: Any) -> None:
    organization.deny_action("ec2:CreateVpc")
    [result] = simulate_policy(iam, USER_ARN, "ec2:CreateVpc").values()
    assert (result["EvalDecision"], result["OrganizationsDecisionDetail"]) == ("explicitDeny", {"AllowedByOrganizations": False})
    with pytest.raises(ClientError, match=r"UnauthorizedOperation.*with an explicit deny in a service control policy"):
        aws("ec2").create_vpc(CidrBlock="10.0.0.0/16")
    assert aws("ec2").describe_vpcs()["Vpcs"]


def test_simulation_results_are_paginated(iam: Any) -> None:
    actions = ["ec2:CreateVpc", "ec2:CreateSubnet", "ec2:CreateTags"]
    pages = iam.get_paginator("simulate_principal_policy").paginate(
        PolicySourceArn=USER_ARN, ActionNames=actions, PaginationConfig={"PageSize": 2}
    )
    assert [[result["EvalActionName"] for result in page["EvaluationResults"]] for page in pages] == [actions[:2], actions[2:]]


@pytest.mark.parametrize(
    ("source", "action", "code"),
    [
        ("arn:aws:sts::123456789012:assumed-role/builder/me", "ec2:CreateVpc", "InvalidInput"),
        ("arn:aws:iam::123456789012:role/nobody", "ec2:CreateVpc", "NoSuchEntity"),
        (USER_ARN, "CreateVpc", "InvalidInput"),
    ],
)
def test_iam_rejects_invalid_simulation_requests(iam: Any, source: str, action: str, code: str) -> None:
    with pytest.raises(ClientError) as caught:
        simulate_policy(iam, source, action)
    assert caught.value.response["Error"]["Code"] == code


def test_the_policy_simulator_requires_its_own_permission(aws: Client, iam: Any) -> None:
    iam.detach_user_policy(UserName=USER_NAME, PolicyArn=ADMINISTRATOR_ACCESS)
    with pytest.raises(ClientError, match="AccessDenied"):
        simulate_policy(aws("iam"), USER_ARN, "ec2:CreateVpc")
