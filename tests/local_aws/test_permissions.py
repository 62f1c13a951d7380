"""Authorization of requests by identity policies, permissions boundaries, session policies and resource policies."""

import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from localcloud.aws.account import ACCOUNT, ADMINISTRATOR_ACCESS, USER_ARN, USER_NAME
from testkit.aws_clients import REGION, Client
from tests.local_aws.documents import allow_statement, make_policy, make_trust_policy

ADA = f"arn:aws:iam::{ACCOUNT}:user/ada"
EVERYTHING = allow_statement(Action="*", Resource="*")


class User:
    """IAM user `ada`; the tests set her inline policy."""

    def __init__(self, aws: Client) -> None:
        self._aws, self.iam = aws, aws("iam")
        self.iam.create_user(UserName="ada")
        self._key = self.iam.create_access_key(UserName="ada")["AccessKey"]

    def allow(self, *statements: dict[str, Any]) -> None:
        self.iam.put_user_policy(UserName="ada", PolicyName="work", PolicyDocument=make_policy(*statements))

    def __call__(self, service: str, **options: Any) -> Any:
        keys = {"aws_access_key_id": self._key["AccessKeyId"], "aws_secret_access_key": self._key["SecretAccessKey"]}
        return self._aws(service, **(keys | options))

    def create_role_client(self, service: str, role: str, **options: Any) -> Any:
        keys = self("sts").assume_role(RoleArn=role, RoleSessionName="ada", **options)["Credentials"]
        return self._aws(
            service,
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=keys["SessionToken"],
        )


@pytest.fixture
def user(aws: Client) -> User:
    return User(aws)


def catch_error(call: Callable[[], Any]) -> tuple[str, int, str]:
    """Return the error code, HTTP status and error message of a call that fails."""
    with pytest.raises(ClientError) as caught:
        call()
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Message"]


def catch_error_message(call: Callable[[], Any]) -> str:
    return catch_error(call)[2]


# --- the caller's policies


@pytest.mark.parametrize(
    ("service", "call", "code", "status", "action"),
    [
        ("ec2", lambda ec2: ec2.create_vpc(CidrBlock="10.0.0.0/16"), "UnauthorizedOperation", 403, "ec2:CreateVpc"),
        ("iam", lambda iam: iam.list_roles(), "AccessDenied", 403, "iam:ListRoles"),
        ("autoscaling", lambda caller: caller.describe_tags(), "AccessDenied", 403, "autoscaling:DescribeTags"),
        ("eks", lambda eks: eks.list_clusters(), "AccessDeniedException", 403, "eks:ListClusters"),
        ("efs", lambda efs: efs.describe_file_systems(), "AccessDeniedException", 403, "elasticfilesystem:DescribeFileSystems"),
        ("kms", lambda kms: kms.create_key(), "AccessDeniedException", 400, "kms:CreateKey"),
        ("ecr", lambda ecr: ecr.describe_repositories(), "AccessDeniedException", 400, "ecr:DescribeRepositories"),
        ("s3", lambda s3: s3.list_buckets(), "AccessDenied", 403, "s3:ListAllMyBuckets"),
        ("ssm", lambda ssm: ssm.get_parameter(Name="/x"), "AccessDeniedException", 400, "ssm:GetParameter"),
    ],
)
def test_a_user_without_policies_gets_the_same_error_as_in_aws(
    user: User, service: str, call: Callable[[Any], Any], code: str, status: int, action: str
) -> None:
    error = catch_error(lambda: call(user(service)))
    assert error[:2] == (code, status)
    assert f"User: {ADA} is not authorized to perform: {action}" in error[2]
    assert f"because no identity-based policy allows the {action} action" in error[2]


def test_get_caller_identity_needs_no_permission(user: User) -> None:
    assert user("sts").get_caller_identity()["Arn"] == ADA


