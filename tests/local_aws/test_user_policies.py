"""The policies in docs/iam: their format, and the calls that fail if an action is missing."""

import io
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from botocore.exceptions import ClientError
from moto.s3.models import s3_backends

from infra.jobs import storage
from localcloud.aws.account import ACCOUNT
from localcloud.aws.iam import MANAGED_POLICY_SIZE
from localcloud.aws.permissions import actions
from localcloud.aws.s3 import actions as s3_actions
from testkit import iam_policies
from testkit.aws_clients import REGION, Client
from tests.local_aws.documents import make_trust_policy

Call = Callable[[Client], Any]
TAGS = [{"Key": "gpumpi:stack", "Value": "tiny"}]


@pytest.mark.parametrize("path", iam_policies.list_policy_files(), ids=lambda path: path.stem)
def test_iam_accepts_each_documented_policy(aws: Client, path: Path) -> None:
    document = path.read_text()
    assert len(re.sub(r"\s", "", document)) < MANAGED_POLICY_SIZE
    aws("iam").create_policy(PolicyName=path.stem, PolicyDocument=document)


def test_each_allowed_action_has_a_documented_source() -> None:
    allowed = set().union(*map(iam_policies.list_allowed_actions, iam_policies.list_policy_files()))
    assert set(iam_policies.read_action_sources()) == allowed


def test_each_source_path_in_this_repository_exists() -> None:
    root = iam_policies.FOLDER.parents[1]
    named = {
        path
        for text in iam_policies.read_action_sources().values()
        for path in re.findall(r"\b(?:cli|infra|localcloud)/[\w/]+\.py", text)
    }
    assert [path for path in sorted(named) if not (root / path).exists()] == []


def test_no_policy_allows_an_unknown_action() -> None:
    documented = {*actions.load_resource_types(), "eks:DescribeClusterVersions", "route53:AssociateVPCWithHostedZone"}
    unknown = {
        action for action in iam_policies.read_action_sources() if action not in documented and not action.startswith("s3:")
    }
    assert unknown == set()


def create_vpc(aws: Client) -> Any:
    tags = [{"ResourceType": "vpc", "Tags": TAGS}]
    return aws("ec2").create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tags)["Vpc"]


def create_role(aws: Client, service: str = "ec2.amazonaws.com", name: str = "gpumpi-tiny-role") -> str:
    document = make_trust_policy({"Service": service})
    return str(aws("iam").create_role(RoleName=name, AssumeRolePolicyDocument=document, Tags=TAGS)["Role"]["Arn"])


def create_cluster(aws: Client) -> None:
    network = create_vpc(aws)["VpcId"]
    subnets = [
        aws("ec2").create_subnet(VpcId=network, CidrBlock=f"10.0.{place}.0/24", AvailabilityZone=REGION + zone)["Subnet"][
            "SubnetId"
        ]
        for place, zone in enumerate("ab")
    ]
    aws("eks").create_cluster(
        name="gpumpi-tiny", roleArn=create_role(aws, "eks.amazonaws.com"), resourcesVpcConfig={"subnetIds": subnets}
    )


def create_bucket(aws: Client) -> None:
    aws("s3").create_bucket(Bucket="gpumpi-tiny", CreateBucketConfiguration={"LocationConstraint": REGION})


def create_repository(aws: Client) -> None:
    aws("ecr").create_repository(repositoryName="gpumpi-tiny/mpi", tags=TAGS)


def create_file_system(aws: Client) -> None:
    aws("efs").create_file_system(CreationToken="tiny", Tags=TAGS)


