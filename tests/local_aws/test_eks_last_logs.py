"""EKS delivers the last audit logs of a cluster after its deletion, and recreates a deleted log group for them."""

from datetime import timedelta

import pytest

from localcloud.aws import clock, inventory
from testkit.aws_clients import Client
from testkit.eks_world import World

LOGS = "/aws/eks/demo/cluster"
AUDIT = {"clusterLogging": [{"types": ["audit"], "enabled": True}]}


@pytest.fixture
def world(aws: Client) -> World:
    return World(aws)


@pytest.mark.parametrize("before", ["cluster", "log group"])
def test_eks_recreates_the_log_group_of_a_deleted_cluster_without_retention_and_tags(
    world: World, aws: Client, before: str
) -> None:
    logs = aws("logs")
    logs.create_log_group(logGroupName=LOGS, tags={"stack": "demo"})
    logs.put_retention_policy(logGroupName=LOGS, retentionInDays=30)
    world.cluster(logging=AUDIT)
    if before == "log group":
        logs.delete_log_group(logGroupName=LOGS)
    world.eks.delete_cluster(name="demo")
    assert world.eks.list_clusters()["clusters"] == []
    if before == "cluster":
        logs.delete_log_group(logGroupName=LOGS)
    (group,) = logs.describe_log_groups(logGroupNamePrefix=LOGS)["logGroups"]
    assert "retentionInDays" not in group and "kmsKeyId" not in group
    assert logs.list_tags_for_resource(resourceArn=group["logGroupArn"])["tags"] == {}
    assert not [leftover for leftover in inventory.list_leftovers() if leftover.service == "logs"], (
        "EKS created the group, not the user"
    )
    with pytest.raises(logs.exceptions.ResourceAlreadyExistsException):
        logs.create_log_group(logGroupName=LOGS)
    logs.delete_log_group(logGroupName=LOGS)
    assert logs.describe_log_groups(logGroupNamePrefix=LOGS)["logGroups"] == [], "EKS delivers the last logs once"


def test_eks_recreates_no_log_group_if_logs_were_off_or_the_deletion_was_long_ago(world: World, aws: Client) -> None:
    logs = aws("logs")
    world.cluster()
    world.cluster("logged", logging=AUDIT)
    logs.create_log_group(logGroupName="/aws/eks/logged/cluster")
    for name in ("demo", "logged"):
        world.eks.delete_cluster(name=name)
    assert world.eks.list_clusters()["clusters"] == []
    clock.advance(timedelta(hours=1))
    logs.delete_log_group(logGroupName="/aws/eks/logged/cluster")
    assert logs.describe_log_groups()["logGroups"] == []
