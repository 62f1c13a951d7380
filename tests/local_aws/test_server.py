"""The local AWS server, run as a separate process."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from werkzeug.test import Client

from infra.facts.clients import Clients
from localcloud.aws import account, extend
from localcloud.aws.listening import Offer
from localcloud.aws.server import Application
from localcloud.control import ControlError
from testkit.aws_clients import REGION, LocalAws, start_server, stop_server


def test_the_server_is_healthy_once_its_ready_file_exists(server: LocalAws) -> None:
    assert server.call_control_api("GET", "health")["status"] == "ok"


def test_get_caller_identity_returns_the_local_engineer(server: LocalAws) -> None:
    assert server.client("sts").get_caller_identity()["Arn"] == account.USER_ARN


@pytest.mark.parametrize(
    ("service", "operation", "code", "status"),
    [
        ("sts", "get_caller_identity", "InvalidClientTokenId", 403),
        ("iam", "list_roles", "InvalidClientTokenId", 403),
        ("ec2", "describe_vpcs", "AuthFailure", 401),
        ("eks", "list_clusters", "UnrecognizedClientException", 403),
        ("kms", "list_keys", "UnrecognizedClientException", 403),
        ("s3", "list_buckets", "InvalidAccessKeyId", 403),
    ],
)
def test_an_unknown_access_key_is_refused(server: LocalAws, service: str, operation: str, code: str, status: int) -> None:
    with pytest.raises(ClientError) as caught:
        getattr(server.client(service, aws_access_key_id="AKIAUNKNOWNUNKNOWN00"), operation)()
    assert caught.value.response["Error"]["Code"] == code
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status


@pytest.mark.parametrize(
    ("service", "operation", "params"),
    [
        ("ec2", "describe_instance_topology", {}),
        ("kms", "describe_custom_key_stores", {}),
        ("eks", "list_insights", {"clusterName": "c"}),
        ("iam", "simulate_custom_policy", {"PolicyInputList": ["{}"], "ActionNames": ["s3:GetObject"]}),
        ("s3", "put_bucket_metrics_configuration", {"Bucket": "b", "Id": "i", "MetricsConfiguration": {"Id": "i"}}),
        ("glacier", "purchase_provisioned_capacity", {"accountId": "-"}),
    ],
)
def test_an_operation_that_is_not_emulated_fails_with_an_error_that_sdks_do_not_retry(
    server: LocalAws, service: str, operation: str, params: dict[str, object]
) -> None:
    client = server.client(service)
    if service == "s3":
        client.create_bucket(Bucket="b" * 3, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        params = {**params, "Bucket": "b" * 3}
    with pytest.raises(ClientError) as caught:
        getattr(client, operation)(**params)
    error = caught.value.response
    assert error["Error"]["Code"] == "NotImplementedInLocalCloud"
    assert f"{service}.{client.meta.method_to_api_mapping[operation]}" in error["Error"]["Message"]
    assert error["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_reset_deletes_all_resources_of_the_account(server: LocalAws) -> None:
    server.client("sqs").create_queue(QueueName="q")
    server.call_control_api("POST", "reset")
    assert "QueueUrls" not in server.client("sqs").list_queues()
    assert server.client("sts").get_caller_identity()["Arn"] == account.USER_ARN


def test_api_calls_are_counted_per_operation_as_reads_and_writes(server: LocalAws) -> None:
    server.call_control_api("DELETE", "calls")
    ec2 = server.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    ec2.describe_vpcs(VpcIds=[vpc])
    ec2.describe_vpcs()
    with pytest.raises(ClientError):
        ec2.create_vpc(CidrBlock="10.0.0.0/8")
    counted = server.call_control_api("GET", "calls")
    assert (counted["reads"], counted["writes"]) == (2, 2)
    assert counted["operations"]["ec2.CreateVpc"]["errors"] == 1


def test_concurrent_clients_get_their_own_responses(server: LocalAws) -> None:
    ec2 = server.client("ec2")

    def create(number: int) -> str:
        cidr = f"10.{number}.0.0/16"
        vpc = ec2.create_vpc(CidrBlock=cidr)["Vpc"]
        assert vpc["CidrBlock"] == cidr
        return str(vpc["VpcId"])

    with ThreadPoolExecutor(16) as pool:
        created = set(pool.map(create, range(40)))
    listed = {vpc["VpcId"] for vpc in ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["false"]}])["Vpcs"]}
    assert len(created) == 40
    assert listed == created


def test_the_control_api_can_create_a_capacity_reservation(server: LocalAws) -> None:
    reservation = server.call_control_api(
        "POST", "capacity-reservations", {"instance_type": "p5.48xlarge", "zone": "us-west-2a", "count": 2}
    )
    reservations = server.client("ec2").describe_capacity_reservations(CapacityReservationIds=[reservation["id"]])[
        "CapacityReservations"
    ]
    assert reservations[0]["TotalInstanceCount"] == 2


def test_the_error_for_an_unknown_control_field_names_the_field(server: LocalAws) -> None:
    with pytest.raises(ControlError, match="unknown fields of a fault: tmies"):
        server.call_control_api("POST", "faults", {"service": "ec2", "operation": "CreateVpc", "code": "X", "tmies": 2})


OFFERED = {(): (404, 404), ("efs/mounts",): (404, 400), ("",): (200, 400)}
"""Maps each control API path that a socket exposes to the expected status codes of a health request and an empty mount
request. An empty mount request is always invalid.
"""


@pytest.mark.parametrize(("paths", "statuses"), OFFERED.items(), ids=["none", "mounts", "everything"])
def test_each_socket_serves_only_its_part_of_the_control_api(paths: tuple[str, ...], statuses: tuple[int, int]) -> None:
    extend.extend_moto()
    client, headers = Client(Application(Offer(paths, "secret"))), {"Authorization": "Bearer secret"}
    answers = (
        client.get("/local-cloud/health", headers=headers),
        client.post("/local-cloud/efs/mounts", headers=headers, json={}),
    )
    assert tuple(answer.status_code for answer in answers) == statuses


_DYNAMODB = "AWS4-HMAC-SHA256 Credential=A/20261129/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"


_SPLIT = "AWS4-HMAC-SHA256 Credential=a,/20261129/us-west-2/ec2/aws4_request, SignedHeaders=x-amz-date, Signature=b"


@pytest.mark.parametrize("authorization", ["\x02", "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=a/b", _DYNAMODB, _SPLIT])
def test_request_with_incomplete_signature_is_refused(authorization: str) -> None:
    extend.extend_moto()
    answer = Client(Application(Offer(("",), "secret"))).put("/bucket/key", headers={"Authorization": authorization})
    assert answer.status_code == 403


def test_sigterm_stops_the_server_and_removes_its_ready_file(tmp_path: Path) -> None:
    server = start_server(tmp_path)
    server.client("ec2").describe_vpcs()
    assert stop_server(server) == 0
    assert not (tmp_path / "ready.json").exists()
    assert "Traceback" not in server.log.read_text()


def test_clients_read_the_date_of_local_aws_from_its_responses(server: LocalAws, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cost` and `status` need this date, because the local AWS's clock determines the dates of instances and Capacity
    Blocks.
    """
    for name, value in {**server.key.environment, "AWS_ENDPOINT_URL": server.endpoint}.items():
        monkeypatch.setenv(name, value)
    clients, before = Clients(REGION), datetime.now(UTC)
    assert abs(clients.now() - before) < timedelta(hours=1), "before the first answer"
    server.call_control_api("POST", "clock", {"seconds": timedelta(days=3).total_seconds()})
    try:
        clients.sts.get_caller_identity()
        assert timedelta(days=3) - timedelta(seconds=2) <= clients.now() - before < timedelta(days=4)
    finally:
        server.call_control_api("POST", "reset")
