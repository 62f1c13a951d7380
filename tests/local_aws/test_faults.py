"""Injected faults."""

from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from localcloud.aws import calls, faults
from localcloud.aws.faults import Fault
from testkit.aws_clients import REGION, Client, LocalAws


def catch_error(call: Any, **params: Any) -> dict[str, Any]:
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
def test_an_injected_fault_has_the_same_error_format_as_aws_in_every_protocol(
    aws: Client, service: str, operation: str, method: str, params: dict[str, Any], code: str, status: int
) -> None:
    faults.add_fault(Fault(service, operation, code, "Injected."))
    error = catch_error(getattr(aws(service), method), **params)
    assert error["Error"]["Code"] == code
    assert error["Error"]["Message"] == "Injected."
    assert error["ResponseMetadata"]["HTTPStatusCode"] == status


def test_a_fault_with_a_count_fails_that_many_calls_and_then_stops(aws: Client) -> None:
    faults.add_fault(Fault("ec2", "CreateVpc", "VpcLimitExceeded", times=2))
    ec2 = aws("ec2")
    for _ in range(2):
        assert catch_error(ec2.create_vpc, CidrBlock="10.0.0.0/16")["Error"]["Code"] == "VpcLimitExceeded"
    assert ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["State"]
    assert faults.list_active_faults() == []


def test_a_call_failed_by_an_injected_fault_changes_nothing(aws: Client) -> None:
    faults.add_fault(Fault("ec2", "CreateVpc", "VpcLimitExceeded"))
    catch_error(aws("ec2").create_vpc, CidrBlock="10.0.0.0/16")
    assert [vpc for vpc in aws("ec2").describe_vpcs()["Vpcs"] if not vpc["IsDefault"]] == []


def test_an_injected_fault_affects_only_matching_calls(aws: Client) -> None:
    faults.add_fault(Fault("ec2", "CreateTags", "AccessDenied", match={"Tags.0.Key": "team*"}))
    faults.add_fault(Fault("iam", "*Role", "AccessDenied", match={"RoleName": "other"}))
    ec2 = aws("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    ec2.create_tags(Resources=[vpc], Tags=[{"Key": "owner", "Value": "x"}])
    assert (
        catch_error(ec2.create_tags, Resources=[vpc], Tags=[{"Key": "team-a", "Value": "x"}])["Error"]["Code"] == "AccessDenied"
    )
    assert catch_error(aws("iam").get_role, RoleName="mine")["Error"]["Code"] == "NoSuchEntity"
    assert catch_error(aws("iam").get_role, RoleName="other")["Error"]["Code"] == "AccessDenied"


def test_an_injected_fault_can_skip_the_first_calls(aws: Client) -> None:
    faults.add_fault(Fault("sqs", "CreateQueue", "InternalFailure", after=2))
    sqs = aws("sqs")
    sqs.create_queue(QueueName="a")
    sqs.create_queue(QueueName="b")
    assert catch_error(sqs.create_queue, QueueName="c")["Error"]["Code"] == "InternalFailure"


def test_an_sdk_retries_the_same_faults_as_with_aws(aws: Client) -> None:
    faults.add_fault(Fault("ec2", "DescribeVpcs", "RequestLimitExceeded", times=2))
    faults.add_fault(Fault("ec2", "DescribeSubnets", "UnauthorizedOperation", status=403))
    ec2 = boto3.client("ec2", REGION, config=Config(retries={"total_max_attempts": 3, "mode": "standard"}))
    assert ec2.describe_vpcs()["Vpcs"]
    assert catch_error(ec2.describe_subnets)["ResponseMetadata"]["RetryAttempts"] == 0
    assert calls.get_counts()[("ec2", "DescribeVpcs")].calls == 3


def test_a_reset_removes_all_faults(server: LocalAws) -> None:
    fault = {"service": "ec2", "operation": "CreateVpc", "code": "VpcLimitExceeded", "message": "No more.", "times": 9}
    server.call_control_api("POST", "faults", fault)
    assert catch_error(server.client("ec2").create_vpc, CidrBlock="10.0.0.0/16")["Error"]["Message"] == "No more."
    assert [pending["times"] for pending in server.call_control_api("GET", "faults")] == [8]
    server.call_control_api("POST", "reset")
    assert server.call_control_api("GET", "faults") == []
    server.client("ec2").create_vpc(CidrBlock="10.0.0.0/16")


def test_injected_faults_can_be_removed(server: LocalAws) -> None:
    server.call_control_api("POST", "faults", {"service": "s3", "operation": "ListBuckets", "code": "SlowDown"})
    server.call_control_api("DELETE", "faults")
    assert server.client("s3").list_buckets()["Buckets"] == []
