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
from testkit.projects import create_client
from tests.stacks import editing
from tests.stacks.changes import (
    NOTHING,
    Change,
    expect_all,
    expect_creations,
    expect_deletions,
    expect_recreation,
    expect_updates,
    find_differences,
    list_cases,
    make_change,
)
from tests.stacks.editing import Values

pytestmark = pytest.mark.xdist_group("plain-changes")

OTHER_IMAGE = "ami-0123456789abcdef1"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPim3gD2Cip5/9R8LvxQqLqBNAGLTAw9pLTTRNgnyKRy bob@example.com"
NEW_MASTER = expect_all(expect_recreation("master"), expect_updates("master-launch-template", "master-address"))
NEW_USER_DATA = expect_all(expect_recreation("master"), expect_updates("master-address"))
NEW_WORKERS = expect_updates("workers", "workers-launch-template")

SHORT = (
    "settings that apply only to new clusters",
    "another AMI",
)
"""Previews that `make test` runs; `make mission` runs all."""
PREVIEWS: dict[str, list[Change]] = {
    "settings that apply only to new clusters": [
        make_change("target.openmpi", 5, NOTHING),
        make_change("pools[0].desiredSize", 4, NOTHING),
    ],
    "another head node type, more SSH addresses": [
        make_change("target.headNodeType", "c7i.4xlarge", NEW_MASTER),
        make_change(
            "target.ssh.cidrs", ["203.0.113.0/24", "198.51.100.0/24"], expect_creations("master-ssh-198.51.100.0/24-ingress")
        ),
        make_change("target.logRetentionDays", 30, expect_updates("network-flow-logs-group")),
    ],
    "no SSH from outside": [
        make_change(
            "target.ssh.cidrs",
            [],
            expect_all(
                expect_recreation("master"),
                expect_updates("master-launch-template"),
                expect_deletions("master-address", "master-ssh", "master-ssh-*"),
            ),
        )
    ],
    "another AMI": [make_change("target.amiId", OTHER_IMAGE, expect_all(NEW_MASTER, NEW_WORKERS))],
    "another user": [make_change("target.user", "ada", expect_all(NEW_USER_DATA, NEW_WORKERS))],
    "another user's key": [make_change("target.ssh.publicKeys", [KEY], expect_all(NEW_USER_DATA, NEW_WORKERS))],
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
    return editing.deploy_stack(cloud, "plain")


@pytest.fixture(scope="module")
def values(stack: LocalStack) -> Values:
    return editing.read_settings(stack)


@pytest.mark.parametrize("name", list_cases(PREVIEWS, *SHORT))
def test_a_change_affects_exactly_the_expected_resources(name: str, stack: LocalStack, values: Values) -> None:
    changes = PREVIEWS[name]
    assert find_differences(editing.preview_changes(stack, values, changes), changes) == ([], [])


def test_plan_predicts_the_same_number_of_changes_as_the_preview(
    stack: LocalStack, cloud: LocalCloud, values: Values, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editing.write_settings(
        stack, editing.apply_changes(values, {"target.headNodeType": "c7i.4xlarge", "target.logRetentionDays": 30})
    )
    preview = stack.run("preview")
    assert preview.ok, preview.output
    monkeypatch.setattr(pulumi_program, "CLONE", stack.project)
    (tmp_path / "gpumpi").mkdir()
    # Pulumi runs one of these tools; cached prices are kept in tmp_path
    (tmp_path / "gpumpi" / "tools").symlink_to(cache_folder())
    environment = {**cloud.environment(), "XDG_CACHE_HOME": str(tmp_path)}
    arguments = ("plan", "-s", stack.name, "--config-dir", str(stack.project), "--json")
    done = CliRunner(env=environment).invoke(main.app, arguments)
    assert done.exit_code == OK, done.output
    changes = json.loads(done.stdout)["changes"]
    assert changes["notPreviewed"] is None
    expected = {operation: len(names) for operation, names in editing.group_operations(preview).items()}
    assert {operation: number for operation, number in changes["counts"].items() if number} == expected


def test_changing_the_ami_keeps_running_workers(stack: LocalStack, cloud: LocalCloud, values: Values) -> None:
    def list_images() -> dict[str, str]:
        filters = [{"Name": "tag:gpumpi:pool", "Values": ["workers"]}, {"Name": "instance-state-name", "Values": ["running"]}]
        reservations = create_client(cloud, "ec2").describe_instances(Filters=filters)["Reservations"]
        return {vm["InstanceId"]: vm["ImageId"] for reservation in reservations for vm in reservation["Instances"]}

    before = list_images()
    assert len(before) == 2
    changed = editing.apply_changes(values, {"target.amiId": OTHER_IMAGE})
    cloud.control().create_prerequisites("us-west-2", changed)
    editing.write_settings(stack, changed)
    up = stack.run("up")
    assert up.ok, up.output
    assert list_images() == before
    group = f"gpumpi-{stack.name}-workers"
    create_client(cloud, "autoscaling").set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=3)
    assert {*list_images().values()} == {*before.values(), OTHER_IMAGE}
    editing.write_settings(stack, values)
    back = stack.run("up")
    assert back.ok, back.output


@pytest.mark.parametrize("seconds", [600, 7200])
def test_a_join_hook_changed_outside_pulumi_does_not_replace_the_workers(
    seconds: int, stack: LocalStack, cloud: LocalCloud, values: Values
) -> None:
    """The provider replaces a group to change its initial lifecycle hooks."""
    autoscaling, group = create_client(cloud, "autoscaling"), f"gpumpi-{stack.name}-workers"
    [hook] = autoscaling.describe_lifecycle_hooks(AutoScalingGroupName=group)["LifecycleHooks"]
    named = {name: hook[name] for name in ("AutoScalingGroupName", "LifecycleHookName", "HeartbeatTimeout", "DefaultResult")}
    autoscaling.put_lifecycle_hook(**{**named, "HeartbeatTimeout": seconds})
    try:
        editing.write_settings(stack, values)
        preview = stack.run("preview")
    finally:
        autoscaling.put_lifecycle_hook(**named)
    assert preview.ok, preview.output
    assert not {"replace", "create-replacement", "delete"} & preview.changed.keys(), preview.output


def test_the_head_node_keeps_its_user_data_and_keeps_running(stack: LocalStack, cloud: LocalCloud, values: Values) -> None:
    ec2 = create_client(cloud, "ec2")
    head = [{"Name": "tag:gpumpi:role", "Values": ["master"]}, {"Name": "instance-state-name", "Values": ["running"]}]

    def read_state() -> tuple[object, ...]:
        [reservation] = ec2.describe_instances(Filters=head)["Reservations"]
        [instance] = reservation["Instances"]
        described = ec2.describe_instance_attribute(InstanceId=instance["InstanceId"], Attribute="userData")
        return instance["InstanceId"], instance["LaunchTime"], instance["Monitoring"]["State"], described["UserData"]["Value"]

    before = read_state()
    editing.write_settings(stack, values)
    verbs: tuple[Verb, ...] = ("up", "refresh", "up")
    for verb in verbs:
        run = stack.run(verb)
        assert run.ok and not run.changed, run.output
    assert read_state() == before
    assert before[2] == "enabled"
