"""The gateway of the local AWS: how it identifies and rejects requests, extends moto's operations, and publishes
events.
"""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.ec2.exceptions import InvalidSubnetIdError

from localcloud.aws import calls, events, patching
from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.events import Event
from testkit.aws_clients import Client

Extend = Callable[[str, str, patching.Handler], None]


@pytest.fixture
def register_handler(monkeypatch: pytest.MonkeyPatch) -> Extend:
    """Register a handler for an operation during one test."""
    return lambda service, name, handler: monkeypatch.setitem(patching._operations, (service, name), handler)


def catch_error(call: Any, **params: Any) -> dict[str, Any]:
    with pytest.raises(ClientError) as caught:
        call(**params)
    response: dict[str, Any] = caught.value.response
    return response


@pytest.mark.parametrize(
    ("service", "operation", "method", "params", "answer"),
    [
        (
            "ec2",
            "DescribeInstanceTopology",
            "describe_instance_topology",
            {"InstanceIds": ["i-1"], "Filters": [{"Name": "zone-id", "Values": ["a", "b"]}]},
            {"Instances": [{"InstanceId": "i-1", "NetworkNodes": ["nn-1", "nn-2"]}]},
        ),
        (
            "iam",
            "ListVirtualMFADevices",
            "list_virtual_mfa_devices",
            {"AssignmentStatus": "Any"},
            {"VirtualMFADevices": [{"SerialNumber": "arn:aws:iam::1:mfa/1"}], "IsTruncated": False},
        ),
        (
            "kms",
            "DescribeCustomKeyStores",
            "describe_custom_key_stores",
            {"Limit": 5},
            {"CustomKeyStores": [], "Truncated": False},
        ),
        ("eks", "ListInsights", "list_insights", {"clusterName": "c/d e", "filter": {"statuses": ["ERROR"]}}, {"insights": []}),
        ("s3", "GetBucketAbac", "get_bucket_abac", {"Bucket": "some-bucket"}, {"AbacStatus": {"Status": "Enabled"}}),
    ],
)
def test_an_api_extension_receives_parsed_parameters_and_returns_a_response(
    aws: Client,
    register_handler: Extend,
    service: str,
    operation: str,
    method: str,
    params: dict[str, Any],
    answer: dict[str, Any],
) -> None:
    calls: list[Call] = []

    def handler(call: Call) -> dict[str, Any]:
        calls.append(call)
        return answer

    register_handler(service, operation, handler)
    got = getattr(aws(service), method)(**params)
    got.pop("ResponseMetadata")
    assert got == answer
    assert calls[0].params == params
    assert (calls[0].region, calls[0].account) == ("us-east-1" if service == "iam" else "us-west-2", "123456789012")


def test_an_api_extension_can_change_the_response_of_moto(aws: Client, register_handler: Extend) -> None:
    def handler(call: Call) -> dict[str, Any]:
        answer = call.moto()
        answer["Vpcs"] = [{**vpc, "OwnerId": "someone"} for vpc in answer["Vpcs"]]
        return answer

    register_handler("ec2", "DescribeVpcs", handler)
    assert {vpc["OwnerId"] for vpc in aws("ec2").describe_vpcs()["Vpcs"]} == {"someone"}


def test_an_error_from_moto_passes_through_an_api_extension(aws: Client, register_handler: Extend) -> None:
    register_handler("ec2", "DescribeVpcs", lambda call: call.moto())
    assert catch_error(aws("ec2").describe_vpcs, VpcIds=["vpc-00000000"])["Error"]["Code"] == "InvalidVpcID.NotFound"


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (AwsError("DependencyViolation", "It has dependencies."), "DependencyViolation", 400),
        (AwsError("UnauthorizedOperation", "You may not.", 403), "UnauthorizedOperation", 403),
        (InvalidSubnetIdError("subnet-1"), "InvalidSubnetID.NotFound", 400),
        (KeyError("surprise"), "InternalError", 500),
    ],
)
def test_an_exception_in_an_api_extension_becomes_a_service_error(
    aws: Client, register_handler: Extend, caplog: pytest.LogCaptureFixture, error: Exception, code: str, status: int
) -> None:
    def handler(call: Call) -> None:
        raise error

    register_handler("ec2", "DeleteVpc", handler)
    with caplog.at_level(logging.ERROR):
        response = catch_error(aws("ec2").delete_vpc, VpcId="vpc-1")
    assert (response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]) == (code, status)
    assert ("Traceback" in caplog.text) == (code == "InternalError")


def test_an_api_operation_cannot_be_extended_twice(register_handler: Extend) -> None:
    register_handler("ec2", "DescribeVpcs", lambda call: None)

    with pytest.raises(ValueError, match="extended twice"):

        @patching.operation("ec2", "DescribeVpcs")
        def other_handler(call: Call) -> None:
            """Never answers."""


@pytest.mark.parametrize(
    ("operation", "reads"),
    [("DescribeVpcs", True), ("GetCallerIdentity", True), ("ListRoles", True), ("HeadBucket", True), ("CreateVpc", False)],
)
def test_read_only_operations_are_counted_as_reads(operation: str, reads: bool) -> None:
    assert calls.is_read(operation) == reads


def test_every_emulator_receives_every_event_in_order(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[tuple[str, str]] = []

    def fail(event: Event) -> None:
        raise RuntimeError("cannot")

    ends = [
        events.register_realizer(lambda event: heard.append(("first", event.name))),
        events.register_realizer(fail),
        events.register_realizer(lambda event: heard.append(("last", event.name))),
    ]
    for name in ("c1", "c2"):
        events.publish_event(Event("cluster", "created", name, "us-west-2", "123456789012"))
    for end in ends:
        end()
    assert events.query_progress("cluster", "c2", "us-west-2", "123456789012").problem.endswith("failed: cannot")
    for name in ("c1", "c2"):
        events.publish_event(Event("cluster", "gone", name, "us-west-2", "123456789012"))
    assert heard == [("first", "c1"), ("last", "c1"), ("first", "c2"), ("last", "c2")]
    assert events.query_progress("cluster", "c2", "us-west-2", "123456789012") == events.DONE
    assert "the realizer of cluster c1 (created) failed: cannot" in caplog.text
