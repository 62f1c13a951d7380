"""Cluster membership when nodes join, leave or are slow, and when AWS is unavailable."""

import contextlib
import json
from dataclasses import asdict
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace

import pytest
from gpumpi_join import __main__ as program
from gpumpi_join.notice import Notice

from localcloud.aws import faults
from localcloud.aws.faults import Fault
from tests.join.world import BUCKET, GROUP, JOIN_SECONDS, Host, World


def run_rounds(host: Host, *, rounds: int) -> None:
    """Run the service's main loop for the given number of rounds."""
    left = iter(range(rounds - 1))

    class Enough(Exception):
        pass

    def wait(seconds: float) -> None:
        if next(left, None) is None:
            raise Enough

    with contextlib.suppress(Enough):
        host.service.run(wait)


def read_boot_log(world: World, host: Host) -> str:
    return world.client("s3").get_object(Bucket=BUCKET, Key=f"{host.folder}boot.log")["Body"].read().decode()


def test_a_node_reports_why_it_cannot_join_yet_and_stays_in_its_group(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (worker,) = world.scale(1)
    content = asdict(worker.service.cluster)
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(content))
    session = SimpleNamespace(client=lambda name, **_: {"s3": worker.s3, "sts": Identity(worker)}.get(name))
    monkeypatch.setattr(program.boto3.session, "Session", lambda **_: session)
    monkeypatch.setattr(program.machine, "read_metadata", lambda name: worker.instance_id)
    monkeypatch.setattr("sys.argv", ["gpumpi-join", "--cluster-file", str(file), "--waiting", "/shared cannot be mounted"])
    assert program.main() == 0
    key = f"{worker.folder}waiting.txt"
    assert world.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"/shared cannot be mounted"
    assert world.list_states() == {worker.instance_id: "Pending:Wait"}


class Identity:
    """Fake STS client of one host."""

    def __init__(self, host: Host) -> None:
        self._identity = host.folder.split("/")[1]

    def get_caller_identity(self) -> dict[str, str]:
        return {"UserId": self._identity}


def test_a_head_node_without_workers_runs_ranks_itself(world: World) -> None:
    master = world.start_head_node()
    world.run_two_rounds(master)
    assert master.hostfile == [f"{master.address} slots=2"]


def test_the_hostfile_lists_the_slots_of_workers_and_omits_a_head_node_without_slots(world: World) -> None:
    master, *workers = world.start_head_node(), *world.scale(2)
    world.run_two_rounds(master, *workers)
    expected = sorted(f"{worker.address} slots=8" for worker in workers)
    assert sorted(master.hostfile) == expected
    assert sorted(workers[0].hostfile) == expected


def test_a_node_is_added_to_the_hostfile_when_its_sshd_responds(world: World) -> None:
    master, first, second = world.start_head_node(), *world.scale(2)

    def is_not_first(notice: Notice) -> bool:
        return notice.address != first.address

    world.answering = is_not_first
    world.run_two_rounds(master, first, second)
    assert master.hostfile == [f"{second.address} slots=8"]
    world.answering = lambda notice: True
    world.run_two_rounds(master)
    assert len(master.hostfile) == 2


def test_a_worker_enters_service_when_the_hostfile_of_the_head_node_lists_it(world: World) -> None:
    worker, *_ = world.scale(1)
    world.run_two_rounds(worker)
    assert world.list_states() == {worker.instance_id: "Pending:Wait"}
    master = world.start_head_node()
    world.run_two_rounds(master, worker)
    assert world.list_states() == {worker.instance_id: "InService"}
    assert worker.service.joined


def test_a_worker_that_gives_up_joining_is_replaced(world: World) -> None:
    master, worker = world.start_head_node(), *world.scale(1)
    world.run_two_rounds(master)
    worker.service.complete_launch("ABANDON")
    after = world.list_states()
    assert worker.instance_id not in after or after[worker.instance_id].startswith("Terminating")
    replacement = next(host for host in world.scale(1) if host.instance_id != worker.instance_id)
    world.run_two_rounds(master, replacement)
    assert world.list_states()[replacement.instance_id] == "InService"


