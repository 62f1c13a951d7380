"""An EC2 cluster on real hosts: user data, join, SSH, MPI, replacement, images. The tests share one cluster."""

import base64
import json
import shlex
from pathlib import Path

import pytest

from localcloud.hosts.hardware import build_environment_variables
from localcloud.machine.user_namespaces import FIRST_ID, ID_COUNT
from testkit import sockets, strangers
from testkit.aws_clients import REGION
from testkit.waiting import wait_until
from tests.hosts import lost_worker
from tests.hosts.cluster import BUCKET, ROOT, SLOTS, HandMade, list_cgroups
from tests.hosts.root_shell import find_init, run_as_root

FAILS_ONCE = """
echo starts with $(cat data) $(ls -A)
if [ "$OMPI_COMM_WORLD_RANK" = 0 ] && mkdir tried; then exit 3; fi
"""

pytestmark = pytest.mark.xdist_group("hosts")


@pytest.mark.mission("C", "login user")
def test_workers_join_and_all_hostfiles_are_equal(cluster: HandMade) -> None:
    workers = cluster.await_workers()
    assert len(workers) == 2
    for worker in workers:
        assert sorted(cluster.read_hostfile(worker)) == sorted(cluster.read_hostfile(cluster.master))


def test_every_host_has_its_own_cgroup(cluster: HandMade) -> None:
    """If hosts shared a cgroup, systemd on one host would remove the cgroups of another host's services."""
    hosts = {cluster.master, *cluster.await_workers()}
    assert {name.rpartition("-")[2] for name in list_cgroups(cluster.cloud)} == {host.removeprefix("i-") for host in hosts}


def test_the_console_output_contains_the_user_data_output(cluster: HandMade) -> None:
    wait_until(lambda: "user data of a master" in cluster.read_console(cluster.master))


@pytest.mark.mission("C", "key bucket")
@pytest.mark.mission("C", "login user")
def test_nodes_connect_to_each_other_over_ssh_without_a_prompt(cluster: HandMade) -> None:
    first, second = cluster.await_workers()
    for here, there in ((first, second), (first, cluster.master), (cluster.master, second)):
        expected_host = f"ip-{cluster.address(there).replace('.', '-')}"
        done = cluster.ssh(here, f"ssh {cluster.address(there)} hostname")
        assert (done.returncode, done.stdout.strip()) == (0, expected_host), done.stderr


def test_ssh_keys_of_the_nodes_do_not_allow_root_logins(cluster: HandMade) -> None:
    first, second = cluster.await_workers()
    done = cluster.ssh(first, f"ssh root@{cluster.address(second)} id")
    assert done.returncode == 255 and "Permission denied" in done.stderr


def test_all_ranks_start_in_the_sent_folder_and_a_failed_command_is_restarted(cluster: HandMade, tmp_path: Path) -> None:
    cluster.await_workers()
    (tmp_path / "data").write_text("sent")
    (tmp_path / ".env").write_text("TOKEN=1")
    command = ["mpirun", "-N", "1", "sh", "-c", FAILS_ONCE]
    done = cluster.run_command("run", "--workdir", str(tmp_path), "--restarts", "2", "--", *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not sent: .env (may contain a secret)" in done.stderr
    assert "run: restart 1 of 2 after exit code 3" in done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("starts with")]
    assert len(lines) >= 3 and {line.split()[2] for line in lines} == {"sent"} and ".env" not in done.stdout

    (run, *_) = json.loads(cluster.run_command("jobs", "--json").stdout)
    assert (run["phase"], run["restarts"]) == ("Succeeded", 1)
    log = cluster.run_command("logs", run["name"])
    assert (log.returncode, log.stdout) == (0, done.stdout), log.stderr
    folder = f"/shared/.gpumpi/runs/{run['name']}"
    assert cluster.ssh(cluster.master, f"test -d {folder}").returncode == 0
    assert cluster.run_command("cancel", run["name"]).returncode == 0
    assert cluster.ssh(cluster.master, f"test -e {folder} || test -e .gpumpi/runs/{run['name']}").returncode == 1
    assert cluster.run_command("logs", run["name"]).returncode == 4


@pytest.mark.mission("C", "login user")
def test_mpirun_uses_the_hostfile_of_the_join_service_by_default(cluster: HandMade) -> None:
    workers = cluster.await_workers()
    done = cluster.run_mpirun(cluster.master)
    assert done.returncode == 0, done.stderr
    printed = [line.split() for line in done.stdout.splitlines()]
    assert sorted(host for host, *_ in printed) == sorted(
        f"ip-{cluster.address(worker).replace('.', '-')}" for worker in workers for _ in range(SLOTS)
    )
    assert {tuple(rest) for _, *rest in printed} == {("4", "10")}


