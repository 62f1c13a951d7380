"""A Capacity Block from its purchase to its end: the commands, the real Pulumi engine, and the calendar of the local AWS."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import main
from cli.exit_codes import OK, REFUSED, UNREACHABLE
from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack
from testkit import iam_policies

REGION = "us-west-2"
NAME = "block"
FILE = """\
config:
  aws:region: us-west-2
  gpumpi:target: {kind: eks, endpointAccess: {publicCidrs: [203.0.113.0/24]}}
  gpumpi:storage: {efs: none}
  gpumpi:platform: {install: false, autoscaler: false}
  gpumpi:pools:
    - name: train # the large one
      instanceType: p5.48xlarge
      maxSize: 2
"""
RESERVATIONS = "reservations and Capacity Blocks"
MINUTE = timedelta(minutes=1)

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def capacity_stack_folder(tmp_path: Path) -> Path:
    (tmp_path / f"Pulumi.{NAME}.yaml").write_text(FILE)
    return tmp_path


@pytest.fixture
def run_json_command(cloud: LocalCloud, capacity_stack_folder: Path) -> Ask:
    """Return a function that runs a command with --json and checks its exit code."""
    environment = {**cloud.environment(), "XDG_CACHE_HOME": str(capacity_stack_folder / "cache")}
    policies = ("read", "up", "destroy", "daily", "capacity")
    iam_policies.restrict_user(cloud.clients(REGION), map(iam_policies.read_policy, policies))

    def run(*arguments: str, code: int = OK, of_stack: bool = True) -> dict[str, Any]:
        stack = ("-s", NAME, "--config-dir", str(capacity_stack_folder)) if of_stack else ()
        done = CliRunner(env=environment).invoke(main.app, [*arguments, *stack, "--json"])
        assert done.exit_code == code, done.output
        output: dict[str, Any] = json.loads(done.stdout)
        return output

    return run


def test_a_pool_follows_the_capacity_block_bought_for_it(
    cloud: LocalCloud, capacity_stack_folder: Path, run_json_command: Ask
) -> None:
    control, stack = cloud.control(), LocalStack(cloud, NAME, capacity_stack_folder)
    bought = _buy_block(run_json_command)
    assert "# the large one" in (capacity_stack_folder / f"Pulumi.{NAME}.yaml").read_text()
    start, end = (datetime.fromisoformat(bought[name]) for name in ("start", "end"))

    stack.prepare()
    control.set_baseline()
    up = stack.run("up")
    assert up.ok, up.output
    assert (_count_nodes(cloud), _list_actions(cloud)) == (0, {"block-starts": (2, start), "block-ends": (0, end - 45 * MINUTE)})
    assert f"Capacity Block {bought['reservationId']} is scheduled: nodes start in " in _read_reservation_check(run_json_command)

    control.advance_clock(start + MINUTE)
    assert _count_nodes(cloud) == 2
    launched = control.now()
    block = _read_block_status(run_json_command)
    assert (block["state"], datetime.fromisoformat(block["end"])) == ("active", end)
    assert _to_hours(end - control.now()) - 0.01 <= block["hoursLeft"] <= _to_hours(end - launched) + 0.01
    assert f"Capacity Block {bought['reservationId']}: " in _read_reservation_check(run_json_command)

    control.advance_clock(start + 61 * MINUTE)
    asked = control.now()
    spent = run_json_command("cost", "--kubeconfig", str(capacity_stack_folder / "none"))["pools"]["train"]
    assert spent["usd"] == 0
    assert 2 * _to_hours(asked - launched) - 0.01 <= spent["instanceHours"] <= 2 * _to_hours(control.now() - start) + 0.01, (
        "two nodes"
    )

    control.advance_clock(end - 46 * MINUTE)
    assert _count_nodes(cloud) == 2
    control.advance_clock(end - 44 * MINUTE)
    assert _count_nodes(cloud) == 0
    assert "its nodes are being drained" in _read_reservation_check(run_json_command)

    control.advance_clock(end + MINUTE)
    over = run_json_command("plan", "--no-preview", code=REFUSED)
    [refused] = [check for check in over["checks"] if check["verdict"] == "no"]
    assert (refused["check"], "is expired" in refused["sentences"][0]) == (RESERVATIONS, True)
    destroy = stack.run("destroy")
    assert destroy.ok, destroy.output
    left = [leftover["container"] for leftover in control.leftovers()]
    assert [line for line in left if bought["reservationId"] not in line] == [], "only the block remains, in another state"


def _to_hours(time: timedelta) -> float:
    return time / timedelta(hours=1)


def _buy_block(ask: Ask) -> dict[str, Any]:
    """Buy a Capacity Block that starts more than 24 hours from now."""
    offers = ask("capacity", "find", "p5.48xlarge", "--nodes", "2", "--days", "1", "--regions", REGION, of_stack=False)
    later = datetime.now(UTC) + timedelta(days=1)
    block = next(row for row in offers["choices"] if row["kind"] == "block" and datetime.fromisoformat(row["start"]) > later)
    bought = ask("capacity", "reserve", block["id"], "--yes")
    assert (bought["state"], bought["usd"], bought["pool"]) == ("scheduled", block["usd"], "train")
    return bought


def _read_reservation_check(ask: Ask) -> str:
    [check] = [check for check in ask("plan", "--no-preview")["checks"] if check["check"] == RESERVATIONS]
    assert check["verdict"] == "yes"
    return " ".join(check["sentences"])


def _read_block_status(ask: Ask) -> dict[str, Any]:
    """Return the block as `status` shows it. The cluster's API cannot be reached, because the local AWS only records
    the cluster.
    """
    status = ask("status", code=UNREACHABLE)
    [block] = [pool["capacityBlock"] for pool in status["pools"] if pool["capacityBlock"]]
    status_block: dict[str, Any] = block
    return status_block


def _describe_group(cloud: LocalCloud) -> dict[str, Any]:
    groups = cloud.clients(REGION)("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    [scaling_group] = [group for group in groups if "-train-" in group["AutoScalingGroupName"]]
    group: dict[str, Any] = scaling_group
    return group


def _count_nodes(cloud: LocalCloud) -> int:
    return len([instance for instance in _describe_group(cloud)["Instances"] if instance["LifecycleState"] == "InService"])


def _list_actions(cloud: LocalCloud) -> dict[str, tuple[int, datetime]]:
    """Return the stack's scheduled actions: names, mapped to desired sizes and times. The result omits the action
    that EKS created for the group.
    """
    name = _describe_group(cloud)["AutoScalingGroupName"]
    response = cloud.clients(REGION)("autoscaling").describe_scheduled_actions(AutoScalingGroupName=name)
    actions = response["ScheduledUpdateGroupActions"]
    own = [action for action in actions if action["ScheduledActionName"].startswith("block-")]
    return {action["ScheduledActionName"]: (action["DesiredCapacity"], action["StartTime"]) for action in own}