def test_the_default_user_is_an_administrator_because_of_an_attached_policy(aws: Client) -> None:
    aws("ec2").describe_vpcs()
    aws("iam").detach_user_policy(UserName=USER_NAME, PolicyArn=ADMINISTRATOR_ACCESS)
    assert f"{USER_ARN} is not authorized to perform: ec2:DescribeVpcs" in catch_error_message(lambda: aws("ec2").describe_vpcs())


def test_an_explicit_deny_overrides_an_allow(user: User) -> None:
    user.allow(EVERYTHING, {"Effect": "Deny", "Action": "ec2:Describe*", "Resource": "*"})
    assert "with an explicit deny in an identity-based policy" in catch_error_message(lambda: user("ec2").describe_vpcs())


def test_policies_attached_to_groups_of_a_user_apply(user: User) -> None:
    user.iam.create_group(GroupName="readers")
    user.iam.add_user_to_group(GroupName="readers", UserName="ada")
    document = make_policy(allow_statement(Action="ec2:DescribeVpcs", Resource="*"))
    user.iam.put_group_policy(GroupName="readers", PolicyName="read", PolicyDocument=document)
    user("ec2").describe_vpcs()


def create_role(user: User, *statements: dict[str, Any], **options: Any) -> str:
    """Create a role that user `ada` may assume, with these policy statements."""
    created = user.iam.create_role(RoleName="work", AssumeRolePolicyDocument=make_trust_policy({"AWS": ADA}), **options)["Role"]
    user.iam.put_role_policy(RoleName="work", PolicyName="work", PolicyDocument=make_policy(*statements))
    return str(created["Arn"])


def test_a_permissions_boundary_limits_a_role(user: User) -> None:
    document = make_policy(allow_statement(Action="ec2:DescribeVpcs", Resource="*"))
    boundary = user.iam.create_policy(PolicyName="limit", PolicyDocument=document)["Policy"]["Arn"]
    ec2 = user.create_role_client("ec2", create_role(user, EVERYTHING, PermissionsBoundary=boundary))
    ec2.describe_vpcs()
    assert "because no permissions boundary allows the ec2:DescribeSubnets action" in catch_error_message(
        lambda: ec2.describe_subnets()
    )


def test_a_session_policy_limits_a_session(user: User) -> None:
    limit = make_policy(allow_statement(Action="ec2:DescribeVpcs", Resource="*"))
    ec2 = user.create_role_client("ec2", create_role(user, EVERYTHING), Policy=limit)
    ec2.describe_vpcs()
    assert "because no session policy allows the ec2:DescribeSubnets action" in catch_error_message(
        lambda: ec2.describe_subnets()
    )


def test_a_role_that_trusts_the_account_also_requires_an_identity_policy(user: User) -> None:
    account = make_trust_policy({"AWS": f"arn:aws:iam::{ACCOUNT}:root"})
    arn = user.iam.create_role(RoleName="shared", AssumeRolePolicyDocument=account)["Role"]["Arn"]
    assert "sts:AssumeRole" in catch_error_message(lambda: user.create_role_client("ec2", arn))
    user.allow(allow_statement(Action="sts:AssumeRole", Resource=arn))
    user.create_role_client("ec2", arn)


def test_a_policy_variable_for_a_missing_session_tag_matches_nothing(user: User) -> None:
    trusted = {"Effect": "Allow", "Principal": {"AWS": ADA}, "Action": ["sts:AssumeRole", "sts:TagSession"]}
    arn = user.iam.create_role(RoleName="team", AssumeRolePolicyDocument=make_policy(trusted))["Role"]["Arn"]
    own = allow_statement(Action="ecr:CreateRepository", Resource="arn:aws:ecr:*:*:repository/${aws:PrincipalTag/team}*")
    user.iam.put_role_policy(RoleName="team", PolicyName="own", PolicyDocument=make_policy(own))
    assert "ecr:CreateRepository" in catch_error_message(
        lambda: user.create_role_client("ecr", arn).create_repository(repositoryName="red")
    )
    user.create_role_client("ecr", arn, Tags=[{"Key": "team", "Value": "red"}]).create_repository(repositoryName="red")


