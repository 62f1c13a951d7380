"""The verbs `wait`, `hosts` and `scale` on an EC2 cluster in this process's local AWS."""

import json
import os
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.clusters.status import in_ec2_cluster
from cli.ec2 import hostfile_check, list_hosts, wait
from cli.ec2.ec2_instances import DeployedEc2Cluster
from cli.errors import CommandError
from infra.config.stack_file import NoSuchStack
from tests.program.engine import deploy
from tests.program.worlds import ROOT, account_for

STACK = "local-ec2"
FOLDER = ROOT / "stacks"


def right(cluster: DeployedEc2Cluster, nodes: Any) -> str:
    """Report no differences, as for a correct hostfile."""
    return ""


class World:
    """A stack deployed in a local AWS in which instances exist only as API records."""

    def __init__(self) -> None:
        self.cluster = DeployedEc2Cluster(STACK, FOLDER)

    def joins(self, *nodes: Any) -> None:
        """Simulate the join service on these nodes."""
        for node in nodes:
            self.says(node, slots=2, idle_slots=0)
            if not node.is_head_node:
                self.ends(node, "CONTINUE")

    def says(self, node: Any, *, slots: int, idle_slots: int) -> None:
        notice = {"address": node.address, "slots": slots, "idle_slots": idle_slots, "host_keys": ["ssh-ed25519 AAAA"]}
        key = f"nodes/{self.cluster._role_id(node)}:{node.id}/notice.json"
        self.cluster._clients.s3.put_object(Bucket=self.cluster.bucket, Key=key, Body=json.dumps(notice))

    def ends(self, node: Any, result: str) -> None:
        self.cluster._clients.autoscaling.complete_lifecycle_action(
            AutoScalingGroupName=self.cluster.naming.workers,
            LifecycleHookName="join",
            InstanceId=node.id,
            LifecycleActionResult=result,
        )

    def fails(self, node: Any, log: str) -> None:
        self._uploads(node, "boot.log", log)

    def waits(self, node: Any, reason: str) -> None:
        self._uploads(node, "waiting.txt", reason)

    def _uploads(self, node: Any, name: str, text: str) -> None:
        key = f"nodes/{self.cluster._role_id(node)}:{node.id}/{name}"
        self.cluster._clients.s3.put_object(Bucket=self.cluster.bucket, Key=key, Body=text.encode())

    @property
    def workers(self) -> list[Any]:
        return [node for node in self.cluster.nodes() if not node.is_head_node]


