"""status of clusters that only AWS can tell of: plain EC2 ones, and EKS ones whose Kubernetes does not answer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from cli.status import verb
from cli.submit import Where
from localcloud.aws import faults
from tests.cli.test_plain_verbs import FOLDER, STACK, World
from tests.program.engine import deploy
from tests.program.worlds import account_for

CAPACITY = "We currently do not have sufficient capacity in the Availability Zone you requested."


@pytest.fixture
def world() -> Iterator[World]:
    with account_for(FOLDER / f"Pulumi.{STACK}.yaml") as (settings, facts, mocks):
        deploy(settings, facts, mocks)
        yield World()


@pytest.fixture
def eks() -> Iterator[str]:
    """The EKS stack of the demo, up, without any Kubernetes behind it."""
    with account_for(FOLDER / "Pulumi.local.yaml") as (settings, facts, mocks):
        deploy(settings, facts, mocks)
        yield "local"


def told(capsys: pytest.CaptureFixture[str], stack: str, code: int = 0) -> dict[str, Any]:
    assert verb.run(stack, FOLDER, Where(), watch=False, as_json=True) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def wants(group: str, size: int) -> None:
    """More than AWS has."""
    faults.add(faults.Fault("ec2", "RunInstances", "InsufficientInstanceCapacity", CAPACITY, times=9))
    autoscaling = boto3.client("autoscaling", region_name="us-west-2")
    names = [one["AutoScalingGroupName"] for one in autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"]]
    (name,) = [one for one in names if group in one]
    autoscaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=size)


def test_a_plain_cluster_shows_who_has_joined_and_who_is_wanted(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.joins(world.cluster.master(), world.workers[0])
    world.fails(world.workers[1], "boots\nmount: no such file system\n\n")
    found = told(capsys, STACK)
    master, workers = found["pools"]
    assert (found["cluster"], found["state"]) == ("gpumpi-local-ec2", "1 of 3 workers have joined")
    assert (master["ready"], master["wanted"]) == (1, 1)
    assert (workers["ready"], workers["nodes"], workers["wanted"], workers["maxSize"]) == (1, 3, 3, 8)
    assert workers["problems"][0].endswith("): mount: no such file system")
    assert found["volumes"][0]["mountPath"] == "/shared"
    world.joins(*world.workers[1:])
    assert told(capsys, STACK)["state"] == "ready"


def test_a_launch_that_failed_is_shown_with_awss_reason(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.joins(world.cluster.master(), *world.workers)
    wants("workers", 4)
    launch = told(capsys, STACK)["pools"][1]["lastFailedLaunch"]
    assert launch["reason"] == f"{CAPACITY} Launching EC2 instance failed." and not launch["laterLaunchSucceeded"]
    assert verb.run(STACK, FOLDER, Where(), watch=False, as_json=False) == 0
    printed = capsys.readouterr().out
    assert "3 of 4 workers have joined" in printed and "workers: last failed launch" in printed and CAPACITY in printed


def test_where_kubernetes_does_not_answer_awss_part_is_printed(eks: str, capsys: pytest.CaptureFixture[str]) -> None:
    wants("-efa-", 3)
    found = told(capsys, eks, code=5)
    pools = {one["name"]: one for one in found["pools"]}
    assert (found["state"], {name: one["wanted"] for name, one in pools.items()}) == (
        "ACTIVE",
        {"system": 1, "single": 0, "efa": 3},
    )
    assert CAPACITY in pools["efa"]["lastFailedLaunch"]["reason"] and pools["system"]["lastFailedLaunch"] is None
    assert pools["efa"]["ready"] is None and found["unknown"][0].startswith("what runs in it: ")


def test_a_permission_that_is_missing_hides_only_what_it_is_for(eks: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = "User: arn:aws:iam::1:user/ada is not authorized to perform: autoscaling:DescribeScalingActivities"
    faults.add(faults.Fault("autoscaling", "DescribeScalingActivities", "AccessDenied", message, times=9))
    found = told(capsys, eks, code=5)
    assert found["unknown"][0] == "you may not call autoscaling:DescribeScalingActivities"
    assert {one["name"]: one["wanted"] for one in found["pools"]} == {"system": 1, "single": 0, "efa": 2}


@pytest.mark.parametrize(
    ("stack", "where", "code", "message"),
    [
        ("local", Where(), 4, "there is no cluster gpumpi-local in us-west-2; `pulumi up -s local` makes it"),
        (STACK, Where(), 4, "there is no cluster gpumpi-local-ec2 in us-west-2; `pulumi up -s local-ec2` makes it"),
        (STACK, Where(namespace="a"), 2, "local-ec2 is a plain EC2 cluster: it has no kubeconfig, context or namespace"),
        ("locl", Where(), 4, "did you mean local?"),
    ],
    ids=["eks", "ec2", "usage", "slip"],
)
def test_what_is_not_there_says_so(
    stack: str, where: Where, code: int, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from localcloud.engine.mocks import MotoMocks

    with MotoMocks("us-west-2"):
        assert verb.run(stack, FOLDER, where, watch=False, as_json=False) == code
    assert message in capsys.readouterr().err
