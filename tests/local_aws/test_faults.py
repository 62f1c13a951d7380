"""Injected faults."""

from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from localcloud.aws import calls, faults
from localcloud.aws.faults import Fault
from testkit.aws_clients import REGION, Client, LocalAws


def error_of(call: Any, **params: Any) -> dict[str, Any]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    response: dict[str, Any] = caught.value.response
    return response


@pytest.mark.parametrize(
    ("service", "operation", "method", "params", "code", "status"),
    [
        ("ec2", "RunInstances", "run_instances", {"MinCount": 1, "MaxCount": 1}, "InsufficientInstanceCapacity", 500),
        ("ec2", "CreateVpc", "create_vpc", {"CidrBlock": "10.0.0.0/16"}, "RequestLimitExceeded", 503),
        ("iam", "ListRoles", "list_roles", {}, "Throttling", 400),
        ("iam", "ListRoles", "list_roles", {}, "AccessDenied", 403),
        ("kms", "CreateKey", "create_key", {}, "ThrottlingException", 400),
        ("kms", "CreateKey", "create_key", {}, "KMSInternalException", 500),
        ("eks", "ListClusters", "list_clusters", {}, "AccessDeniedException", 403),
        ("eks", "ListClusters", "list_clusters", {}, "ServerException", 500),
        ("efs", "DescribeFileSystems", "describe_file_systems", {}, "InternalServerError", 500),
        ("s3", "ListBuckets", "list_buckets", {}, "SlowDown", 503),
        ("logs", "CreateLogGroup", "create_log_group", {"logGroupName": "g"}, "LimitExceededException", 400),
        ("sts", "GetCallerIdentity", "get_caller_identity", {}, "RegionDisabledException", 403),
    ],
)
def test_a_fault_in_any_protocol_looks_like_awss_error(
    aws: Client, service: str, operation: str, method: str, params: dict[str, Any], code: str, status: int
) -> None:
    faults.add(Fault(service, operation, code, "Injected."))
    error = error_of(getattr(aws(service), method), **params)
    assert error["Error"]["Code"] == code
    assert error["Error"]["Message"] == "Injected."
    assert error["ResponseMetadata"]["HTTPStatusCode"] == status


def test_a_fault_with_a_count_fails_that_often_and_then_passes(aws: Client) -> None:
    faults.add(Fault("ec2", "CreateVpc", "VpcLimitExceeded", times=2))
    ec2 = aws("ec2")
    for _ in range(2):
        assert error_of(ec2.create_vpc, CidrBlock="10.0.0.0/16")["Error"]["Code"] == "VpcLimitExceeded"
    assert ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["State"]
    assert faults.pending() == []


def test_a_failed_call_changes_nothing(aws: Client) -> None:
    faults.add(Fault("ec2", "CreateVpc", "VpcLimitExceeded"))
    error_of(aws("ec2").create_vpc, CidrBlock="10.0.0.0/16")
    assert [vpc for vpc in aws("ec2").describe_vpcs()["Vpcs"] if not vpc["IsDefault"]] == []


def test_a_fault_fails_only_matching_calls(aws: Client) -> None:
    faults.add(Fault("ec2", "CreateTags", "AccessDenied", match={"Tags.0.Key": "team*"}))
    faults.add(Fault("iam", "*Role", "AccessDenied", match={"RoleName": "other"}))
    ec2 = aws("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    ec2.create_tags(Resources=[vpc], Tags=[{"Key": "owner", "Value": "x"}])
    assert error_of(ec2.create_tags, Resources=[vpc], Tags=[{"Key": "team-a", "Value": "x"}])["Error"]["Code"] == "AccessDenied"
    assert error_of(aws("iam").get_role, RoleName="mine")["Error"]["Code"] == "NoSuchEntity"
    assert error_of(aws("iam").get_role, RoleName="other")["Error"]["Code"] == "AccessDenied"


def test_a_fault_can_spare_the_first_calls(aws: Client) -> None:
    faults.add(Fault("sqs", "CreateQueue", "InternalFailure", after=2))
    sqs = aws("sqs")
    sqs.create_queue(QueueName="a")
    sqs.create_queue(QueueName="b")
    assert error_of(sqs.create_queue, QueueName="c")["Error"]["Code"] == "InternalFailure"


def test_an_sdk_retries_the_same_faults_as_on_aws(aws: Client) -> None:
    faults.add(Fault("ec2", "DescribeVpcs", "RequestLimitExceeded", times=2))
    faults.add(Fault("ec2", "DescribeSubnets", "UnauthorizedOperation", status=403))
    ec2 = boto3.client("ec2", REGION, config=Config(retries={"total_max_attempts": 3, "mode": "standard"}))
    assert ec2.describe_vpcs()["Vpcs"]
    assert error_of(ec2.describe_subnets)["ResponseMetadata"]["RetryAttempts"] == 0
    assert calls.counts()[("ec2", "DescribeVpcs")].calls == 3


def test_a_reset_forgets_faults(server: LocalAws) -> None:
    fault = {"service": "ec2", "operation": "CreateVpc", "code": "VpcLimitExceeded", "message": "No more.", "times": 9}
    server.control("POST", "faults", fault)
    assert error_of(server.client("ec2").create_vpc, CidrBlock="10.0.0.0/16")["Error"]["Message"] == "No more."
    assert [pending["times"] for pending in server.control("GET", "faults")] == [8]
    server.control("POST", "reset")
    assert server.control("GET", "faults") == []
    server.client("ec2").create_vpc(CidrBlock="10.0.0.0/16")


def test_faults_can_be_removed(server: LocalAws) -> None:
    server.control("POST", "faults", {"service": "s3", "operation": "ListBuckets", "code": "SlowDown"})
    server.control("DELETE", "faults")
    assert server.client("s3").list_buckets()["Buckets"] == []