def test_a_worker_that_cannot_join_in_time_uploads_its_log_with_the_reason_and_is_replaced(world: World) -> None:
    master, worker = world.start_head_node(), *world.scale(1)
    world.answering = lambda notice: notice.address != worker.address
    world.run_two_rounds(master)
    world.seconds = JOIN_SECONDS - 1.0
    run_rounds(worker, rounds=2)
    assert world.list_states() == {worker.instance_id: "Pending:Wait"}
    world.seconds = JOIN_SECONDS
    run_rounds(worker, rounds=1)
    obstacle = "the head node does not know this node"
    assert read_boot_log(world, worker) == f"the logs\ngpumpi: not joined 600 s after its boot: {obstacle}\n"
    assert worker.instance_id not in world.list_states()


def test_a_worker_without_a_head_node_logs_that_it_is_missing(world: World) -> None:
    worker = world.scale(1)[0]
    world.seconds = JOIN_SECONDS
    run_rounds(worker, rounds=1)
    assert "there is no head node with trusted keys yet" in read_boot_log(world, worker)


def test_a_worker_is_replaced_even_if_its_log_upload_fails(world: World) -> None:
    worker = world.scale(1)[0]
    world.seconds = JOIN_SECONDS
    faults.add_fault(Fault("s3", "*", "AccessDenied", times=99))
    run_rounds(worker, rounds=1)
    assert worker.instance_id not in world.list_states()


def test_a_worker_in_service_does_not_give_up_if_it_restarts_without_a_head_node(world: World) -> None:
    master, worker = world.start_head_node(), *world.scale(1)
    world.run_two_rounds(master, worker)
    world.client("ec2").terminate_instances(InstanceIds=[master.instance_id])
    worker.service.joined = False
    world.seconds = 10 * JOIN_SECONDS
    run_rounds(worker, rounds=2)
    assert world.list_states() == {worker.instance_id: "InService"}


def test_the_uploaded_log_contains_the_boot_log_followed_by_the_journal(tmp_path: Path) -> None:
    from gpumpi_join.giving_up import JOURNAL, read_log_tails

    file = tmp_path / "boot.log"
    file.write_text("booted\n")
    journal = CompletedProcess(JOURNAL, 0, "not joined yet\n", "")
    assert read_log_tails(file, lambda command: journal) == b"booted\nnot joined yet\n"
    assert read_log_tails(tmp_path / "none", lambda command: journal).startswith(b"there is no boot log\n")


@pytest.mark.parametrize(
    ("code", "error", "obstacle"),
    [
        (0, "", ""),
        (
            1,
            "",
            "the head node's hostfile lacks 10.0.0.5: the head node has not seen this node yet, "
            "or this node's sshd did not answer it",
        ),
        (255, "Host key verification failed.\n", "cannot log in to the head node: Host key verification failed."),
    ],
)
def test_the_log_explains_why_a_worker_cannot_join(code: int, error: str, obstacle: str) -> None:
    from gpumpi_join.machine import find_head_node_obstacle

    result = CompletedProcess("ssh", code, "", error)
    assert find_head_node_obstacle("mpi", "10.0.0.5", Path("hostfile"), lambda command: result) == obstacle


def test_new_workers_are_added_to_the_hostfile_and_removed_workers_are_deleted(world: World) -> None:
    master, first = world.start_head_node(), *world.scale(1)
    world.run_two_rounds(master, first)
    later = world.scale(3)
    world.run_two_rounds(master, *later)
    assert len(master.hostfile) == 3
    world.client("autoscaling").terminate_instance_in_auto_scaling_group(
        InstanceId=first.instance_id, ShouldDecrementDesiredCapacity=True
    )
    rest = [host for host in later if host is not first]
    world.run_two_rounds(master, *rest)
    for host in (master, *rest):
        assert first.address not in host.read("hostfile") + host.read("known_hosts") + host.read("hosts")
        assert first.service.notice.user_key not in host.read("authorized_keys")