# --- resources and conditions


def test_a_policy_for_one_resource_allows_no_other_resource(user: User, aws: Client) -> None:
    first, second = (aws("ec2").create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"] for _ in range(2))
    user.allow(allow_statement(Action="ec2:DeleteVpc", Resource=f"arn:aws:ec2:{REGION}:{ACCOUNT}:vpc/{first}"))
    user("ec2").delete_vpc(VpcId=first)
    assert f"on resource: arn:aws:ec2:{REGION}:{ACCOUNT}:vpc/{second}" in catch_error_message(
        lambda: user("ec2").delete_vpc(VpcId=second)
    )


def test_an_action_without_resource_types_requires_resource_wildcard(user: User) -> None:
    user.allow(allow_statement(Action="ec2:DescribeVpcs", Resource=f"arn:aws:ec2:{REGION}:{ACCOUNT}:vpc/*"))
    assert "on resource: * because" in catch_error_message(lambda: user("ec2").describe_vpcs())


def test_an_unknown_resource_requires_a_policy_for_all_resources(user: User, aws: Client) -> None:
    """The local cloud cannot determine which resources ec2:DescribeIdFormat accesses."""
    call = lambda: user("ec2").describe_id_format()  # noqa: E731
    user.allow(allow_statement(Action="ec2:DescribeIdFormat", Resource="arn:aws:ec2:*"))
    assert "ec2:DescribeIdFormat" in catch_error_message(call)
    user.allow(EVERYTHING, {"Effect": "Deny", "Action": "ec2:DescribeIdFormat", "Resource": "arn:aws:ec2:*"})
    assert "with an explicit deny" in catch_error_message(call)


def test_policies_can_require_resource_tags_and_request_tags(user: User, aws: Client) -> None:
    tags = [{"ResourceType": "vpc", "Tags": [{"Key": "team", "Value": "red"}]}]
    tagged = aws("ec2").create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tags)["Vpc"]["VpcId"]
    other = aws("ec2").create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    user.allow(
        allow_statement(Action="ec2:DeleteVpc", Resource="*", Condition={"StringEquals": {"aws:ResourceTag/team": "red"}}),
        allow_statement(Action="ec2:CreateVpc", Resource="*", Condition={"StringEquals": {"aws:RequestTag/team": "red"}}),
        allow_statement(Action="ec2:CreateTags", Resource="*", Condition={"StringEquals": {"ec2:CreateAction": "CreateVpc"}}),
    )
    assert "ec2:DeleteVpc" in catch_error_message(lambda: user("ec2").delete_vpc(VpcId=other))
    user("ec2").delete_vpc(VpcId=tagged)
    assert "ec2:CreateVpc" in catch_error_message(lambda: user("ec2").create_vpc(CidrBlock="10.0.0.0/16"))
    user("ec2").create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tags)
    assert "ec2:CreateTags" in catch_error_message(lambda: user("ec2").create_tags(Resources=[other], Tags=tags[0]["Tags"]))


def test_tags_in_a_request_count_only_for_the_resource_that_it_creates(user: User, aws: Client) -> None:
    """https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html"""
    tags = [{"Key": "team", "Value": "red"}]
    tagged = [{"ResourceType": "vpc", "Tags": tags}]
    own = aws("ec2").create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tagged)["Vpc"]["VpcId"]
    other = aws("ec2").create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    user.allow(
        allow_statement(Action="ec2:CreateSubnet", Resource="*", Condition={"StringEquals": {"aws:RequestTag/team": "red"}}),
        allow_statement(Action="ec2:CreateSubnet", Resource="*", Condition={"StringEquals": {"aws:ResourceTag/team": "red"}}),
        allow_statement(Action="ec2:CreateTags", Resource="*", Condition={"StringEquals": {"ec2:CreateAction": "CreateSubnet"}}),
    )
    more = {"CidrBlock": "10.0.0.0/24", "TagSpecifications": [{"ResourceType": "subnet", "Tags": tags}]}
    user("ec2").create_subnet(VpcId=own, **more)
    assert "ec2:CreateSubnet" in catch_error_message(lambda: user("ec2").create_subnet(VpcId=other, **more))


