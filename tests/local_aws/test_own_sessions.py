"""Users of `daily.json` can end and resume their own Session Manager sessions, as IAM users and as role sessions."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.components import iam as program_policies
from localcloud.aws import inventory, ssm_sessions
from localcloud.aws.account import ACCOUNT
from testkit import iam_policies
from testkit.aws_clients import REGION, Client
from tests.local_aws.documents import EC2_TRUST, make_trust_policy


@pytest.fixture
def instance(aws: Client) -> Iterator[str]:
    """A running instance of a stack that accepts sessions."""
    iam, ec2 = aws("iam"), aws("ec2")
    iam.create_role(RoleName="gpumpi-tiny-node", AssumeRolePolicyDocument=EC2_TRUST)
    sessions = program_policies.to_json(program_policies.allow_session_manager())
    iam.put_role_policy(RoleName="gpumpi-tiny-node", PolicyName="sessions", PolicyDocument=sessions)
    iam.create_instance_profile(InstanceProfileName="gpumpi-tiny-node")
    iam.add_role_to_instance_profile(InstanceProfileName="gpumpi-tiny-node", RoleName="gpumpi-tiny-node")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    launched = ec2.run_instances(
        ImageId=image,
        InstanceType="c7i.large",
        SubnetId=subnet,
        MinCount=1,
        MaxCount=1,
        IamInstanceProfile={"Name": "gpumpi-tiny-node"},
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "gpumpi:stack", "Value": "tiny"}]}],
    )
    unregister = ssm_sessions.register_session_opener(lambda instance_id, port: ("ws://127.0.0.1:1", "token"))
    yield str(launched["Instances"][0]["InstanceId"])
    unregister()


def assume_role(aws: Client, name: str) -> Any:
    """Return a client of Session Manager with a session of a role that has only `daily.json`, as with IAM Identity Center."""
    iam, role = aws("iam"), f"arn:aws:iam::{ACCOUNT}:role/Researcher"
    if not any(existing["Arn"] == role for existing in iam.list_roles()["Roles"]):
        trust = make_trust_policy({"AWS": f"arn:aws:iam::{ACCOUNT}:root"})
        iam.create_role(RoleName="Researcher", AssumeRolePolicyDocument=trust)
        daily = json.dumps(iam_policies.read_policy("daily"))
        policy = iam.create_policy(PolicyName="daily", PolicyDocument=daily)["Policy"]["Arn"]
        iam.attach_role_policy(RoleName="Researcher", PolicyArn=policy)
    keys = aws("sts").assume_role(RoleArn=role, RoleSessionName=name)["Credentials"]
    credentials = {
        "aws_access_key_id": keys["AccessKeyId"],
        "aws_secret_access_key": keys["SecretAccessKey"],
        "aws_session_token": keys["SessionToken"],
    }
    return aws("ssm", REGION, **credentials)


def start_session(ssm: Any, instance: str) -> str:
    return str(ssm.start_session(Target=instance, DocumentName="AWS-StartSSHSession")["SessionId"])


def test_role_session_ends_its_own_session_and_no_other(aws: Client, instance: str) -> None:
    ada, grace = assume_role(aws, "ada"), assume_role(aws, "grace")
    of_ada, of_grace = start_session(ada, instance), start_session(grace, instance)
    assert of_ada.startswith("ada-") and of_grace.startswith("grace-")
    with pytest.raises(ClientError, match="not authorized"):
        ada.terminate_session(SessionId=of_grace)
    assert ada.terminate_session(SessionId=of_ada)["SessionId"] == of_ada


def test_session_name_that_begins_like_another_gives_no_access(aws: Client, instance: str) -> None:
    session = start_session(assume_role(aws, "ada-lovelace"), instance)
    with pytest.raises(ClientError, match="not authorized"):
        assume_role(aws, "ada").terminate_session(SessionId=session)


def test_user_ends_its_own_session(aws: Client, instance: str) -> None:
    iam_policies.restrict_user(aws, [iam_policies.read_policy("daily")])
    session = start_session(aws("ssm"), instance)
    assert session.startswith("local-engineer-")
    aws("ssm").terminate_session(SessionId=session)


def test_sessions_to_instances_of_others_are_refused(aws: Client, instance: str) -> None:
    aws("ec2").delete_tags(Resources=[instance], Tags=[{"Key": "gpumpi:stack"}])
    with pytest.raises(ClientError, match="not authorized"):
        start_session(assume_role(aws, "ada"), instance)


def test_session_that_nobody_ended_is_no_leftover(aws: Client, instance: str) -> None:
    start_session(aws("ssm"), instance)
    assert "ssm" not in {leftover.service for leftover in inventory.list_leftovers()}
