"""Effect of changing each setting of a deployed EC2 cluster; test_changes.py covers EKS."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import main
from cli.exit_codes import OK
from cli.stacks import pulumi_program
from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack, Verb
from localcloud.tools.build import cache_folder
from testkit.projects import client
from tests.stacks import editing
from tests.stacks.changes import NOTHING, Change, both, cases, change, creates, deletes, differences, recreates, updates
from tests.stacks.editing import Values

pytestmark = pytest.mark.xdist_group("plain-changes")

OTHER_IMAGE = "ami-0123456789abcdef1"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPim3gD2Cip5/9R8LvxQqLqBNAGLTAw9pLTTRNgnyKRy bob@example.com"
NEW_MASTER = both(recreates("master"), updates("master-launch-template", "master-address"))
NEW_USER_DATA = both(recreates("master"), updates("master-address"))
NEW_WORKERS = updates("workers", "workers-launch-template")

SHORT = (
    "settings that apply only to new clusters",
    "another AMI",
)
"""Previews that `make test` runs; `make mission` runs all."""
PREVIEWS: dict[str, list[Change]] = {
    "settings that apply only to new clusters": [
        change("target.openmpi", 5, NOTHING),
        change("pools[0].desiredSize", 4, NOTHING),
    ],
    "another head node type, more SSH addresses": [
        change("target.headNodeType", "c7i.4xlarge", NEW_MASTER),
        change("target.ssh.cidrs", ["203.0.113.0/24", "198.51.100.0/24"], creates("master-ssh-198.51.100.0/24-ingress")),
        change("target.logRetentionDays", 30, updates("network-flow-logs-group")),
    ],
    "no SSH from outside": [
        change(
            "target.ssh.cidrs",
            [],
            both(recreates("master"), updates("master-launch-template"), deletes("master-address", "master-ssh", "master-ssh-*")),
        )
    ],
    "another AMI": [change("target.amiId", OTHER_IMAGE, both(NEW_MASTER, NEW_WORKERS))],
    "another user": [change("target.user", "ada", both(NEW_USER_DATA, NEW_WORKERS))],
    "another user's key": [change("target.ssh.publicKeys", [KEY], both(NEW_USER_DATA, NEW_WORKERS))],
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    local_cloud = LocalCloud(tmp_path_factory.mktemp("plain") / "cloud")
    local_cloud.start(print)
    yield local_cloud
    local_cloud.stop()


@pytest.fixture(scope="module")
def stack(cloud: LocalCloud) -> LocalStack:
    """The deployed cluster."""
    return editing.brought_up(cloud, "plain")


@pytest.fixture(scope="module")
def values(stack: LocalStack) -> Values:
    return editing.read(stack)


@pytest.mark.parametrize("name", cases(PREVIEWS, *SHORT))
def test_a_change_affects_exactly_the_expected_resources(name: str, stack: LocalStack, values: Values) -> None:
    changes = PREVIEWS[name]
    assert differences(editing.previewed(stack, values, changes), changes) == ([], [])


def test_plan_counts_what_the_preview_changes(
    stack: LocalStack, cloud: LocalCloud, values: Values, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editing.write(stack, editing.with_changes(values, {"target.headNodeType": "c7i.4xlarge", "target.logRetentionDays": 30}))
    preview = stack.run("preview")
    assert preview.ok, preview.output
    monkeypatch.setattr(pulumi_program, "CLONE", stack.project)
    (tmp_path / "gpumpi").mkdir()
    (tmp_path / "gpumpi" / "tools").symlink_to(cache_folder())  # Pulumi runs one of the tools; cached prices stay in tmp_path
    environment = {**cloud.environment(), "XDG_CACHE_HOME": str(tmp_path)}
    arguments = ("plan", "-s", stack.name, "--config-dir", str(stack.project), "--json")
    done = CliRunner(env=environment).invoke(main.app, arguments)
    assert done.exit_code == OK, done.output
    changes = json.loads(done.stdout)["changes"]
    assert changes["notPreviewed"] is None
    expected = {operation: len(names) for operation, names in editing.operations(preview).items()}
    assert {operation: number for operation, number in changes["counts"].items() if number} == expected


def test_another_ami_leaves_running_workers_alone(stack: LocalStack, cloud: LocalCloud, values: Values) -> None:
    def images() -> dict[str, str]:
        filters = [{"Name": "tag:gpumpi:pool", "Values": ["workers"]}, {"Name": "instance-state-name", "Values": ["running"]}]
        reservations = client(cloud, "ec2").describe_instances(Filters=filters)["Reservations"]
        return {vm["InstanceId"]: vm["ImageId"] for reservation in reservations for vm in reservation["Instances"]}

    before = images()
    assert len(before) == 2
    changed = editing.with_changes(values, {"target.amiId": OTHER_IMAGE})
    cloud.control().grant("us-west-2", changed)
    editing.write(stack, changed)
    up = stack.run("up")
    assert up.ok, up.output
    assert images() == before
    group = f"gpumpi-{stack.name}-workers"
    client(cloud, "autoscaling").set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=3)
    assert {*images().values()} == {*before.values(), OTHER_IMAGE}
    editing.write(stack, values)
    back = stack.run("up")
    assert back.ok, back.output


@pytest.mark.parametrize("seconds", [600, 7200])
def test_outside_change_of_the_join_hook_keeps_the_workers(
    seconds: int, stack: LocalStack, cloud: LocalCloud, values: Values
) -> None:
    """The provider replaces a group to change its initial lifecycle hooks."""
    autoscaling, group = client(cloud, "autoscaling"), f"gpumpi-{stack.name}-workers"
    [hook] = autoscaling.describe_lifecycle_hooks(AutoScalingGroupName=group)["LifecycleHooks"]
    named = {name: hook[name] for name in ("AutoScalingGroupName", "LifecycleHookName", "HeartbeatTimeout", "DefaultResult")}
    autoscaling.put_lifecycle_hook(**{**named, "HeartbeatTimeout": seconds})
    try:
        editing.write(stack, values)
        preview = stack.run("preview")
    finally:
        autoscaling.put_lifecycle_hook(**named)
    assert preview.ok, preview.output
    assert not {"replace", "create-replacement", "delete"} & preview.changed.keys(), preview.output


def test_head_node_keeps_its_user_data_and_keeps_running(stack: LocalStack, cloud: LocalCloud, values: Values) -> None:
    ec2 = client(cloud, "ec2")
    head = [{"Name": "tag:gpumpi:role", "Values": ["master"]}, {"Name": "instance-state-name", "Values": ["running"]}]

    def state() -> tuple[object, ...]:
        [reservation] = ec2.describe_instances(Filters=head)["Reservations"]
        [instance] = reservation["Instances"]
        described = ec2.describe_instance_attribute(InstanceId=instance["InstanceId"], Attribute="userData")
        return instance["InstanceId"], instance["LaunchTime"], instance["Monitoring"]["State"], described["UserData"]["Value"]

    before = state()
    editing.write(stack, values)
    verbs: tuple[Verb, ...] = ("up", "refresh", "up")
    for verb in verbs:
        run = stack.run(verb)
        assert run.ok and not run.changed, run.output
    assert state() == before
    assert before[2] == "enabled"