def create_group(aws: Client) -> None:
    """Create an Auto Scaling group with a launch template and no instances."""
    ec2 = aws("ec2")
    subnet = ec2.create_subnet(VpcId=create_vpc(aws)["VpcId"], CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    data = {"ImageId": image, "InstanceType": "c7i.large"}
    ec2.create_launch_template(LaunchTemplateName="gpumpi-tiny", LaunchTemplateData=data)
    template = {"LaunchTemplateName": "gpumpi-tiny", "Version": "1"}
    aws("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName="gpumpi-tiny", MinSize=0, MaxSize=1, LaunchTemplate=template, VPCZoneIdentifier=subnet
    )


NEEDED: list[tuple[str, Call, str]] = [
    ("ec2:CreateVpc", create_vpc, "UnauthorizedOperation"),
    ("ec2:CreateTags", create_vpc, "UnauthorizedOperation"),
    ("ec2:RunInstances", create_group, "ValidationError"),
    ("autoscaling:CreateAutoScalingGroup", create_group, "AccessDenied"),
    ("iam:CreateRole", create_role, "AccessDenied"),
    ("iam:TagRole", create_role, "AccessDenied"),
    ("iam:PassRole", create_cluster, "AccessDeniedException"),
    ("iam:CreateServiceLinkedRole", create_cluster, "AccessDeniedException"),
    ("eks:CreateCluster", create_cluster, "AccessDeniedException"),
    ("s3:CreateBucket", create_bucket, "AccessDenied"),
    ("ecr:CreateRepository", create_repository, "AccessDeniedException"),
    ("elasticfilesystem:CreateFileSystem", create_file_system, "AccessDeniedException"),
    ("kms:CreateKey", lambda aws: aws("kms").create_key(), "AccessDeniedException"),
    ("logs:CreateLogGroup", lambda aws: aws("logs").create_log_group(logGroupName="/gpumpi/tiny"), "AccessDeniedException"),
]
"""An action in up.json, a call that needs this action, and AWS's error code if the action is not allowed."""


@pytest.mark.parametrize(("action", "call", "code"), NEEDED, ids=[action for action, _, _ in NEEDED])
@pytest.mark.parametrize("allowed", [True, False], ids=["allowed", "refused"])
def test_a_call_fails_without_its_required_action(aws: Client, action: str, call: Call, code: str, allowed: bool) -> None:
    up = iam_policies.read_policy("up")
    iam_policies.restrict_user(aws, [iam_policies.read_policy("read"), up if allowed else iam_policies.remove_action(up, action)])
    if allowed:
        call(aws)
        return
    with pytest.raises(ClientError) as caught:
        call(aws)
    assert caught.value.response["Error"]["Code"] == code
    assert action in str(caught.value) or "Encoded authorization failure message" in str(caught.value)


def test_the_policies_grant_no_access_to_resources_of_others(aws: Client) -> None:
    admin = aws("iam")
    admin.create_role(RoleName="theirs", AssumeRolePolicyDocument=make_trust_policy({"Service": "ec2.amazonaws.com"}))
    other = aws("ec2").create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    iam_policies.restrict_user(aws, map(iam_policies.read_policy, ("read", "up", "destroy", "daily")))
    for call in (
        lambda: aws("iam").delete_role(RoleName="theirs"),
        lambda: aws("ec2").delete_vpc(VpcId=other),
        lambda: aws("s3").create_bucket(Bucket="theirs", CreateBucketConfiguration={"LocationConstraint": REGION}),
        lambda: aws("eks").delete_cluster(name="theirs"),
        lambda: aws("iam").attach_user_policy(UserName="local-engineer", PolicyArn=f"arn:aws:iam::{ACCOUNT}:policy/x"),
    ):
        with pytest.raises(ClientError, match="not authorized"):
            call()


ROOT = iam_policies.FOLDER.parents[1]
PLUMBING = {"sts:GetCallerIdentity"}
"""Actions that need no permission."""
UNUSED = {"ec2:ModifyVpcTenancy", "kms:DisableKey", "kms:EnableKey"}
"""Actions that the emulated provider needs only for inputs that the program never sets."""
TRANSFERS = {"upload_fileobj": {"s3:PutObject"}, "download_file": {"s3:GetObject"}}
CALLERS: list[tuple[str, tuple[str, ...]]] = [
    ("infra/facts/capacity.py", ("capacity", "read")),
    ("infra/facts", ("read",)),
    ("infra/checks", ("read",)),
    ("infra/program.py", ("up",)),
    ("infra/recovery/backend_locks.py", ()),
    ("infra/recovery", ("read",)),
    ("cli/capacity", ("capacity", "read")),
    ("cli/clusters/acceptance", ("read", "daily")),
    ("cli/local", ()),
    ("cli/demo", ()),
    ("cli", ("daily",)),
    ("localcloud/engine/aws/resources", ("read", "up", "destroy")),
]
"""Path prefix of modules that call AWS, and the policies of their users. The first matching prefix applies.

Modules without policies call only the local AWS, as an administrator, or read the state in Pulumi's backend.
"""


@cache
def map_method_actions() -> dict[str, set[str]]:
    """Return a mapping from boto3 method names to the IAM actions of the operations with this name, for all services
    that we use."""
    session, by_method = botocore.session.get_session(), dict(TRANSFERS)
    services = ("autoscaling", "ec2", "ecr", "efs", "eks", "fsx", "iam", "kms", "logs", "pricing", "s3", "service-quotas", "sts")
    for service in services:
        for operation in session.get_service_model(service).operation_names:
            name = s3_actions.ACTIONS.get(operation, operation) if service == "s3" else operation
            by_method.setdefault(xform_name(operation), set()).add(f"{actions.get_action_prefix(service)}:{name}")
    return by_method


def find_calls(module: Path) -> dict[str, set[str]]:
    """Return the boto3 methods that a module calls or passes by name, with their IAM actions."""
    text = module.read_text()
    names = re.findall(r"\.([a-z]+(?:_[a-z0-9]+)+)\(", text) + re.findall(r'"([a-z]+(?:_[a-z0-9]+)+)"', text)
    return {name: map_method_actions()[name] for name in names if name in map_method_actions()}


def test_the_policies_allow_every_aws_call_in_the_code() -> None:
    lacking, calls = [], 0
    for module in sorted(file for folder in ("infra", "cli", "localcloud/engine") for file in (ROOT / folder).rglob("*.py")):
        path = str(module.relative_to(ROOT))
        policies = next((policies for beginning, policies in CALLERS if path.startswith(beginning)), ())
        if not policies:
            continue
        allowed = set().union(
            PLUMBING, UNUSED, *(iam_policies.list_allowed_actions(iam_policies.FOLDER / f"{policy}.json") for policy in policies)
        )
        for method, possible in find_calls(module).items():
            calls += 1
            if not possible & allowed:
                lacking.append(f"{path}: {method} needs {' or '.join(sorted(possible))} in {' or '.join(policies)}.json")
    assert lacking == []
    assert calls > 200


def test_daily_users_can_upload_and_delete_only_job_folders(aws: Client) -> None:
    create_bucket(aws)
    iam_policies.restrict_user(aws, [iam_policies.read_policy("daily")])
    s3, key = aws("s3"), f"{storage.build_archive_prefix('mpi-jobs', 'digest')}id.tar.gz"
    s3.upload_fileobj(io.BytesIO(b"x"), "gpumpi-tiny", key)
    s3.copy_object(Bucket="gpumpi-tiny", Key=f"{key}.copy", CopySource={"Bucket": "gpumpi-tiny", "Key": key})
    s3.delete_object(Bucket="gpumpi-tiny", Key=key)
    with pytest.raises(ClientError, match="AccessDenied"):
        s3.put_object(Bucket="gpumpi-tiny", Key="known-hosts/forged", Body=b"x")


def test_daily_users_cannot_upload_folders_to_buckets_of_another_account(aws: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    create_bucket(aws)
    iam_policies.restrict_user(aws, [iam_policies.read_policy("daily")])
    monkeypatch.setitem(s3_backends.bucket_accounts, "gpumpi-tiny", ("aws", "999999999999"))
    key = f"{storage.build_archive_prefix('mpi-jobs', 'digest')}id.tar.gz"
    with pytest.raises(ClientError, match="AccessDenied"):
        aws("s3").put_object(Bucket="gpumpi-tiny", Key=key, Body=b"x")
    with pytest.raises(ClientError, match="AccessDenied"):
        aws("s3").delete_object(Bucket="gpumpi-tiny", Key=key)