def test_a_role_can_be_passed_only_to_services_named_in_the_policy(user: User, aws: Client) -> None:
    aws("iam").create_role(RoleName="node", AssumeRolePolicyDocument=make_trust_policy({"Service": "ec2.amazonaws.com"}))
    aws("iam").create_instance_profile(InstanceProfileName="node")
    add = lambda: user("iam").add_role_to_instance_profile(InstanceProfileName="node", RoleName="node")  # noqa: E731
    adding = allow_statement(Action="iam:AddRoleToInstanceProfile", Resource="*")
    for service in ("eks.amazonaws.com", "ec2.amazonaws.com"):
        passing = allow_statement(
            Action="iam:PassRole", Resource="*", Condition={"StringEquals": {"iam:PassedToService": service}}
        )
        user.allow(adding, passing)
        if service == "eks.amazonaws.com":
            assert "is not authorized to perform: iam:PassRole" in catch_error_message(add)
    add()


# --- policies of resources


def test_a_bucket_policy_that_names_the_user_is_sufficient(user: User, aws: Client) -> None:
    aws("s3").create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": REGION})
    for principal, allowed in ((f"arn:aws:iam::{ACCOUNT}:root", False), (ADA, True)):
        statement = allow_statement(Action="s3:ListBucket", Resource="arn:aws:s3:::data", Principal={"AWS": principal})
        aws("s3").put_bucket_policy(Bucket="data", Policy=make_policy(statement))
        if allowed:
            user("s3").list_objects_v2(Bucket="data")
        else:
            assert "s3:ListBucket" in catch_error_message(lambda: user("s3").list_objects_v2(Bucket="data"))


def test_an_identity_policy_alone_does_not_allow_use_of_a_kms_key(user: User, aws: Client) -> None:
    """https://docs.aws.amazon.com/kms/latest/developerguide/key-policies.html"""
    user.allow(EVERYTHING)
    own = allow_statement(Action="kms:*", Resource="*", Principal={"AWS": USER_ARN})
    account = allow_statement(Action="kms:DescribeKey", Resource="*", Principal={"AWS": f"arn:aws:iam::{ACCOUNT}:root"})
    key = aws("kms").create_key(Policy=make_policy(own))["KeyMetadata"]["KeyId"]
    message = catch_error_message(lambda: user("kms").describe_key(KeyId=key))
    assert "because no resource-based policy allows the kms:DescribeKey action" in message
    aws("kms").put_key_policy(KeyId=key, PolicyName="default", Policy=make_policy(own, account))
    user("kms").describe_key(KeyId=key)


def test_unsigned_requests_are_refused(aws: Client) -> None:
    anonymous = Config(signature_version=UNSIGNED, retries={"total_max_attempts": 1})
    iam, s3 = (boto3.client(service, REGION, config=anonymous) for service in ("iam", "s3"))
    assert catch_error(lambda: iam.list_roles())[0] == "MissingAuthenticationToken"
    aws("s3").create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": REGION})
    assert catch_error(lambda: s3.list_objects_v2(Bucket="data"))[0] == "AccessDenied"


def test_the_error_message_of_a_denied_ec2_request_can_be_decoded(user: User, aws: Client) -> None:
    text = catch_error_message(lambda: user("ec2").create_vpc(CidrBlock="10.0.0.0/16")).rsplit(": ", 1)[-1]
    decoded = json.loads(aws("sts").decode_authorization_message(EncodedMessage=text)["DecodedMessage"])
    context = decoded["context"]
    assert (decoded["allowed"], context["action"], context["principal"]["arn"]) == (False, "ec2:CreateVpc", ADA)
