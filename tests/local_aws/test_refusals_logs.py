"""CloudWatch Logs refuses what AWS refuses."""

import pytest

from localcloud.aws.logs import RETENTION_DAYS
from tests.local_aws.clients import Client
from tests.local_aws.refusals import Refusal

API = "https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_"
CREATE, RETAIN = f"{API}CreateLogGroup.html", f"{API}PutRetentionPolicy.html"


def retention(days: int) -> Refusal:
    params = {"logGroupName": "group", "retentionInDays": days}
    return Refusal(f"{days} days", "put_retention_policy", params, "InvalidParameterException", RETAIN)


REFUSALS = [
    Refusal("a name in use", "create_log_group", {"logGroupName": "group"}, "ResourceAlreadyExistsException", CREATE),
    Refusal("a space in the name", "create_log_group", {"logGroupName": "my group"}, "InvalidParameterException", CREATE),
    Refusal("a colon in the name", "create_log_group", {"logGroupName": "my:group"}, "InvalidParameterException", CREATE),
    Refusal("513 letters", "create_log_group", {"logGroupName": "g" * 513}, "InvalidParameterException", CREATE),
    Refusal("a reserved name", "create_log_group", {"logGroupName": "aws/mine"}, "InvalidParameterException", CREATE),
    Refusal(
        "a key by its alias",
        "create_log_group",
        {"logGroupName": "new", "kmsKeyId": "alias/mine"},
        "InvalidParameterException",
        CREATE,
    ),
    retention(0),
    retention(8),
    retention(100),
    retention(3654),
    Refusal(
        "a missing group",
        "put_retention_policy",
        {"logGroupName": "missing", "retentionInDays": 7},
        "ResourceNotFoundException",
        RETAIN,
    ),
    Refusal(
        "a missing group",
        "delete_log_group",
        {"logGroupName": "missing"},
        "ResourceNotFoundException",
        f"{API}DeleteLogGroup.html",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_logs_refuses(aws: Client, refusal: Refusal) -> None:
    aws("logs").create_log_group(logGroupName="group")
    refusal.check(aws("logs"))


@pytest.mark.parametrize("days", RETENTION_DAYS)
def test_a_retention_that_aws_knows_is_kept(aws: Client, days: int) -> None:
    logs = aws("logs")
    logs.create_log_group(logGroupName="/aws/eks/c/cluster")
    logs.put_retention_policy(logGroupName="/aws/eks/c/cluster", retentionInDays=days)
    assert logs.describe_log_groups()["logGroups"][0]["retentionInDays"] == days


def test_a_new_group_has_no_tags_of_an_old_one_of_its_name(aws: Client) -> None:
    logs = aws("logs")
    logs.create_log_group(logGroupName="group", tags={"stack": "old"})
    logs.delete_log_group(logGroupName="group")
    logs.create_log_group(logGroupName="group")
    arn = logs.describe_log_groups()["logGroups"][0]["logGroupArn"]
    assert logs.list_tags_for_resource(resourceArn=arn)["tags"] == {}
