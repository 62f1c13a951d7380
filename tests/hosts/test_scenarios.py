"""Scaling, failures, lost nodes and reboots of an EC2 cluster on real hosts. The tests share one cluster."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcloud.hosts.capability import VARIABLE
from testkit.waiting import wait_until, wait_while
from tests.hosts.cluster import BUCKET, GROUP, SLOTS, HandMade

pytestmark = pytest.mark.xdist_group("hosts")

TICKING = """
import pathlib, sys, time
from mpi4py import MPI
c = MPI.COMM_WORLD
while not c.allreduce(pathlib.Path(sys.argv[1]).exists(), MPI.MAX):
    time.sleep(0.1)
print("rank", c.rank, "of", c.size, "ended as requested", flush=True)
"""


SLOW = "until [ -e /shared/go-on ]; do sleep 1; done"
SKEWED = """
here=$(/usr/bin/python3 -c 'import site; print(site.getsitepackages()[0])')
echo 'import skewed' >"$here/skewed.pth"
cat >"$here/skewed.py" <<'END'
import datetime, time

class Skewed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=@offset@)

    @classmethod
    def utcnow(cls):
        return super().utcnow() + datetime.timedelta(seconds=@offset@)

real = time.time
time.time = lambda: real() + @offset@
datetime.datetime = Skewed
END
"""
"""Script that shifts the clock of all Python programs on a host, including the join service. The tests do not use
libfaketime, because it would break Python's sleep.
"""


@pytest.fixture(scope="module", autouse=True)
def raised_host_limit() -> Iterator[None]:
    """Allow six hosts: a head node, four workers and an instance outside the cluster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "6")
        yield


def read_notices(cluster: HandMade) -> dict[str, Any]:
    """Return the notices that nodes have published in the key bucket, keyed by instance id."""
    s3 = cluster.client("s3")
    keys = [
        entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET).get("Contents", ()) if entry["Key"].endswith("/notice.json")
    ]
    return {key.split("/")[1].partition(":")[2]: json.loads(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()) for key in keys}


def delete_notices(cluster: HandMade, *members: str) -> None:
    """Delete the notices of these nodes, as if they had expired."""
    s3 = cluster.client("s3")
    for notice in s3.list_objects_v2(Bucket=BUCKET)["Contents"]:
        if any(member in notice["Key"] for member in members):
            s3.delete_object(Bucket=BUCKET, Key=notice["Key"])


def wait_for_new_worker(cluster: HandMade, earlier: set[str]) -> str:
    """Wait for a worker that is not in `earlier`; return its instance id."""
    return str(wait_until(lambda: sorted(cluster.workers().keys() - earlier))[0])


def wait_for_launch(cluster: HandMade, version: str) -> str:
    """Wait for a worker with this version of the launch template; return its instance id."""
    return wait_until(lambda: cluster.list_workers_of_version(version))[0]


def start_job(cluster: HandMade, name: str, hosts: dict[str, int]) -> str:
    """Start a detached job on these hosts that runs until `end_job` is called; return the run id."""
    lines = "".join(f"{cluster.address(id)} slots={count}\n" for id, count in hosts.items())
    write = f"printf %s {shlex.quote(TICKING)} >/shared/ticking.py; printf %s {shlex.quote(lines)} >/shared/{name}.hosts"
    assert cluster.ssh(cluster.master, write).returncode == 0
    command = ["mpirun", "--hostfile", f"/shared/{name}.hosts", "python3", "/shared/ticking.py", f"/shared/{name}.end"]
    started = cluster.run_command("run", "--detach", "--", *command)
    assert started.returncode == 0, started.stderr
    return started.stdout.strip()


def end_job(cluster: HandMade, name: str, id: str, ranks: int) -> None:
    """End a job and check that all its ranks exited cleanly."""
    cluster.ssh(cluster.master, f"touch /shared/{name}.end")
    ended = cluster.run_command("run", "--attach", id)
    assert ended.returncode == 0, ended.stderr
    expected = [f"rank {rank} of {ranks} ended as requested" for rank in range(ranks)]
    assert sorted(line for line in ended.stdout.splitlines() if line.startswith("rank")) == expected


