"""AWS rejects a call during an `up`: the error message, which resources are created anyway, and how the next `up` continues."""

from collections.abc import Iterator
from typing import Any

import pytest

from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack, Run
from testkit.projects import create_client
from tests.stacks import editing
from tests.stacks.account import Kinds, count_leftovers, deploy_and_count, destroy_without_leftovers, prepare_stack

pytestmark = [pytest.mark.xdist_group("faults"), pytest.mark.mission_only]

CLUSTER = "gpumpi-faults"
DENIED = {"code": "AccessDeniedException", "message": "User: ada is not authorized."}
NO_CAPACITY: dict[str, Any] = {
    "service": "ec2",
    "operation": "RunInstances",
    "code": "InsufficientInstanceCapacity",
    "message": "We currently do not have sufficient g5.8xlarge capacity in the Availability Zone you requested.",
    "match": {"InstanceType": "g5.8xlarge"},
}
ALWAYS = 10_000
"""Number of failures that exceeds any client's number of retries."""


@pytest.fixture(scope="module")
def expected_resource_counts(running_cloud: LocalCloud) -> Kinds:
    return deploy_and_count(running_cloud)


@pytest.fixture
def stack(expected_resource_counts: Kinds, cloud: LocalCloud) -> Iterator[LocalStack]:
    yield prepare_stack(cloud)


def expect_failed_up(stack: LocalStack, *options: str, resource: str, cause: str) -> Run:
    """Run an `up` that must fail with an error that names the resource and the cause."""
    failed = stack.run("up", *options)
    assert not failed.ok
    assert any(resource in error and cause in error for error in failed.errors), failed.errors
    return failed


def expect_successful_up(stack: LocalStack) -> Run:
    """Run an `up` that must succeed. A second `up` must change nothing."""
    up = stack.run("up")
    assert up.ok, up.output
    again = stack.run("up")
    assert (again.ok, again.changed) == (True, {}), again.output
    return up


def list_node_groups(stack: LocalStack) -> dict[str, Any]:
    """Return the node groups, keyed by pool. Fail if a pool has two node groups."""
    eks = create_client(stack.cloud, "eks")
    names = eks.list_nodegroups(clusterName=CLUSTER)["nodegroups"]
    groups = [eks.describe_nodegroup(clusterName=CLUSTER, nodegroupName=name)["nodegroup"] for name in names]
    by_pool = {group["tags"]["gpumpi:pool"]: group for group in groups}
    assert len(by_pool) == len(groups)
    return by_pool


@pytest.mark.parametrize(
    ("fault", "resource"),
    [
        ({"service": "efs", "operation": "CreateFileSystem", **DENIED}, "creating EFS File System (gpumpi-faults-storage-"),
        pytest.param(
            {"service": "eks", "operation": "CreateCluster", **DENIED},
            "creating EKS Cluster (gpumpi-faults)",
            marks=pytest.mark.mission_only,
        ),
    ],
    ids=["file system", "control plane"],
)
def test_a_rejected_call_is_reported_and_the_next_up_completes_the_stack(
    stack: LocalStack, expected_resource_counts: Kinds, fault: dict[str, Any], resource: str
) -> None:
    """After a rejected call, the engine finishes operations in progress and starts no others."""
    stack.cloud.control().plan_fault(**fault)
    failed = expect_failed_up(stack, resource=resource, cause="AccessDeniedException: User: ada is not authorized.")
    created = editing.group_operations(failed)["create"]
    assert "cluster-role" in created
    up = expect_successful_up(stack)
    assert set(editing.group_operations(up)) == {"create"}
    assert count_leftovers(stack.cloud) == expected_resource_counts, "nothing is created twice"
    destroy_without_leftovers(stack)


@pytest.mark.mission_only
def test_continue_on_error_creates_everything_that_does_not_depend_on_the_failure(
    stack: LocalStack, expected_resource_counts: Kinds
) -> None:
    denied = {"service": "eks", "operation": "CreateNodegroup", "match": {"nodegroupName": "*-spare-*"}, **DENIED}
    stack.cloud.control().plan_fault(**denied)
    expect_failed_up(stack, "--continue-on-error", resource="creating EKS Node Group (gpumpi-faults-spare-", cause="AccessDenied")
    up = expect_successful_up(stack)
    left = editing.group_operations(up)["create"]
    # Add-ons wait for all nodes. The tags of Auto Scaling groups need the names of the groups, and the program had
    # ended before these names were known.
    unexpected = {name for name in left if not name.startswith(("spare", "service-")) and "-tag-" not in name}
    assert ("spare" in left, unexpected) == (True, set())
    assert count_leftovers(stack.cloud) == expected_resource_counts
    destroy_without_leftovers(stack)


