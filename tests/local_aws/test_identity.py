"""Caller identities: the engineer, an assumed role and temporary credentials."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.aws import account
from testkit.aws_clients import Client
from tests.local_aws.documents import EC2_TRUST, make_trust_policy


def create_client_with_keys(aws: Client, service: str, credentials: dict[str, Any]) -> Any:
    return aws(
        service,
        aws_access_key_id=credentials["AccessKeyId"],
        aws_secret_access_key=credentials["SecretAccessKey"],
        aws_session_token=credentials["SessionToken"],
    )


def test_get_caller_identity_returns_the_local_engineer(aws: Client) -> None:
    caller = aws("sts").get_caller_identity()
    assert (caller["Account"], caller["Arn"]) == (account.ACCOUNT, account.USER_ARN)
    assert aws("iam").get_user(UserName=account.USER_NAME)["User"]["Arn"] == account.USER_ARN


def test_the_arn_of_an_assumed_role_contains_the_session_name(aws: Client) -> None:
    aws("iam").create_role(RoleName="admin", AssumeRolePolicyDocument=make_trust_policy({"AWS": account.USER_ARN}))
    arn = f"arn:aws:iam::{account.ACCOUNT}:role/admin"
    keys = aws("sts").assume_role(RoleArn=arn, RoleSessionName="laptop")["Credentials"]
    caller = create_client_with_keys(aws, "sts", keys).get_caller_identity()
    assert caller["Arn"] == f"arn:aws:sts::{account.ACCOUNT}:assumed-role/admin/laptop"
    with pytest.raises(ClientError, match="no identity-based policy allows the ec2:DescribeVpcs action"):
        create_client_with_keys(aws, "ec2", keys).describe_vpcs()
    aws("iam").attach_role_policy(RoleName="admin", PolicyArn=account.ADMINISTRATOR_ACCESS)
    assert create_client_with_keys(aws, "ec2", keys).describe_vpcs()["Vpcs"]


def test_a_role_with_a_path_can_be_assumed(aws: Client) -> None:
    role = aws("iam").create_role(
        RoleName="admin", Path="/team/", AssumeRolePolicyDocument=make_trust_policy({"AWS": account.USER_ARN})
    )["Role"]
    keys = aws("sts").assume_role(RoleArn=role["Arn"], RoleSessionName="session")["Credentials"]
    assert create_client_with_keys(aws, "sts", keys).get_caller_identity()["Arn"].endswith(":assumed-role/admin/session")


def test_a_session_token_identifies_its_user(aws: Client) -> None:
    keys = aws("sts").get_session_token()["Credentials"]
    assert create_client_with_keys(aws, "sts", keys).get_caller_identity()["Arn"] == account.USER_ARN


@pytest.mark.parametrize(
    "policy",
    [
        "AmazonEKSClusterPolicy",
        "AmazonEKSWorkerNodePolicy",
        "AmazonEKS_CNI_Policy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
        "service-role/AmazonEFSCSIDriverPolicy",
    ],
)
def test_aws_managed_policies_can_be_attached(aws: Client, policy: str) -> None:
    iam = aws("iam")
    iam.create_role(RoleName="node", AssumeRolePolicyDocument=EC2_TRUST)
    iam.attach_role_policy(RoleName="node", PolicyArn=f"arn:aws:iam::aws:policy/{policy}")
    attached = iam.list_attached_role_policies(RoleName="node")["AttachedPolicies"]
    assert [attachment["PolicyName"] for attachment in attached] == [policy.rsplit("/", 1)[-1]]
