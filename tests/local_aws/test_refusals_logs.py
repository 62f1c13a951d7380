"""Calls that CloudWatch Logs rejects."""

import time

import pytest

from localcloud.aws.logs import RETENTION_DAYS
from testkit.aws_clients import Client
from tests.local_aws.documents import ACCOUNT_ROOT, allow_statement, make_policy
from tests.local_aws.refusals import Refusal

API = "https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_"
KEYS = "https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html"
CREATE, RETAIN = f"{API}CreateLogGroup.html", f"{API}PutRetentionPolicy.html"


PUT, NOW = f"{API}PutLogEvents.html", int(time.time() * 1000)


def reject_log_events(what: str, *aged_messages: tuple[int, str]) -> Refusal:
    """Return the expected rejection of these log events, given as (age in hours, message)."""
    log_events = [{"timestamp": NOW - hours * 3_600_000, "message": message} for hours, message in aged_messages]
    params = {"logGroupName": "group", "logStreamName": "stream", "logEvents": log_events}
    return Refusal(what, "put_log_events", params, "InvalidParameterException", PUT)


def reject_log_stream(what: str, name: str, code: str) -> Refusal:
    params = {"logGroupName": "group", "logStreamName": name}
    return Refusal(what, "create_log_stream", params, code, f"{API}CreateLogStream.html")


def reject_retention(days: int) -> Refusal:
    params = {"logGroupName": "group", "retentionInDays": days}
    return Refusal(f"{days} days", "put_retention_policy", params, "InvalidParameterException", RETAIN)


REFUSALS = [
    Refusal("a name in use", "create_log_group", {"logGroupName": "group"}, "ResourceAlreadyExistsException", CREATE),
    Refusal("a space in the name", "create_log_group", {"logGroupName": "my group"}, "InvalidParameterException", CREATE),
    Refusal("a colon in the name", "create_log_group", {"logGroupName": "my:group"}, "InvalidParameterException", CREATE),
    Refusal("a name of 513 characters", "create_log_group", {"logGroupName": "g" * 513}, "InvalidParameterException", CREATE),
    Refusal("a reserved name", "create_log_group", {"logGroupName": "aws/mine"}, "InvalidParameterException", CREATE),
    Refusal(
        "a key given by alias",
        "create_log_group",
        {"logGroupName": "new", "kmsKeyId": "alias/mine"},
        "InvalidParameterException",
        CREATE,
    ),
    Refusal(
        "a nonexistent key",
        "create_log_group",
        {"logGroupName": "new", "kmsKeyId": "arn:aws:kms:us-west-2:123456789012:key/missing"},
        "InvalidParameterException",
        CREATE,
    ),
    reject_retention(0),
    reject_retention(8),
    reject_retention(100),
    reject_retention(3654),
    Refusal(
        "a missing log group",
        "put_retention_policy",
        {"logGroupName": "missing", "retentionInDays": 7},
        "ResourceNotFoundException",
        RETAIN,
    ),
    Refusal(
        "a missing log group",
        "delete_log_group",
        {"logGroupName": "missing"},
        "ResourceNotFoundException",
        f"{API}DeleteLogGroup.html",
    ),
    reject_log_stream("a colon in the name of a stream", "a:b", "InvalidParameterException"),
    reject_log_stream("an asterisk in the name of a stream", "a*", "InvalidParameterException"),
    reject_log_stream("a stream in use", "stream", "ResourceAlreadyExistsException"),
    reject_log_events("events over 1 MiB", (0, "x" * 600_000), (0, "x" * 448_550)),
    reject_log_events("10,001 events", *[(0, "x")] * 10_001),
    reject_log_events("events of two days", (25, "x"), (0, "x")),
    reject_log_events("events out of order", (0, "x"), (1, "x")),
    Refusal(
        "a missing stream",
        "put_log_events",
        {"logGroupName": "group", "logStreamName": "missing", "logEvents": [{"timestamp": NOW, "message": "x"}]},
        "ResourceNotFoundException",
        PUT,
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_cloudwatch_logs_rejects_invalid_requests(aws: Client, refusal: Refusal) -> None:
    aws("logs").create_log_group(logGroupName="group")
    aws("logs").create_log_stream(logGroupName="group", logStreamName="stream")
    refusal.check(aws("logs"))


@pytest.mark.parametrize("days", RETENTION_DAYS)
def test_a_valid_retention_is_stored(aws: Client, days: int) -> None:
    logs = aws("logs")
    logs.create_log_group(logGroupName="/aws/eks/c/cluster")
    logs.put_retention_policy(logGroupName="/aws/eks/c/cluster", retentionInDays=days)
    assert logs.describe_log_groups()["logGroups"][0]["retentionInDays"] == days


def test_a_recreated_log_group_does_not_inherit_tags(aws: Client) -> None:
    logs = aws("logs")
    logs.create_log_group(logGroupName="group", tags={"stack": "old"})
    logs.delete_log_group(logGroupName="group")
    logs.create_log_group(logGroupName="group")
    arn = logs.describe_log_groups()["logGroups"][0]["logGroupArn"]
    assert logs.list_tags_for_resource(resourceArn=arn)["tags"] == {}


@pytest.mark.parametrize(
    ("region", "group", "lets"), [("us-west-2", "mine", True), ("eu-west-1", "mine", False), ("us-west-2", "theirs", False)]
)
def test_a_key_encrypts_logs_only_if_its_policy_allows_the_service(aws: Client, region: str, group: str, lets: bool) -> None:
    arn = "arn:aws:logs:us-west-2:123456789012:log-group:mine"
    text = make_policy(
        allow_statement(Principal={"AWS": ACCOUNT_ROOT}, Action="kms:*", Resource="*"),
        allow_statement(
            Principal={"Service": f"logs.{region}.amazonaws.com"},
            Action=["kms:Encrypt*", "kms:Decrypt*", "kms:GenerateDataKey*"],
            Resource="*",
            Condition={"ArnEquals": {"kms:EncryptionContext:aws:logs:arn": arn}},
        ),
    )
    key = aws("kms").create_key(Policy=text)["KeyMetadata"]["Arn"]
    refusal = Refusal(
        "", "create_log_group", {"logGroupName": group, "kmsKeyId": key}, "InvalidParameterException", KEYS, "not allowed"
    )
    if not lets:
        refusal.check(aws("logs"))
        return
    aws("logs").create_log_group(logGroupName=group, kmsKeyId=key)
    assert aws("logs").describe_log_groups()["logGroups"][0]["kmsKeyId"] == key
