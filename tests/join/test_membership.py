"""Nodes that come, go, are slow, or cannot be asked about."""

import contextlib
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from gpumpi_join.notice import Notice

from localcloud.aws import faults
from localcloud.aws.faults import Fault
from tests.join.world import BUCKET, GROUP, JOIN_SECONDS, Host, World


def run(host: Host, *, rounds: int) -> None:
    """The service's own loop, so many times."""
    left = iter(range(rounds - 1))

    class Enough(Exception):
        pass

    def wait(seconds: float) -> None:
        if next(left, None) is None:
            raise Enough

    with contextlib.suppress(Enough):
        host.service.run(wait)


def boot_log(world: World, host: Host) -> str:
    return world.client("s3").get_object(Bucket=BUCKET, Key=f"{host.folder}boot.log")["Body"].read().decode()


def test_a_master_alone_takes_the_ranks_itself(world: World) -> None:
    master = world.start_master()
    world.step(master)
    assert master.hostfile == [f"{master.address} slots=2"]


def test_with_workers_the_hostfile_has_their_slots_and_no_master_without(world: World) -> None:
    master, *workers = world.start_master(), *world.scale(2)
    world.step(master, *workers)
    expected = sorted(f"{worker.address} slots=8" for worker in workers)
    assert sorted(master.hostfile) == expected
    assert sorted(workers[0].hostfile) == expected


def test_a_node_is_in_the_hostfile_only_when_its_sshd_answers(world: World) -> None:
    master, first, second = world.start_master(), *world.scale(2)

    def all_but_first(notice: Notice) -> bool:
        return notice.address != first.address

    world.answering = all_but_first
    world.step(master, first, second)
    assert master.hostfile == [f"{second.address} slots=8"]
    world.answering = lambda notice: True
    world.step(master)
    assert len(master.hostfile) == 2


def test_a_worker_is_in_service_only_when_the_master_has_taken_it_in(world: World) -> None:
    worker, *_ = world.scale(1)
    world.step(worker)
    assert world.states() == {worker.instance_id: "Pending:Wait"}
    master = world.start_master()
    world.step(master, worker)
    assert world.states() == {worker.instance_id: "InService"}
    assert worker.service.joined


def test_a_worker_that_gives_up_is_replaced(world: World) -> None:
    master, worker = world.start_master(), *world.scale(1)
    world.step(master)
    worker.service.finish("ABANDON")
    after = world.states()
    assert worker.instance_id not in after or after[worker.instance_id].startswith("Terminating")
    replacement = next(host for host in world.scale(1) if host.instance_id != worker.instance_id)
    world.step(master, replacement)
    assert world.states()[replacement.instance_id] == "InService"


def test_a_worker_that_cannot_join_in_time_leaves_its_log_and_what_keeps_it_out_and_is_replaced(world: World) -> None:
    master, worker = world.start_master(), *world.scale(1)
    world.answering = lambda notice: notice.address != worker.address
    world.step(master)
    world.seconds = JOIN_SECONDS - 1.0
    run(worker, rounds=2)
    assert world.states() == {worker.instance_id: "Pending:Wait"}
    world.seconds = JOIN_SECONDS
    run(worker, rounds=1)
    assert (
        boot_log(world, worker) == "what it said\ngpumpi: not joined 600 s after its boot: the master does not know this node\n"
    )
    assert worker.instance_id not in world.states()


def test_a_worker_without_a_master_says_so_in_its_log(world: World) -> None:
    worker = world.scale(1)[0]
    world.seconds = JOIN_SECONDS
    run(worker, rounds=1)
    assert "there is no master, or none whose keys are believed" in boot_log(world, worker)


def test_a_worker_whose_log_cannot_be_left_is_replaced_all_the_same(world: World) -> None:
    worker = world.scale(1)[0]
    world.seconds = JOIN_SECONDS
    faults.add(Fault("s3", "*", "AccessDenied", times=99))
    run(worker, rounds=1)
    assert worker.instance_id not in world.states()


def test_a_worker_in_service_that_is_started_again_without_a_master_does_not_give_up(world: World) -> None:
    master, worker = world.start_master(), *world.scale(1)
    world.step(master, worker)
    world.client("ec2").terminate_instances(InstanceIds=[master.instance_id])
    worker.service.joined = False
    world.seconds = 10 * JOIN_SECONDS
    run(worker, rounds=2)
    assert world.states() == {worker.instance_id: "InService"}


def test_both_logs_end_with_what_the_service_said(tmp_path: Path) -> None:
    from gpumpi_join.giving_up import JOURNAL, both_logs

    file = tmp_path / "boot.log"
    file.write_text("booted\n")
    said = CompletedProcess(JOURNAL, 0, "not joined yet\n", "")
    assert both_logs(file, lambda command: said) == b"booted\nnot joined yet\n"
    assert both_logs(tmp_path / "none", lambda command: said).startswith(b"no log of the boot was written\n")