class Ssh:
    """A fake ssh on PATH, with stubs of the other programs that the command line looks for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("aws", "session-manager-plugin"):
            self._write(name, "")
        self.says(0)

    def says(self, code: int, out: str = "", error: str = "") -> None:
        self._write("ssh", f"printf %s {shlex.quote(out)}; printf %s {shlex.quote(error)} >&2; exit {code}")

    def _write(self, name: str, script: str) -> None:
        file = self._folder / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ssh:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return Ssh(tmp_path)


@pytest.fixture
def world() -> Iterator[World]:
    with account_for(FOLDER / f"Pulumi.{STACK}.yaml") as (settings, facts, mocks):
        deploy(settings, facts, mocks)
        yield World()


def test_a_cluster_is_ready_when_the_head_node_and_all_workers_have_joined(world: World) -> None:
    said: list[str] = []
    steps = iter([lambda: world.joins(world.cluster.head_node()), lambda: world.joins(*world.workers)])
    seen = wait.wait(world.cluster, 60, said.append, right, pause=lambda seconds: next(steps)())
    assert seen.has_joined and seen.in_service == 3
    expected = [
        "head node boots, 0 of 3 workers joined",
        "head node joined, 0 of 3 workers joined",
        "head node joined, 3 of 3 workers joined",
    ]
    assert [line.partition(": ")[2] for line in said] == expected


def test_a_worker_that_cannot_boot_shows_its_log_and_is_not_counted(world: World) -> None:
    said: list[str] = []
    world.joins(world.cluster.head_node(), *world.workers[1:])
    world.fails(world.workers[0], "mount: no such file system\n")
    clock = iter([0.0, 0.0, 0.0, 100.0, 100.0])
    with pytest.raises(CommandError, match="not ready after 1 minutes: head node joined, 2 of 3 workers joined"):
        wait.wait(world.cluster, 60, said.append, right, pause=lambda seconds: None, clock=lambda: next(clock))
    assert any("could not join" in line and "| mount: no such file system" in line for line in said)


def test_a_head_node_that_cannot_boot_ends_the_wait_at_once(world: World) -> None:
    world.fails(world.cluster.head_node(), "broken\n")
    with pytest.raises(CommandError, match="could not boot; its log is above"):
        wait.wait(world.cluster, 60, lambda line: None, right, pause=lambda seconds: None)


def test_the_wait_ends_after_three_workers_that_cannot_join(world: World) -> None:
    for node in world.workers:
        world.fails(node, "broken\n")
    with pytest.raises(CommandError, match="3 workers could not join"):
        wait.wait(world.cluster, 60, lambda line: None, right, pause=lambda seconds: None)


NO_MOUNT = "/shared cannot be mounted: mount.nfs4: Connection timed out"


def test_the_wait_reports_why_a_node_waits_once_and_goes_on(world: World) -> None:
    said: list[str] = []
    head_node, first = world.cluster.head_node(), world.workers[0]
    world.waits(head_node, NO_MOUNT)
    world.waits(first, NO_MOUNT)
    steps = iter([lambda: None, lambda: world.waits(first, "another reason"), lambda: world.joins(head_node, *world.workers)])
    seen = wait.wait(world.cluster, 60, said.append, right, pause=lambda seconds: next(steps)())
    assert seen.has_joined
    reasons = [line.partition(": ")[2] for line in said if "has not joined yet" in line]
    assert sorted(reasons) == sorted([NO_MOUNT, NO_MOUNT, "another reason"])


def test_status_shows_why_a_node_waits_until_it_has_joined(world: World) -> None:
    head_node, first, *others = world.cluster.head_node(), *world.workers
    world.waits(head_node, NO_MOUNT)
    world.waits(first, NO_MOUNT)
    world.joins(*others)
    head, workers = in_ec2_cluster.read(world.cluster).pools
    for pool, node in ((head, head_node), (workers, first)):
        (problem,) = pool.problems
        assert problem.startswith(f"{node.id} has not joined yet (") and problem.endswith(f"): {NO_MOUNT}")
    world.joins(head_node, first)
    assert [pool.problems for pool in in_ec2_cluster.read(world.cluster).pools] == [(), ()]


def test_a_cluster_is_ready_only_when_the_hostfile_lists_its_nodes(world: World) -> None:
    world.joins(world.cluster.head_node(), *world.workers)
    said: list[str] = []
    answers = iter(["the head node's hostfile lacks 10.0.0.9", ""])
    seen = wait.wait(world.cluster, 60, said.append, lambda cluster, nodes: next(answers), pause=lambda seconds: None)
    assert seen.difference == ""
    expected = [
        "head node joined, 3 of 3 workers joined, the head node's hostfile lacks 10.0.0.9",
        "head node joined, 3 of 3 workers joined",
    ]
    assert [line.partition(": ")[2] for line in said] == expected


def test_a_hostfile_that_stays_wrong_ends_the_wait_and_is_reported(world: World) -> None:
    world.joins(world.cluster.head_node(), *world.workers)
    clock = iter([0.0, 0.0, 0.0, 121.0])
    with pytest.raises(
        CommandError, match=r"all nodes have joined, but after 2 minutes it lacks 10.0.0.9; `scripts/cluster ssh -s local-ec2"
    ):
        wait.wait(
            world.cluster, 600, lambda line: None, lambda *_: "it lacks 10.0.0.9", pause=lambda _: None, clock=lambda: next(clock)
        )


def test_without_ssh_access_the_wait_ends_and_reports_an_unchecked_hostfile(world: World, ssh: Ssh) -> None:
    world.joins(world.cluster.head_node(), *world.workers)
    ssh.says(255, error="mpiuser@i-1: Permission denied (publickey).")
    said: list[str] = []
    assert wait.wait(world.cluster, 60, said.append, partial(hostfile_check.compare_hostfile, identity=None)).has_joined
    assert (
        "hostfile was not checked: the head node rejected the SSH keys for mpiuser; pass another key with --identity" in said[0]
    )


def test_the_hostfile_is_compared_with_what_the_nodes_published(world: World, ssh: Ssh) -> None:
    master, *workers = world.cluster.nodes()
    world.joins(master, *workers)
    lines = [f"{node.address} slots=2\n" for node in (master, *workers)]
    ssh.says(0, "".join(lines))
    assert hostfile_check.compare_hostfile(world.cluster, [master, *workers], identity=None) == ""
    ssh.says(0, "".join(lines[:3]) + "10.9.9.9 slots=2\n")
    expected = f"the head node's hostfile lacks {workers[-1].address}, still has 10.9.9.9"
    assert hostfile_check.compare_hostfile(world.cluster, [master, *workers], identity=None) == expected
    ssh.says(255, error="Connection closed")
    assert "the head node cannot be reached: Connection closed" in hostfile_check.compare_hostfile(
        world.cluster, [master], identity=None
    )


def test_a_head_node_without_slots_is_in_the_hostfile_only_without_workers(world: World) -> None:
    master, worker, *_ = world.cluster.nodes()
    world.says(master, slots=0, idle_slots=4)
    world.joins(worker)
    assert hostfile_check.read_expected_slots(world.cluster, [master]) == ({master.address: 4}, [])
    assert hostfile_check.read_expected_slots(world.cluster, [master, worker]) == ({worker.address: 2}, [])


def test_slots_that_differ_from_a_nodes_notice_are_reported() -> None:
    found = hostfile_check.parse_hostfile("10.0.0.5 slots=4\n\n10.0.0.6\n")
    assert (
        hostfile_check.describe_difference({"10.0.0.5": 8, "10.0.0.6": 0}, found)
        == "the head node's hostfile has 4 slots of 10.0.0.5 instead of 8"
    )


def test_a_key_file_that_does_not_exist_is_reported_before_waiting(world: World) -> None:
    with pytest.raises(CommandError, match="--identity: nowhere does not exist"):
        wait.command(STACK, minutes=1, identity=Path("nowhere"), config_dir=FOLDER)


def test_hosts_lists_every_node(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.joins(world.cluster.head_node(), world.workers[0])
    assert list_hosts.command(STACK, FOLDER, as_json=True) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [one["role"] for one in printed["hosts"]] == ["master", "worker", "worker", "worker"]
    assert sum(one["joined"] for one in printed["hosts"]) == 2
    assert printed["workers"] == {"min": 0, "desired": 3, "max": 8}


@pytest.mark.parametrize("size", [0, 2, 8])
def test_scale_changes_the_group(world: World, size: int) -> None:
    assert wait.scale(size, STACK, wait_for_nodes=False, config_dir=FOLDER) == 0
    assert world.cluster.group().desired == size


def test_scale_beyond_the_bounds_is_refused(world: World) -> None:
    with pytest.raises(
        CommandError, match=r"9 is not between minSize and maxSize. Use 0 to 8, or change pools\[0\].maxSize"
    ) as refused:
        wait.scale(9, STACK, wait_for_nodes=False, config_dir=FOLDER)
    assert refused.value.code == 3
    assert world.cluster.group().desired == 3


def test_a_notice_from_another_role_or_address_is_ignored(world: World) -> None:
    """The cluster ignores a notice whose key names another role, or whose content names another node's address."""
    head_node = world.cluster.head_node()
    clients, bucket = world.cluster._clients, world.cluster.bucket
    clients.s3.put_object(
        Bucket=bucket, Key=f"nodes/AROAOTHER:{head_node.id}/notice.json", Body=b'{"address": "%s"}' % head_node.address.encode()
    )
    assert world.cluster.notice(head_node) is None
    key = f"nodes/{world.cluster._role_id(head_node)}:{head_node.id}/notice.json"
    clients.s3.put_object(Bucket=bucket, Key=key, Body=b'{"address": "10.9.9.9", "host_keys": []}')
    assert world.cluster.notice(head_node) is None


@pytest.mark.parametrize(("stack", "message"), [("local", "target.kind is eks, not ec2"), ("nothing", "nothing")])
def test_a_stack_of_another_kind_or_a_missing_one_is_refused(stack: str, message: str) -> None:
    with pytest.raises((CommandError, NoSuchStack), match=message):
        DeployedEc2Cluster(stack, FOLDER)


def test_the_error_for_a_missing_cluster_names_the_command_that_creates_it(tmp_path: Path) -> None:
    from localcloud.engine.mocks import MotoMocks

    with MotoMocks("us-west-2"), pytest.raises(CommandError, match="`pulumi up -s local-ec2` creates it"):
        DeployedEc2Cluster(STACK, FOLDER).head_node()
