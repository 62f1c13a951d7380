"""wait, hosts and scale, on a plain EC2 cluster in the local AWS of this process."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli import hosts, scale, wait
from cli.plain_cluster import Failed, PlainCluster
from tests.program.engine import deploy
from tests.program.worlds import ROOT, account_for

STACK = "local-ec2"
FOLDER = ROOT / "stacks"


class World:
    """The stack, up, on an AWS whose instances do nothing by themselves."""

    def __init__(self) -> None:
        self.cluster = PlainCluster(STACK, FOLDER)

    def joins(self, *nodes: Any) -> None:
        """What the join service on these nodes would do."""
        clients = self.cluster._clients
        for node in nodes:
            notice = {"address": node.address, "slots": 2, "host_keys": ["ssh-ed25519 AAAA"]}
            key = f"nodes/{self.cluster._role_id(node)}:{node.id}/notice.json"
            clients.s3.put_object(Bucket=self.cluster.bucket, Key=key, Body=json.dumps(notice))
            if not node.is_master:
                self.ends(node, "CONTINUE")

    def ends(self, node: Any, result: str) -> None:
        self.cluster._clients.autoscaling.complete_lifecycle_action(
            AutoScalingGroupName=self.cluster.naming.workers,
            LifecycleHookName="join",
            InstanceId=node.id,
            LifecycleActionResult=result,
        )

    def fails(self, node: Any, log: str) -> None:
        key = f"nodes/{self.cluster._role_id(node)}:{node.id}/boot.log"
        self.cluster._clients.s3.put_object(Bucket=self.cluster.bucket, Key=key, Body=log.encode())

    @property
    def workers(self) -> list[Any]:
        return [node for node in self.cluster.nodes() if not node.is_master]


@pytest.fixture
def world() -> Iterator[World]:
    with account_for(FOLDER / f"Pulumi.{STACK}.yaml") as (settings, facts, mocks):
        deploy(settings, facts, mocks)
        yield World()


def test_it_is_ready_when_the_master_and_all_workers_have_joined(world: World) -> None:
    said: list[str] = []
    steps = iter([lambda: world.joins(world.cluster.master()), lambda: world.joins(*world.workers)])
    seen = wait.wait(world.cluster, 60, said.append, pause=lambda seconds: next(steps)())
    assert seen.is_ready and seen.in_service == 3
    told = ["master boots, 0 of 3 workers joined", "master joined, 0 of 3 workers joined", "master joined, 3 of 3 workers joined"]
    assert [line.partition(": ")[2] for line in said] == told


def test_a_worker_that_cannot_boot_shows_its_log_and_is_not_counted(world: World) -> None:
    said: list[str] = []
    world.joins(world.cluster.master(), *world.workers[1:])
    world.fails(world.workers[0], "mount: no such file system\n")
    clock = iter([0.0, 0.0, 0.0, 100.0, 100.0])
    with pytest.raises(Failed, match="not ready after 1 minutes: master joined, 2 of 3 workers joined"):
        wait.wait(world.cluster, 60, said.append, pause=lambda seconds: None, clock=lambda: next(clock))
    assert any("could not boot" in line and "| mount: no such file system" in line for line in said)


def test_a_master_that_cannot_boot_ends_the_wait_at_once(world: World) -> None:
    world.fails(world.cluster.master(), "broken\n")
    with pytest.raises(Failed, match="could not boot; its log is above"):
        wait.wait(world.cluster, 60, lambda line: None, pause=lambda seconds: None)


def test_three_workers_that_cannot_boot_are_enough(world: World) -> None:
    for node in world.workers:
        world.fails(node, "broken\n")
    with pytest.raises(Failed, match="3 workers could not boot"):
        wait.wait(world.cluster, 60, lambda line: None, pause=lambda seconds: None)


def test_hosts_tells_who_there_is(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.joins(world.cluster.master(), world.workers[0])
    assert hosts.run(STACK, FOLDER, as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["role"] for one in told["hosts"]] == ["master", "worker", "worker", "worker"]
    assert sum(one["joined"] for one in told["hosts"]) == 2
    assert told["workers"] == {"min": 0, "desired": 3, "max": 8}


@pytest.mark.parametrize("size", [0, 2, 8])
def test_scale_changes_the_group(world: World, size: int) -> None:
    assert scale.run(size, STACK, FOLDER, minutes=1, wait_for_it=False) == 0
    assert world.cluster.group().desired == size


def test_scale_beyond_the_bounds_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert scale.run(9, STACK, FOLDER, minutes=1, wait_for_it=False) == 3
    assert "9 is outside of minSize and maxSize; write 0 to 8, or change pools[0].maxSize" in capsys.readouterr().err
    assert world.cluster.group().desired == 3


def test_what_a_stranger_says_is_no_notice_of_the_master(world: World) -> None:
    """Below another name, or with another address."""
    master = world.cluster.master()
    clients, bucket = world.cluster._clients, world.cluster.bucket
    clients.s3.put_object(
        Bucket=bucket, Key=f"nodes/AROAOTHER:{master.id}/notice.json", Body=b'{"address": "%s"}' % master.address.encode()
    )
    assert world.cluster.notice(master) is None
    key = f"nodes/{world.cluster._role_id(master)}:{master.id}/notice.json"
    clients.s3.put_object(Bucket=bucket, Key=key, Body=b'{"address": "10.9.9.9", "host_keys": []}')
    assert world.cluster.notice(master) is None


@pytest.mark.parametrize(("stack", "message"), [("local", "target.kind is eks, not ec2"), ("nothing", "nothing")])
def test_other_stacks_are_no_plain_clusters(stack: str, message: str) -> None:
    with pytest.raises(Failed, match=message):
        PlainCluster(stack, FOLDER)


def test_a_cluster_that_is_not_there_says_how_to_make_it(tmp_path: Path) -> None:
    from localcloud.engine.mocks import MotoMocks

    with MotoMocks("us-west-2"), pytest.raises(Failed, match="`pulumi up -s local-ec2` makes it"):
        PlainCluster(STACK, FOLDER).master()