def test_the_gpu_buffer_benchmark_transfers_host_memory_correctly_between_hosts(
    cluster: HandMade,
) -> None:
    cluster.await_workers()
    packed = base64.b64encode((ROOT / "bench" / "gpu" / "device_buffers.py").read_bytes()).decode()
    program, report_file = "/shared/device_buffers.py", "/shared/seen.json"
    options = f"--memory host --bytes 4,4096,1048576 --repeats 2 --json {report_file}"
    start = f"mpirun -n 2 -N 1 python3 {program}"
    done = cluster.ssh(cluster.master, f"echo {packed} | base64 -d >{program}; {start} {options} && cat {report_file}")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout[done.stdout.index("{") :])
    assert [(row["bytes"], row["right"]) for row in report["sizes"]] == [(4, True), (4096, True), (1 << 20, True)]
    refused = cluster.ssh(cluster.master, start)
    assert refused.returncode == 2, refused.stderr
    assert "device_buffers: libcudart.so was not found. Install the CUDA toolkit or " in refused.stderr


@pytest.mark.mission("C", "EFS")
def test_all_nodes_see_the_same_shared_folder_and_the_user_can_write_to_it(cluster: HandMade) -> None:
    first, second = cluster.await_workers()
    written = cluster.ssh(first, "echo of $(hostname) >/shared/note")
    assert written.returncode == 0, written.stderr
    assert cluster.ssh(second, "cat /shared/note").stdout == f"of ip-{cluster.address(first).replace('.', '-')}\n"


@pytest.mark.mission("C", "least privilege")
@pytest.mark.mission("C", "key bucket")
def test_a_node_has_the_credentials_of_its_role_and_cannot_write_the_key_of_another_node(cluster: HandMade) -> None:
    first, second = cluster.await_workers()
    program = f"""
import boto3, botocore
print(boto3.client("sts", region_name="us-west-2").get_caller_identity()["Arn"])
try:
    boto3.client("s3").put_object(Bucket="{BUCKET}", Key="nodes/{cluster.role_ids["worker"]}:{second}/notice.json", Body=b"")
except botocore.exceptions.ClientError as error:
    print(error.response["Error"]["Code"])
"""
    packages = {"PYTHONPATH": "/opt/gpumpi/join/packages", **build_environment_variables(REGION)}
    done = run_as_root(first, "python3", "-c", program, environment=packages)
    assert done.stdout.splitlines() == [f"arn:aws:sts::123456789012:assumed-role/worker/{first}", "AccessDenied"], done.stderr