@pytest.mark.mission_only
def test_throttled_api_calls_are_retried(stack: LocalStack, expected_resource_counts: Kinds) -> None:
    control = stack.cloud.control()
    for service, operation, code in (
        ("ec2", "CreateSubnet", "RequestLimitExceeded"),
        ("iam", "CreateRole", "Throttling"),
        ("eks", "CreateNodegroup", "ThrottlingException"),
        ("s3", "PutBucketPolicy", "SlowDown"),
    ):
        control.plan_fault(service=service, operation=operation, code=code, times=4)
    expect_successful_up(stack)
    assert control.faults() == [], "all planned faults occurred"
    assert count_leftovers(stack.cloud) == expected_resource_counts
    destroy_without_leftovers(stack)


@pytest.mark.mission_only
def test_persistent_throttling_is_reported_and_the_next_up_completes_the_stack(
    stack: LocalStack, expected_resource_counts: Kinds
) -> None:
    control = stack.cloud.control()
    control.plan_fault(
        service="ec2", operation="CreateNatGateway", code="RequestLimitExceeded", message="Too busy.", times=ALWAYS
    )
    expect_failed_up(
        stack, resource="creating EC2 NAT Gateway (gpumpi-faults-network-nat-", cause="RequestLimitExceeded: Too busy."
    )
    control.clear_faults()
    expect_successful_up(stack)
    assert count_leftovers(stack.cloud) == expected_resource_counts
    destroy_without_leftovers(stack)


def test_a_pool_without_capacity_is_named_and_the_next_up_replaces_only_that_pool(
    stack: LocalStack, expected_resource_counts: Kinds
) -> None:
    stack.cloud.control().plan_fault(**NO_CAPACITY, times=ALWAYS)
    failed = expect_failed_up(
        stack,
        resource="creating EKS Node Group (gpumpi-faults-train-",
        cause="do not have sufficient g5.8xlarge capacity",
    )
    assert {"cluster", "system", "spare", "storage-file-system"} <= editing.group_operations(failed)["create"]
    groups = list_node_groups(stack)
    assert {pool: group["status"] for pool, group in groups.items()} == {
        "system": "ACTIVE",
        "spare": "ACTIVE",
        "train": "CREATE_FAILED",
    }
    stack.cloud.control().clear_faults()

    up = expect_successful_up(stack)
    assert editing.group_operations(up)["replace"] == {"train"}
    later = list_node_groups(stack)
    assert {pool: group["status"] for pool, group in later.items()} == dict.fromkeys(groups, "ACTIVE")
    assert {pool for pool in groups if groups[pool]["nodegroupName"] != later[pool]["nodegroupName"]} == {"train"}
    assert count_leftovers(stack.cloud) == expected_resource_counts
    destroy_without_leftovers(stack)


@pytest.mark.mission_only
def test_a_failed_pool_update_keeps_the_nodes_of_the_pool(stack: LocalStack) -> None:
    """The node group still works, and replacing it would end the jobs on its nodes."""
    assert stack.run("up").ok
    before = list_node_groups(stack)["train"]
    editing.write_settings(
        stack, editing.apply_changes(editing.read_settings(stack), {"pools[0].minSize": 4, "pools[0].desiredSize": 4})
    )
    denied = {"service": "eks", "operation": "UpdateNodegroupConfig", **DENIED}
    stack.cloud.control().plan_fault(**denied)
    expect_failed_up(stack, resource="updating EKS Node Group (gpumpi-faults:gpumpi-faults-train-", cause="AccessDeniedException")

    up = expect_successful_up(stack)
    assert editing.group_operations(up) == {"update": {"train"}}
    after = list_node_groups(stack)["train"]
    assert after["nodegroupName"] == before["nodegroupName"]
    assert after["scalingConfig"]["minSize"] == 4
    destroy_without_leftovers(stack)
