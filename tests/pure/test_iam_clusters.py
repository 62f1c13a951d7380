"""Actions that the policies for EC2 clusters and for jobs' buckets allow and deny."""

from collections.abc import Mapping

import pytest

from infra.components import iam
from localcloud.aws.policy_evaluation import Request, allows
from tests.pure.test_iam import ACCOUNT, FILE_SYSTEM, IDENTITY

# --- EC2 clusters

WORKERS = "arn:aws:autoscaling:us-west-2:123456789012:autoScalingGroup:6f9e:autoScalingGroupName/gpumpi-x-workers"


@pytest.mark.parametrize(
    ("action", "resource", "allowed"),
    [
        ("autoscaling:CompleteLifecycleAction", WORKERS, True),
        ("autoscaling:CompleteLifecycleAction", WORKERS + "-2", False),
        ("autoscaling:CompleteLifecycleAction", WORKERS.replace("gpumpi-x", "gpumpi-y"), False),
        ("autoscaling:CompleteLifecycleAction", WORKERS.replace("us-west-2", "eu-west-1"), False),
        ("autoscaling:SetDesiredCapacity", WORKERS, False),
        ("autoscaling:TerminateInstanceInAutoScalingGroup", WORKERS, False),
    ],
)
def test_worker_can_only_complete_the_join_of_its_own_group(action: str, resource: str, allowed: bool) -> None:
    assert allows(Request(action, resource), IDENTITY["allow_join_completion"]) is allowed


@pytest.mark.parametrize(
    ("action", "allowed"),
    [
        ("autoscaling:DescribeAutoScalingGroups", True),
        ("autoscaling:DescribeAutoScalingInstances", True),
        ("ec2:DescribeInstances", True),
        ("ec2:DescribeInstanceAttribute", False),
        ("ec2:RunInstances", False),
        ("ec2:CreateTags", False),
    ],
)
def test_node_can_list_cluster_members_but_cannot_make_itself_a_member(action: str, allowed: bool) -> None:
    assert allows(Request(action, "*"), IDENTITY["allow_member_lookup"]) is allowed


ACCESS_POINT = "arn:aws:elasticfilesystem:us-west-2:123456789012:access-point/fsap-1"


@pytest.mark.parametrize(
    ("action", "resource", "context", "allowed"),
    [
        ("elasticfilesystem:ClientMount", FILE_SYSTEM, {"elasticfilesystem:AccessPointArn": ACCESS_POINT}, True),
        ("elasticfilesystem:ClientWrite", FILE_SYSTEM, {"elasticfilesystem:AccessPointArn": ACCESS_POINT}, True),
        ("elasticfilesystem:ClientMount", FILE_SYSTEM, {}, False),
        ("elasticfilesystem:ClientMount", FILE_SYSTEM, {"elasticfilesystem:AccessPointArn": ACCESS_POINT + "2"}, False),
        ("elasticfilesystem:ClientMount", FILE_SYSTEM + "2", {"elasticfilesystem:AccessPointArn": ACCESS_POINT}, False),
        ("elasticfilesystem:ClientRootAccess", FILE_SYSTEM, {"elasticfilesystem:AccessPointArn": ACCESS_POINT}, False),
    ],
)
def test_node_can_mount_only_through_its_access_point(
    action: str, resource: str, context: Mapping[str, str], allowed: bool
) -> None:
    assert allows(Request(action, resource, context), IDENTITY["allow_mount_by_access_point"]) is allowed


# --- buckets of jobs

DATA = "arn:aws:s3:::datasets"
PATHS = [iam.BucketPath("datasets", "digits/", False), iam.BucketPath("models", "", True)]


@pytest.mark.parametrize(
    ("action", "resource", "prefix", "allowed"),
    [
        ("s3:GetObject", f"{DATA}/digits/a.csv", None, True),
        ("s3:GetObject", f"{DATA}/digits", None, True),
        ("s3:GetObject", f"{DATA}/digits-of-others", None, False),
        ("s3:PutObject", f"{DATA}/digits/a.csv", None, False),
        ("s3:ListBucket", DATA, "digits/", True),
        ("s3:ListBucket", DATA, "", False),
        ("s3:PutObject", "arn:aws:s3:::models/a", None, True),
        ("s3:DeleteObject", "arn:aws:s3:::models/a/b", None, True),
        ("s3:ListBucket", "arn:aws:s3:::models", "", True),
        ("s3:PutBucketPolicy", "arn:aws:s3:::models", None, False),
        ("s3:GetObject", "arn:aws:s3:::others/a", None, False),
    ],
)
def test_jobs_can_use_only_the_listed_bucket_paths(action: str, resource: str, prefix: str | None, allowed: bool) -> None:
    context = {} if prefix is None else {"s3:prefix": prefix}
    assert allows(Request(action, resource, context), iam.allow_bucket_access(ACCOUNT, PATHS)) is allowed