def test_root_on_a_host_is_an_unprivileged_user_of_this_machine(cluster: HandMade) -> None:
    mapped_ids = run_as_root(cluster.master, "cat", "/proc/self/uid_map", "/proc/1/gid_map").stdout.split()
    assert mapped_ids == 2 * ["0", str(FIRST_ID), str(ID_COUNT)]
    init = find_init(cluster.master)
    assert init is not None
    processes = [init, *init.children(recursive=True)]
    assert {process.uids().real // ID_COUNT for process in processes} == {FIRST_ID // ID_COUNT}
    assert run_as_root(cluster.master, "touch", "/opt/by-root").returncode == 0
    written = cluster.cloud.folder / "hosts" / "disks" / cluster.master / "upper" / "opt" / "by-root"
    assert (written.stat().st_uid, written.stat().st_gid) == (FIRST_ID, FIRST_ID)
    assert "Operation not permitted" in run_as_root(cluster.master, "mknod", "/opt/disk", "b", "8", "0").stderr


METADATA = "http://169.254.169.254/latest"
READ_ROLE = f"""set -eu
token=$(curl -sS --max-time 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' {METADATA}/api/token)
curl -sS --max-time 5 -H "X-aws-ec2-metadata-token: $token" {METADATA}/meta-data/iam/security-credentials/
"""


def check_metadata_access(cluster: HandMade, instance_id: str, role: str) -> None:
    """Check that root can read the role's name, and that the login user cannot, even as root of a user namespace."""
    done = run_as_root(instance_id, "sh", "-c", READ_ROLE)
    assert (done.returncode, done.stdout) == (0, role), done.stderr
    for prefix in ("", "unshare --user --map-root-user "):
        refused = cluster.ssh(instance_id, f"{prefix}sh -c {shlex.quote(READ_ROLE)}")
        assert refused.returncode == 7, f"curl exits with 7 if the connection is refused: {refused.stdout}{refused.stderr}"


def test_only_root_can_read_instance_metadata_on_all_nodes(cluster: HandMade) -> None:
    first, _ = cluster.await_workers()
    check_metadata_access(cluster, first, "worker")
    check_metadata_access(cluster, cluster.master, "master")


def test_nobody_can_log_in_before_instance_metadata_is_restricted(cluster: HandMade) -> None:
    shown = run_as_root(cluster.master, "systemctl", "show", "--property=Requires,After", "ssh.service").stdout
    assert [line.partition("=")[0] for line in shown.splitlines() if "gpumpi-metadata.service" in line] == ["Requires", "After"]


def test_instance_metadata_requires_a_token(cluster: HandMade) -> None:
    url = f"{METADATA}/meta-data/instance-id"
    without = run_as_root(cluster.master, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url)
    assert without.stdout == "401"


def test_no_socket_serves_web_pages_or_programs_that_lack_the_secret(cluster: HandMade) -> None:
    listening = sockets.find_listening_sockets(cluster.cloud)
    assert {80, 3128, 4566} <= {socket.port for socket in listening}, "instance metadata, egress proxy and local AWS of the VPC"
    assert strangers.list_accepted_requests(listening) == []


def test_ssh_through_session_manager_returns_the_exit_code_of_the_command(cluster: HandMade) -> None:
    assert cluster.ssh(cluster.master, "exit 7").returncode == 7


def test_the_cluster_survives_a_reboot_of_the_head_node(cluster: HandMade) -> None:
    cluster.await_workers()
    boot = cluster.ssh(cluster.master, "cat /proc/sys/kernel/random/boot_id; uptime --since; stat -c %y /proc/1").stdout
    cluster.ssh.close_connection(cluster.master)
    cluster.ec2.reboot_instances(InstanceIds=[cluster.master])
    wait_until(
        lambda: (again := cluster.ssh(cluster.master, "stat -c %y /proc/1").stdout) and again.strip() not in boot and again
    )
    cluster.await_workers()
    check_metadata_access(cluster, cluster.master, "master")
    assert cluster.ssh(cluster.master, "cat /shared/note").returncode == 0
    done = cluster.run_mpirun(cluster.master)
    assert done.returncode == 0, done.stderr


def test_a_terminated_worker_is_removed_and_replaced(cluster: HandMade) -> None:
    lost, remaining = cluster.await_workers()
    cluster.ec2.terminate_instances(InstanceIds=[lost])
    workers = cluster.await_workers(lost)
    assert remaining in workers
    assert cluster.run_mpirun(cluster.master).returncode == 0
    wait_until(lambda: cluster.state(lost) == "terminated")
    assert lost not in {host.instance_id for host in cluster.cloud.hosts()}


def test_a_run_that_loses_a_worker_finishes_on_the_replacement(cluster: HandMade) -> None:
    lost_worker.check_lost_worker(cluster)


def test_an_image_of_a_host_contains_its_changes_until_deregistration(cluster: HandMade) -> None:
    worker = cluster.await_workers()[0]
    assert cluster.ssh(worker, "echo from the image >mark").returncode == 0
    image = cluster.ec2.create_image(InstanceId=worker, Name="marked", NoReboot=True)["ImageId"]
    wait_until(lambda: cluster.ec2.describe_images(ImageIds=[image])["Images"][0]["State"] == "available")
    instance = cluster.run(ImageId=image, UserData=None)
    wait_until(lambda: cluster.ssh(instance, "cat mark").stdout == "from the image\n")
    cluster.ssh.close_connection(instance)
    cluster.ec2.deregister_image(ImageId=image)
    assert not list(cluster.cloud.folder.glob(f"hosts/images/{image}"))

    cluster.ec2.stop_instances(InstanceIds=[instance])
    wait_until(lambda: cluster.state(instance) == "stopped")
    with pytest.raises(cluster.client("ssm").exceptions.TargetNotConnected):
        cluster.client("ssm").start_session(
            Target=instance, DocumentName="AWS-StartSSHSession", Parameters={"portNumber": ["22"]}
        )
    cluster.ec2.start_instances(InstanceIds=[instance])
    wait_until(lambda: cluster.ssh(instance, "cat mark").stdout == "from the image\n")

    beyond = cluster.run()
    hosts = {host.instance_id: host for host in cluster.cloud.hosts()}
    assert hosts[beyond].phase == "record" and "runs at most 4 hosts" in hosts[beyond].problem
    cluster.ec2.terminate_instances(InstanceIds=[instance, beyond])
    wait_until(lambda: {cluster.state(instance), cluster.state(beyond)} == {"terminated"})