def test_a_terminating_worker_is_removed_at_once(world: World) -> None:
    """A lifecycle hook keeps the worker running, but MPI must not start new ranks on this worker."""
    master, worker = world.start_head_node(), *world.scale(1)
    world.run_two_rounds(master, worker)
    autoscaling = world.client("autoscaling")
    autoscaling.put_lifecycle_hook(
        AutoScalingGroupName=GROUP, LifecycleHookName="leave", LifecycleTransition="autoscaling:EC2_INSTANCE_TERMINATING"
    )
    autoscaling.terminate_instance_in_auto_scaling_group(InstanceId=worker.instance_id, ShouldDecrementDesiredCapacity=True)
    assert world.list_states() == {worker.instance_id: "Terminating:Wait"}
    world.run_two_rounds(master)
    assert worker.address not in master.read("hostfile")


def test_nodes_stay_members_and_republish_after_the_bucket_was_emptied(world: World) -> None:
    master, *workers = world.start_head_node(), *world.scale(2)
    world.run_two_rounds(master, *workers)
    before = {name: master.read(name) for name in ("authorized_keys", "known_hosts", "hostfile")}
    s3 = world.client("s3")
    for notice in s3.list_objects_v2(Bucket=BUCKET)["Contents"]:
        s3.delete_object(Bucket=BUCKET, Key=notice["Key"])
    master.service.step()
    assert {name: master.read(name) for name in before} == before
    world.run_two_rounds(*workers)
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 3


def test_during_an_s3_outage_the_files_stay_and_the_service_keeps_running(world: World) -> None:
    master, worker = world.start_head_node(), *world.scale(1)
    world.run_two_rounds(master, worker)
    before = master.read("hostfile")
    faults.add_fault(Fault("s3", "ListObjectsV2", "ServiceUnavailable", status=503, times=3))
    run_rounds(master, rounds=4)
    assert master.read("hostfile") == before
    assert faults.list_active_faults() == []


def test_terminated_nodes_are_removed_even_during_an_s3_outage(world: World) -> None:
    master, first, second = world.start_head_node(), *world.scale(2)
    world.run_two_rounds(master, first, second)
    faults.add_fault(Fault("s3", "*", "ServiceUnavailable", status=503, times=99))
    world.client("autoscaling").terminate_instance_in_auto_scaling_group(
        InstanceId=first.instance_id, ShouldDecrementDesiredCapacity=True
    )
    run_rounds(master, rounds=1)
    assert master.hostfile == [f"{second.address} slots=8"]


def test_a_restarted_join_service_remembers_its_nodes(world: World) -> None:
    master, worker = world.start_head_node(), *world.scale(1)
    world.run_two_rounds(master, worker)
    s3 = world.client("s3")
    for stored_notice in s3.list_objects_v2(Bucket=BUCKET)["Contents"]:
        s3.delete_object(Bucket=BUCKET, Key=stored_notice["Key"])
    world.restart(master).step()
    assert worker.address in master.read("hostfile")


def test_the_join_service_keeps_other_lines_of_the_hosts_file(world: World) -> None:
    master = world.start_head_node()
    master.paths.hosts.write_text("127.0.0.1 localhost\n10.9.9.9 storage\n")
    worker = world.scale(1)[0]
    world.run_two_rounds(master, worker)
    assert master.read("hosts").startswith("127.0.0.1 localhost\n10.9.9.9 storage\n")
    world.client("autoscaling").set_desired_capacity(AutoScalingGroupName=GROUP, DesiredCapacity=0)
    world.run_two_rounds(master)
    assert worker.address not in master.read("hosts")
    assert master.read("hosts").count("gpumpi") == 2
