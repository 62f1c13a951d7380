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
from tests.program.worlds import ROOT, start_local_account

STACK = "local-ec2"
FOLDER = ROOT / "stacks"


def report_no_differences(cluster: DeployedEc2Cluster, nodes: Any) -> str:
    """Report no differences, as for a correct hostfile."""
    return ""


class World:
    """A stack deployed in a local AWS in which instances exist only as API records."""

    def __init__(self) -> None:
        self.cluster = DeployedEc2Cluster(STACK, FOLDER)

    def simulate_join_service(self, *nodes: Any) -> None:
        """Simulate the join service on these nodes."""
        for node in nodes:
            self.publish_notice(node, slots=2, idle_slots=0)
            if not node.is_head_node:
                self.complete_join_hook(node, "CONTINUE")

    def publish_notice(self, node: Any, *, slots: int, idle_slots: int) -> None:
        notice = {"address": node.address, "slots": slots, "idle_slots": idle_slots, "host_keys": ["ssh-ed25519 AAAA"]}
        key = f"nodes/{self.cluster._read_role_id(node)}:{node.id}/notice.json"
        self.cluster._clients.s3.put_object(Bucket=self.cluster.bucket, Key=key, Body=json.dumps(notice))

    def complete_join_hook(self, node: Any, result: str) -> None:
        self.cluster._clients.autoscaling.complete_lifecycle_action(
            AutoScalingGroupName=self.cluster.naming.workers,
            LifecycleHookName="join",
            InstanceId=node.id,
            LifecycleActionResult=result,
        )

    def upload_boot_log(self, node: Any, log: str) -> None:
        self._upload_file(node, "boot.log", log)

    def upload_waiting_reason(self, node: Any, reason: str) -> None:
        self._upload_file(node, "waiting.txt", reason)

    def _upload_file(self, node: Any, name: str, text: str) -> None:
        key = f"nodes/{self.cluster._read_role_id(node)}:{node.id}/{name}"
        self.cluster._clients.s3.put_object(Bucket=self.cluster.bucket, Key=key, Body=text.encode())

    @property
    def workers(self) -> list[Any]:
        return [node for node in self.cluster.nodes() if not node.is_head_node]