@pytest.mark.mission_only
def test_acceptance_checks_scales_and_restores_the_cluster(cluster: HandMade, tmp_path: Path) -> None:
    cluster.await_workers()
    run = cluster.run_command("run", "--detach", "--", "sleep", "600").stdout.strip()
    refused = cluster.run_command("acceptance", "--yes", "--output", str(tmp_path))
    assert refused.returncode == 3 and f"did not create are running: run {run}" in refused.stderr, refused.stderr
    assert cluster.ssh(cluster.master, f"kill -- -$(cat ~/.gpumpi/runs/{run}/pid)").returncode == 0

    done = cluster.run_command("acceptance", "--yes", "--json", "--output", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    results = {row["name"]: row["result"] for row in report["rows"]}
    needs = {"NVIDIA driver, EFA and CUDA-aware MPI on first boot", "smoke: cuda", "smoke: nccl"}
    assert {name for name, result in results.items() if result == "not on this hardware"} == needs
    assert {result for name, result in results.items() if name not in needs} == {"passed"}
    assert results.keys() >= {"smoke: devices", "a job that loses a rank still finishes", "scale down and back"}
    assert "emulated-devices.json" in report["devices"] and report["complete"]
    assert len(cluster.list_in_service_workers()) == 2, "the size is restored"
    left = cluster.ssh(cluster.master, "ls /tmp; pgrep --list-full --full '[g]pumpi-acceptance'").stdout
    assert "gpumpi-acceptance" not in left


@pytest.mark.mission_only
@pytest.mark.mission("C", "master and workers")
def test_jobs_keep_running_while_the_cluster_scales_to_four_workers_and_to_zero(cluster: HandMade) -> None:
    survivor, _ = cluster.await_workers()
    protection = {"AutoScalingGroupName": GROUP, "InstanceIds": [survivor]}
    cluster.groups.set_instance_protection(ProtectedFromScaleIn=True, **protection)
    wide = start_job(cluster, "wide", {survivor: 2, cluster.master: 1})
    narrow = start_job(cluster, "narrow", {cluster.master: 2})
    for size in (4, 1, 0):
        if size == 0:
            end_job(cluster, "wide", wide, ranks=3)
            cluster.groups.set_instance_protection(ProtectedFromScaleIn=False, **protection)
        scaled = cluster.run_command("scale", str(size))
        assert scaled.returncode == 0, scaled.stderr
        members = cluster.list_in_service_workers() or [cluster.master]
        assert len(members) == max(size, 1) and (size == 0 or survivor in members)
        assert sorted(cluster.read_hostfile(cluster.master)) == sorted(
            f"{cluster.address(member)} slots={SLOTS}" for member in members
        )
    end_job(cluster, "narrow", narrow, ranks=2)


@pytest.mark.mission_only
def test_workers_that_fail_to_join_upload_logs_and_are_replaced_but_slow_ones_may_finish(
    cluster: HandMade,
) -> None:
    cluster.scale(0)
    wait_while(cluster.workers, bool)
    version = cluster.create_template_version(cluster.user_data("worker", then="ls /no/such/folder"))
    cluster.scale(1)
    broken = wait_for_launch(cluster, version)
    version = cluster.create_template_version(cluster.user_data("worker", then="systemctl stop ssh", join_seconds=3))
    with cluster.start_command("wait", "--minutes", "4") as waiting:
        try:
            silent = wait_for_launch(cluster, version)
            slow = wait_for_launch(cluster, cluster.create_template_version(cluster.user_data("worker", then=SLOW)))
            wait_until(lambda: "user data of a worker" in cluster.read_console(slow))
            assert cluster.workers()[slow] == "Pending:Wait"
            assert cluster.read_hostfile(cluster.master) == [f"{cluster.address(cluster.master)} slots={SLOTS}"]
            assert cluster.ssh(cluster.master, "touch /shared/go-on").returncode == 0
            _, said = waiting.communicate(timeout=240)
        finally:
            waiting.kill()
    assert waiting.returncode == 0, said
    assert f"{broken} could not join" in said
    assert "| ls: cannot access '/no/such/folder': No such file or directory" in said
    assert "| gpumpi: boot failed in line" in said
    assert f"{silent} could not join" in said
    assert re.search(r"\| gpumpi: not joined \d+ s after its boot: (the head node|cannot log in to the head node)", said)
    assert cluster.list_in_service_workers() == [slow]
    cluster.create_template_version(cluster.user_data("worker"))
    cluster.scale(2)
    assert len(cluster.await_workers(broken, silent)) == 2


@pytest.mark.mission_only
def test_nodes_republish_their_keys_after_the_bucket_was_emptied_and_a_stranger_gets_no_access(cluster: HandMade) -> None:
    workers = cluster.await_workers()
    members = [cluster.master, *workers]
    before = cluster.read_hostfile(cluster.master)
    stranger = cluster.run(UserData=cluster.user_data("worker"), IamInstanceProfile={"Name": "worker"})
    key = wait_until(lambda: read_notices(cluster).get(stranger))["user_key"]
    for _ in range(2):  # each node reads the unknown instance's notice between two of its own publications
        delete_notices(cluster, *members)
        assert cluster.read_hostfile(cluster.master) == before
        assert cluster.ssh(cluster.master, f"ssh {cluster.address(workers[0])} true").returncode == 0
        wait_until(lambda: set(members) <= read_notices(cluster).keys())
    for member in members:
        trusted = cluster.ssh(
            member, "cat /etc/gpumpi/authorized_keys /etc/gpumpi/hostfile /etc/ssh/ssh_known_hosts /etc/hosts"
        ).stdout
        assert key not in trusted and cluster.address(stranger) not in trusted
    refused = cluster.ssh(stranger, f"ssh {cluster.address(cluster.master)} id")
    assert refused.returncode == 255 and "Permission denied" in refused.stderr
    cluster.ssh.close_connection(stranger)
    cluster.ec2.terminate_instances(InstanceIds=[stranger])


@pytest.mark.mission_only
def test_during_an_s3_outage_a_lost_worker_is_removed_and_its_replacement_joins_afterwards(cluster: HandMade) -> None:
    lost, remaining = cluster.await_workers()
    cluster.cloud.control().plan_fault(service="s3", operation="*", code="ServiceUnavailable", status=503, times=10_000)
    try:
        cluster.ec2.terminate_instances(InstanceIds=[lost])
        replacement = wait_for_new_worker(cluster, {lost, remaining})
        wait_until(lambda: cluster.read_hostfile(cluster.master) == [f"{cluster.address(remaining)} slots={SLOTS}"])
        wait_until(lambda: "user data of a worker" in cluster.read_console(replacement))
        assert cluster.workers()[replacement] == "Pending:Wait"
    finally:
        cluster.cloud.control().clear_faults()
    assert cluster.await_workers(lost) == sorted([remaining, replacement])


@pytest.mark.mission_only
def test_nodes_with_one_minute_of_clock_skew_join(cluster: HandMade) -> None:
    earlier = set(cluster.await_workers())
    for count, offset in enumerate(("+60", "-60"), start=3):
        cluster.create_template_version(cluster.user_data("worker", then=SKEWED.replace("@offset@", offset)))
        cluster.scale(count)
        skewed = wait_for_new_worker(cluster, earlier)
        earlier.add(skewed)
    waited = cluster.run_command("wait", "--minutes", "3")
    assert waited.returncode == 0 and "4 of 4 workers joined" in waited.stderr, waited.stderr
    clocks = cluster.ssh(skewed, "python3 -c 'import time; print(int(time.time()))'; date +%s").stdout.split()
    assert 50 <= int(clocks[1]) - int(clocks[0]) <= 70, "Python programs on the node have a shifted clock"
    cluster.create_template_version(cluster.user_data("worker"))
    cluster.run_command("scale", "2")


@pytest.mark.mission_only
def test_a_run_ended_by_a_head_node_reboot_reports_the_reboot_and_the_head_node_returns(cluster: HandMade) -> None:
    cluster.await_workers()
    with cluster.start_command("run", "--", "sh", "-c", "echo begun; sleep 600") as looking:
        assert looking.stdout is not None
        try:
            assert looking.stdout.readline() == "begun\n"
            cluster.ssh.close_connection(cluster.master)
            cluster.ec2.reboot_instances(InstanceIds=[cluster.master])
            _, said = looking.communicate(timeout=180)
        finally:
            looking.kill()
    assert looking.returncode == 255, said
    assert "the connection was lost; the command keeps running; reconnecting" in said
    assert "ended without an exit code: it was killed, or the head node restarted; to follow it again: " in said
    assert cluster.run_command("wait").returncode == 0
    again = cluster.run_command("run", "--", "mpirun", "-n", "4", "-N", "2", "hostname")
    names = [line for line in again.stdout.splitlines() if line.startswith("ip-")]
    assert again.returncode == 0 and len(names) == 4 and len(set(names)) == 2, again
