"""`status` without Kubernetes data: EC2 clusters, and EKS clusters whose API server does not answer."""

import json
import re
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from cli.clusters.kubernetes_access import Access
from cli.clusters.status import status_command
from cli.errors import CommandError, find_exit_code
from infra.config.stack_file import NoSuchStack
from localcloud.aws import faults
from tests.cli.test_ec2_verbs import FOLDER, STACK, World
from tests.program.engine import deploy
from tests.program.worlds import start_local_account

CAPACITY = "We currently do not have sufficient capacity in the Availability Zone you requested."


@pytest.fixture
def deployed_cluster() -> Iterator[World]:
    with start_local_account(FOLDER / f"Pulumi.{STACK}.yaml") as (settings, facts, mocks):
        deploy(settings, facts, mocks)
        yield World()


@pytest.fixture
def eks_stack() -> Iterator[str]:
    """The demo's EKS stack, deployed in a local AWS without Kubernetes."""
    with start_local_account(FOLDER / "Pulumi.local.yaml") as (settings, facts, mocks):
        deploy(settings, facts, mocks)
        yield "local"


def read_status(capsys: pytest.CaptureFixture[str], stack: str, code: int = 0) -> dict[str, Any]:
    assert status_command.command(stack, config_dir=FOLDER, as_json=True) == code
    status: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status


def set_desired_size(group: str, size: int) -> None:
    """Set a desired size for which AWS has no capacity."""
    faults.add_fault(faults.Fault("ec2", "RunInstances", "InsufficientInstanceCapacity", CAPACITY, times=9))
    autoscaling = boto3.client("autoscaling", region_name="us-west-2")
    names = [item["AutoScalingGroupName"] for item in autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"]]
    (name,) = [candidate for candidate in names if group in candidate]
    autoscaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=size)


def test_status_of_an_ec2_cluster_shows_joined_and_desired_nodes(
    deployed_cluster: World, capsys: pytest.CaptureFixture[str]
) -> None:
    deployed_cluster.simulate_join_service(deployed_cluster.cluster.head_node(), deployed_cluster.workers[0])
    deployed_cluster.upload_boot_log(deployed_cluster.workers[1], "boots\nmount: no such file system\n\n")
    status = read_status(capsys, STACK)
    master, workers = status["pools"]
    assert (status["cluster"], status["state"]) == ("gpumpi-local-ec2", "1 of 3 workers have joined")
    assert (master["ready"], master["wanted"]) == (1, 1)
    assert (workers["ready"], workers["nodes"], workers["wanted"], workers["maxSize"]) == (1, 3, 3, 8)
    assert workers["problems"][0].endswith("): mount: no such file system")
    assert status["volumes"][0]["mountPath"] == "/shared"
    deployed_cluster.simulate_join_service(*deployed_cluster.workers[1:])
    assert read_status(capsys, STACK)["state"] == "ready"


def test_status_shows_a_failed_launch_with_the_reason_reported_by_aws(
    deployed_cluster: World, capsys: pytest.CaptureFixture[str]
) -> None:
    deployed_cluster.simulate_join_service(deployed_cluster.cluster.head_node(), *deployed_cluster.workers)
    set_desired_size("workers", 4)
    launch = read_status(capsys, STACK)["pools"][1]["lastFailedLaunch"]
    assert launch["reason"] == f"{CAPACITY} Launching EC2 instance failed." and not launch["laterLaunchSucceeded"]
    assert status_command.command(STACK, config_dir=FOLDER) == 0
    printed = capsys.readouterr().out
    assert "3 of 4 workers have joined" in printed and "workers: last failed launch" in printed and CAPACITY in printed


def test_status_prints_aws_data_if_kubernetes_does_not_respond(eks_stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_desired_size("-efa-", 3)
    status = read_status(capsys, eks_stack, code=5)
    pools = {pool["name"]: pool for pool in status["pools"]}
    assert (status["state"], {name: pool["wanted"] for name, pool in pools.items()}) == (
        "ACTIVE",
        {"system": 1, "single": 0, "efa": 3},
    )
    assert CAPACITY in pools["efa"]["lastFailedLaunch"]["reason"] and pools["system"]["lastFailedLaunch"] is None
    assert pools["efa"]["ready"] is None and status["unknown"][0].startswith("ready nodes, queues, jobs and volumes: ")


def test_a_missing_permission_hides_only_the_data_that_requires_it(eks_stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = "User: arn:aws:iam::1:user/ada is not authorized to perform: autoscaling:DescribeScalingActivities"
    faults.add_fault(faults.Fault("autoscaling", "DescribeScalingActivities", "AccessDenied", message, times=9))
    status = read_status(capsys, eks_stack, code=5)
    assert status["unknown"][0] == "you are not allowed to call autoscaling:DescribeScalingActivities"
    assert {pool["name"]: pool["wanted"] for pool in status["pools"]} == {"system": 1, "single": 0, "efa": 2}


@pytest.mark.parametrize(
    ("stack", "access", "code", "message"),
    [
        ("local", Access(), 4, "there is no cluster gpumpi-local in us-west-2; `pulumi up -s local` creates it"),
        (STACK, Access(), 4, "there is no cluster gpumpi-local-ec2 in us-west-2; `pulumi up -s local-ec2` creates it"),
        (STACK, Access(namespace="a"), 2, "local-ec2 is an EC2 cluster: it has no kubeconfig, context or namespace"),
        ("locl", Access(), 4, "Did you mean local?"),
    ],
    ids=["eks", "ec2", "usage", "typo"],
)
def test_a_missing_cluster_is_an_error_that_names_the_fix(stack: str, access: Access, code: int, message: str) -> None:
    from localcloud.engine.mocks import MotoMocks

    with MotoMocks("us-west-2"), pytest.raises((CommandError, NoSuchStack), match=re.escape(message)) as caught:
        status_command.command(stack, config_dir=FOLDER, namespace=access.namespace)
    assert find_exit_code(caught.value) == code