class Ssh:
    """A fake ssh on PATH, with stubs of the other programs that the command line needs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("aws", "session-manager-plugin"):
            self._write_program(name, "")
        self.set_response(0)

    def set_response(self, code: int, out: str = "", error: str = "") -> None:
        self._write_program("ssh", f"printf %s {shlex.quote(out)}; printf %s {shlex.quote(error)} >&2; exit {code}")

    def _write_program(self, name: str, script: str) -> None:
        file = self._folder / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)


@pytest.fixture
def ssh_stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ssh:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return Ssh(tmp_path)


@pytest.fixture
def ec2_cluster() -> Iterator[World]:
    with start_local_account(FOLDER / f"Pulumi.{STACK}.yaml") as (settings, facts, mocks):
        deploy(settings, facts, mocks)
        yield World()


def test_a_cluster_is_ready_when_the_head_node_and_all_workers_have_joined(ec2_cluster: World) -> None:
    said: list[str] = []
    steps = iter(
        [
            lambda: ec2_cluster.simulate_join_service(ec2_cluster.cluster.head_node()),
            lambda: ec2_cluster.simulate_join_service(*ec2_cluster.workers),
        ]
    )
    status = wait.wait_until_ready(
        ec2_cluster.cluster, 60, said.append, report_no_differences, pause=lambda seconds: next(steps)()
    )
    assert status.has_joined and status.workers_in_service == 3
    expected = [
        "head node boots, 0 of 3 workers joined",
        "head node joined, 0 of 3 workers joined",
        "head node joined, 3 of 3 workers joined",
    ]
    assert [line.partition(": ")[2] for line in said] == expected


def test_wait_prints_the_log_of_a_worker_that_cannot_boot_and_does_not_count_the_worker(ec2_cluster: World) -> None:
    said: list[str] = []
    ec2_cluster.simulate_join_service(ec2_cluster.cluster.head_node(), *ec2_cluster.workers[1:])
    ec2_cluster.upload_boot_log(ec2_cluster.workers[0], "mount: no such file system\n")
    clock = iter([0.0, 0.0, 0.0, 100.0, 100.0])
    with pytest.raises(CommandError, match="not ready after 1 minutes: head node joined, 2 of 3 workers joined"):
        wait.wait_until_ready(
            ec2_cluster.cluster, 60, said.append, report_no_differences, pause=lambda seconds: None, clock=lambda: next(clock)
        )
    assert any("could not join" in line and "| mount: no such file system" in line for line in said)


def test_the_wait_ends_at_once_if_the_head_node_cannot_boot(ec2_cluster: World) -> None:
    ec2_cluster.upload_boot_log(ec2_cluster.cluster.head_node(), "broken\n")
    with pytest.raises(CommandError, match="could not boot; its log is above"):
        wait.wait_until_ready(ec2_cluster.cluster, 60, lambda line: None, report_no_differences, pause=lambda seconds: None)


def test_the_wait_ends_after_three_workers_fail_to_join(ec2_cluster: World) -> None:
    for node in ec2_cluster.workers:
        ec2_cluster.upload_boot_log(node, "broken\n")
    with pytest.raises(CommandError, match="3 workers could not join"):
        wait.wait_until_ready(ec2_cluster.cluster, 60, lambda line: None, report_no_differences, pause=lambda seconds: None)


NO_MOUNT = "/shared cannot be mounted: mount.nfs4: Connection timed out"


def test_the_wait_reports_once_why_a_node_is_delayed_and_continues(ec2_cluster: World) -> None:
    said: list[str] = []
    head_node, first = ec2_cluster.cluster.head_node(), ec2_cluster.workers[0]
    ec2_cluster.upload_waiting_reason(head_node, NO_MOUNT)
    ec2_cluster.upload_waiting_reason(first, NO_MOUNT)
    steps = iter(
        [
            lambda: None,
            lambda: ec2_cluster.upload_waiting_reason(first, "another reason"),
            lambda: ec2_cluster.simulate_join_service(head_node, *ec2_cluster.workers),
        ]
    )
    status = wait.wait_until_ready(
        ec2_cluster.cluster, 60, said.append, report_no_differences, pause=lambda seconds: next(steps)()
    )
    assert status.has_joined
    reasons = [line.partition(": ")[2] for line in said if "has not joined yet" in line]
    assert sorted(reasons) == sorted([NO_MOUNT, NO_MOUNT, "another reason"])


def test_status_shows_why_a_node_has_not_joined_yet(ec2_cluster: World) -> None:
    head_node, first, *other_workers = ec2_cluster.cluster.head_node(), *ec2_cluster.workers
    ec2_cluster.upload_waiting_reason(head_node, NO_MOUNT)
    ec2_cluster.upload_waiting_reason(first, NO_MOUNT)
    ec2_cluster.simulate_join_service(*other_workers)
    head, workers = in_ec2_cluster.read_status(ec2_cluster.cluster).pools
    for pool, node in ((head, head_node), (workers, first)):
        (problem,) = pool.problems
        assert problem.startswith(f"{node.id} has not joined yet (") and problem.endswith(f"): {NO_MOUNT}")
    ec2_cluster.simulate_join_service(head_node, first)
    assert [pool.problems for pool in in_ec2_cluster.read_status(ec2_cluster.cluster).pools] == [(), ()]


def test_a_cluster_is_ready_only_when_the_hostfile_lists_its_nodes(ec2_cluster: World) -> None:
    ec2_cluster.simulate_join_service(ec2_cluster.cluster.head_node(), *ec2_cluster.workers)
    said: list[str] = []
    answers = iter(["the head node's hostfile lacks 10.0.0.9", ""])
    status = wait.wait_until_ready(
        ec2_cluster.cluster, 60, said.append, lambda cluster, nodes: next(answers), pause=lambda seconds: None
    )
    assert status.difference == ""
    expected = [
        "head node joined, 3 of 3 workers joined, the head node's hostfile lacks 10.0.0.9",
        "head node joined, 3 of 3 workers joined",
    ]
    assert [line.partition(": ")[2] for line in said] == expected


def test_a_hostfile_that_stays_wrong_ends_the_wait_with_an_error(ec2_cluster: World) -> None:
    ec2_cluster.simulate_join_service(ec2_cluster.cluster.head_node(), *ec2_cluster.workers)
    clock = iter([0.0, 0.0, 0.0, 121.0])
    with pytest.raises(
        CommandError, match=r"all nodes have joined, but after 2 minutes it lacks 10.0.0.9; `scripts/cluster ssh -s local-ec2"
    ):
        wait.wait_until_ready(
            ec2_cluster.cluster,
            600,
            lambda line: None,
            lambda *_: "it lacks 10.0.0.9",
            pause=lambda _: None,
            clock=lambda: next(clock),
        )


def test_without_ssh_access_the_wait_succeeds_and_reports_an_unchecked_hostfile(ec2_cluster: World, ssh_stub: Ssh) -> None:
    ec2_cluster.simulate_join_service(ec2_cluster.cluster.head_node(), *ec2_cluster.workers)
    ssh_stub.set_response(255, error="mpiuser@i-1: Permission denied (publickey).")
    said: list[str] = []
    assert wait.wait_until_ready(
        ec2_cluster.cluster, 60, said.append, partial(hostfile_check.compare_hostfile, identity=None)
    ).has_joined
    assert (
        "hostfile was not checked: the head node rejected the SSH keys for mpiuser; pass another key with --identity" in said[0]
    )


def test_the_hostfile_is_compared_with_the_notices_published_by_the_nodes(ec2_cluster: World, ssh_stub: Ssh) -> None:
    master, *workers = ec2_cluster.cluster.nodes()
    ec2_cluster.simulate_join_service(master, *workers)
    lines = [f"{node.address} slots=2\n" for node in (master, *workers)]
    ssh_stub.set_response(0, "".join(lines))
    assert hostfile_check.compare_hostfile(ec2_cluster.cluster, [master, *workers], identity=None) == ""
    ssh_stub.set_response(0, "".join(lines[:3]) + "10.9.9.9 slots=2\n")
    expected = f"the head node's hostfile lacks {workers[-1].address}, still has 10.9.9.9"
    assert hostfile_check.compare_hostfile(ec2_cluster.cluster, [master, *workers], identity=None) == expected
    ssh_stub.set_response(255, error="Connection closed")
    assert "the head node cannot be reached: Connection closed" in hostfile_check.compare_hostfile(
        ec2_cluster.cluster, [master], identity=None
    )


def test_the_hostfile_lists_a_head_node_without_slots_only_if_there_are_no_workers(ec2_cluster: World) -> None:
    master, worker, *_ = ec2_cluster.cluster.nodes()
    ec2_cluster.publish_notice(master, slots=0, idle_slots=4)
    ec2_cluster.simulate_join_service(worker)
    assert hostfile_check.read_expected_slots(ec2_cluster.cluster, [master]) == ({master.address: 4}, [])
    assert hostfile_check.read_expected_slots(ec2_cluster.cluster, [master, worker]) == ({worker.address: 2}, [])


def test_hostfile_slots_that_differ_from_the_published_slots_are_reported() -> None:
    hostfile_slots = hostfile_check.parse_hostfile("10.0.0.5 slots=4\n\n10.0.0.6\n")
    assert (
        hostfile_check.describe_difference({"10.0.0.5": 8, "10.0.0.6": 0}, hostfile_slots)
        == "the head node's hostfile has 4 slots of 10.0.0.5 instead of 8"
    )


def test_a_missing_key_file_is_reported_before_waiting(ec2_cluster: World) -> None:
    with pytest.raises(CommandError, match="--identity: nowhere does not exist"):
        wait.command(STACK, minutes=1, identity=Path("nowhere"), config_dir=FOLDER)


def test_hosts_command_lists_every_node(ec2_cluster: World, capsys: pytest.CaptureFixture[str]) -> None:
    ec2_cluster.simulate_join_service(ec2_cluster.cluster.head_node(), ec2_cluster.workers[0])
    assert list_hosts.command(STACK, FOLDER, as_json=True) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [host["role"] for host in printed["hosts"]] == ["master", "worker", "worker", "worker"]
    assert sum(host["joined"] for host in printed["hosts"]) == 2
    assert printed["workers"] == {"min": 0, "desired": 3, "max": 8}


@pytest.mark.parametrize("size", [0, 2, 8])
def test_scale_changes_the_size_of_the_auto_scaling_group(ec2_cluster: World, size: int) -> None:
    assert wait.scale(size, STACK, wait_for_nodes=False, config_dir=FOLDER) == 0
    assert ec2_cluster.cluster.group().desired == size


def test_scaling_beyond_the_size_limits_is_refused(ec2_cluster: World) -> None:
    with pytest.raises(
        CommandError, match=r"9 is not between minSize and maxSize. Use 0 to 8, or change pools\[0\].maxSize"
    ) as refused:
        wait.scale(9, STACK, wait_for_nodes=False, config_dir=FOLDER)
    assert refused.value.code == 3
    assert ec2_cluster.cluster.group().desired == 3


def test_a_notice_from_another_role_or_address_is_ignored(ec2_cluster: World) -> None:
    """The cluster ignores a notice whose key names another role, or whose content names another node's address."""
    head_node = ec2_cluster.cluster.head_node()
    clients, bucket = ec2_cluster.cluster._clients, ec2_cluster.cluster.bucket
    clients.s3.put_object(
        Bucket=bucket, Key=f"nodes/AROAOTHER:{head_node.id}/notice.json", Body=b'{"address": "%s"}' % head_node.address.encode()
    )
    assert ec2_cluster.cluster.read_notice(head_node) is None
    key = f"nodes/{ec2_cluster.cluster._read_role_id(head_node)}:{head_node.id}/notice.json"
    clients.s3.put_object(Bucket=bucket, Key=key, Body=b'{"address": "10.9.9.9", "host_keys": []}')
    assert ec2_cluster.cluster.read_notice(head_node) is None


@pytest.mark.parametrize(("stack", "message"), [("local", "target.kind is eks, not ec2"), ("nothing", "nothing")])
def test_a_missing_stack_or_a_stack_of_another_kind_is_refused(stack: str, message: str) -> None:
    with pytest.raises((CommandError, NoSuchStack), match=message):
        DeployedEc2Cluster(stack, FOLDER)


def test_the_error_for_a_missing_cluster_names_the_command_that_creates_it(tmp_path: Path) -> None:
    from localcloud.engine.mocks import MotoMocks

    with MotoMocks("us-west-2"), pytest.raises(CommandError, match="`pulumi up -s local-ec2` creates it"):
        DeployedEc2Cluster(STACK, FOLDER).head_node()