@pytest.mark.parametrize(
    ("code", "error", "trouble"),
    [
        (0, "", ""),
        (1, "", "the master's hostfile lacks 10.0.0.5: it has not seen this node, or got no answer of its sshd"),
        (255, "Host key verification failed.\n", "the master does not let this node in: Host key verification failed."),
    ],
)
def test_what_keeps_a_worker_out_is_said_in_words(code: int, error: str, trouble: str) -> None:
    from gpumpi_join.machine import trouble_with_master

    said = CompletedProcess("ssh", code, "", error)
    assert trouble_with_master("mpi", "10.0.0.5", Path("hostfile"), lambda command: said) == trouble


def test_workers_that_join_later_are_taken_in_and_those_that_left_are_dropped(world: World) -> None:
    master, first = world.start_master(), *world.scale(1)
    world.step(master, first)
    later = world.scale(3)
    world.step(master, *later)
    assert len(master.hostfile) == 3
    world.client("autoscaling").terminate_instance_in_auto_scaling_group(
        InstanceId=first.instance_id, ShouldDecrementDesiredCapacity=True
    )
    rest = [host for host in later if host is not first]
    world.step(master, *rest)
    for host in (master, *rest):
        assert first.address not in host.read("hostfile") + host.read("known_hosts") + host.read("hosts")
        assert first.service.notice.user_key not in host.read("authorized_keys")


def test_a_worker_that_waits_for_its_end_is_dropped_at_once(world: World) -> None:
    """It still runs: a hook holds it. No new rank may go there."""
    master, worker = world.start_master(), *world.scale(1)
    world.step(master, worker)
    autoscaling = world.client("autoscaling")
    autoscaling.put_lifecycle_hook(
        AutoScalingGroupName=GROUP, LifecycleHookName="leave", LifecycleTransition="autoscaling:EC2_INSTANCE_TERMINATING"
    )
    autoscaling.terminate_instance_in_auto_scaling_group(InstanceId=worker.instance_id, ShouldDecrementDesiredCapacity=True)
    assert world.states() == {worker.instance_id: "Terminating:Wait"}
    world.step(master)
    assert worker.address not in master.read("hostfile")


def test_a_bucket_that_was_emptied_changes_nothing_and_is_filled_again(world: World) -> None:
    master, *workers = world.start_master(), *world.scale(2)
    world.step(master, *workers)
    before = {name: master.read(name) for name in ("authorized_keys", "known_hosts", "hostfile")}
    s3 = world.client("s3")
    for one in s3.list_objects_v2(Bucket=BUCKET)["Contents"]:
        s3.delete_object(Bucket=BUCKET, Key=one["Key"])
    master.service.step()
    assert {name: master.read(name) for name in before} == before
    world.step(*workers)
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 3


def test_when_s3_is_away_the_files_stay_and_the_service_goes_on(world: World) -> None:
    master, worker = world.start_master(), *world.scale(1)
    world.step(master, worker)
    before = master.read("hostfile")
    faults.add(Fault("s3", "ListObjectsV2", "ServiceUnavailable", status=503, times=3))
    run(master, rounds=4)
    assert master.read("hostfile") == before
    assert faults.pending() == []


def test_who_has_left_is_dropped_also_while_s3_is_away(world: World) -> None:
    master, first, second = world.start_master(), *world.scale(2)
    world.step(master, first, second)
    faults.add(Fault("s3", "*", "ServiceUnavailable", status=503, times=99))
    world.client("autoscaling").terminate_instance_in_auto_scaling_group(
        InstanceId=first.instance_id, ShouldDecrementDesiredCapacity=True
    )
    run(master, rounds=1)
    assert master.hostfile == [f"{second.address} slots=8"]


def test_a_restarted_service_remembers_its_nodes(world: World) -> None:
    from gpumpi_join.service import Service

    master, worker = world.start_master(), *world.scale(1)
    world.step(master, worker)
    s3 = world.client("s3")
    for one in s3.list_objects_v2(Bucket=BUCKET)["Contents"]:
        s3.delete_object(Bucket=BUCKET, Key=one["Key"])
    old = master.service
    again = Service(
        old.cluster,
        old.clients,
        instance_id=master.instance_id,
        identity=master.folder.split("/")[1],
        notice=old.notice,
        paths=master.paths,
        answers=lambda notice: True,
    )
    again.step()
    assert worker.address in master.read("hostfile")


def test_other_lines_of_the_hosts_file_stay(world: World) -> None:
    master = world.start_master()
    master.paths.hosts.write_text("127.0.0.1 localhost\n10.9.9.9 storage\n")
    worker = world.scale(1)[0]
    world.step(master, worker)
    assert master.read("hosts").startswith("127.0.0.1 localhost\n10.9.9.9 storage\n")
    world.client("autoscaling").set_desired_capacity(AutoScalingGroupName=GROUP, DesiredCapacity=0)
    world.step(master)
    assert worker.address not in master.read("hosts")
    assert master.read("hosts").count("gpumpi") == 2
