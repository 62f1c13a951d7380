"""Jobs with launcher `standalone` that exchange SSH keys without a Secret."""

import re
import secrets
from pathlib import Path

import pytest

from infra.jobs.in_pods.keys_in_bucket import KEY_FORM
from testkit.eks_clusters import REGION
from testkit.job_cluster import NAMESPACE, JobCluster, build_python_command, write_job_file
from testkit.waiting import wait_until

pytestmark = pytest.mark.xdist_group("jobs")

WHO = """
import pathlib, socket
from mpi4py import MPI
world = MPI.COMM_WORLD
own = pathlib.Path.home() / ".ssh"
told = world.gather((socket.gethostname(), (own / "id_rsa.pub").read_text(), oct((own / "id_rsa").stat().st_mode)))
if world.rank == 0:
    hosts, publics, modes = (set(column) for column in zip(*told))
    print("ranks on", *sorted(hosts), flush=True)
    print("keys", len(publics), *modes, flush=True)
"""
WAITS = "import signal; print('runs', flush=True); signal.pause()"


def list_key_files(cluster: JobCluster, job: str) -> list[str]:
    """Return the names of the job's key files on the shared volume."""
    folders = cluster.cloud.folder.glob(f"file-systems/*/**/.gpumpi/ssh/*.{job}*")
    return sorted(file.name for folder in folders for file in folder.iterdir())


@pytest.mark.mission("D", "keys on the volume")
def test_the_first_pod_creates_a_key_pair_on_the_shared_volume_and_job_deletion_removes_it(
    job_cluster: JobCluster, tmp_path: Path
) -> None:
    name = "keys-on-volume"
    file = write_job_file(tmp_path, name, launcher="standalone", keyExchange="volume", slots=2, command=build_python_command(WHO))
    objects = job_cluster.cluster("submit", file, "--dry-run", "--json").json
    assert "Secret" not in {manifest["kind"] for manifest in objects}
    try:
        done = job_cluster.cluster("submit", file, "--follow")
        assert done.code == 0, done.out + done.err
        assert f"ranks on {name}-worker-0 {name}-worker-1" in done.out
        assert "keys 1 0o100600" in done.out
        wait_until(lambda: list_key_files(job_cluster, name), lambda left: not left)
        wait_until(lambda: job_cluster.list_objects("pods", f"gpumpi.io/job={name},gpumpi.io/role=worker"), lambda left: not left)
    finally:
        job_cluster.cluster("cancel", name)


@pytest.mark.mission_only
@pytest.mark.mission("D", "keys on the volume")
def test_the_controller_ends_the_workers_of_a_failed_job_with_deleted_keys(job_cluster: JobCluster, tmp_path: Path) -> None:
    name = "keys-failed"
    file = write_job_file(tmp_path, name, launcher="standalone", keyExchange="volume", command=["false"], maxRestarts=1)
    try:
        assert job_cluster.cluster("submit", file, "--follow").code == 1
        wait_until(lambda: list_key_files(job_cluster, name), lambda left: not left)
        wait_until(lambda: job_cluster.list_objects("pods", f"gpumpi.io/job={name},gpumpi.io/role=worker"), lambda left: not left)
    finally:
        job_cluster.cluster("cancel", name)


@pytest.mark.mission_only
@pytest.mark.mission("D", "keys on the volume")
def test_canceling_a_running_job_removes_its_keys(job_cluster: JobCluster, tmp_path: Path) -> None:
    name = "keys-cancelled"
    file = write_job_file(tmp_path, name, launcher="standalone", keyExchange="volume", command=build_python_command(WAITS))
    try:
        with job_cluster.run_in_background("submit", file, "--follow") as process:
            assert process.stdout is not None
            assert any("runs" in line for line in process.stdout)
            assert list_key_files(job_cluster, name) == ["authorized_keys", "id_rsa", "id_rsa.pub", "users"]
            assert job_cluster.cluster("cancel", name).code == 0
    finally:
        job_cluster.cluster("cancel", name)
    wait_until(lambda: list_key_files(job_cluster, name), lambda left: not left)
    wait_until(lambda: job_cluster.find_leftovers(name), lambda left: not left)  # the job's files are removed in the background


# --- through the key bucket --------------------------------------------------------------------------------------------

WITH_BOTO3 = "openmpi-boto3:5"
FROM_ALL_TO_ALL = """
import os, pathlib, socket, subprocess
import boto3
from mpi4py import MPI
world = MPI.COMM_WORLD
ssh = ["/tmp/mpi-ssh", f"NAME-worker-{1 - world.rank}.NAME.mpi-jobs.svc", "hostname"]
there = subprocess.run(ssh, capture_output=True, text=True).stdout.strip()
told = world.gather((socket.gethostname(), there, (pathlib.Path.home() / ".ssh" / "id_rsa.pub").read_text()))
if world.rank == 0:
    for here, there, _ in told:
        print(here, "reaches", there, flush=True)
    print("keys", len({key for _, _, key in told}), flush=True)
    try:
        boto3.client("s3").put_object(Bucket=os.environ["BUCKET"], Key="jobs/mpi-jobs/NAME-worker-1/id.pub", Body=b"")
    except Exception as error:
        print("below another's name:", error, flush=True)
"""
ONCE_MORE = """
import pathlib, signal
from mpi4py import MPI
world, mark = MPI.COMM_WORLD, pathlib.Path("/shared/MARK")
again = world.bcast(mark.exists())
if again:
    print("second attempt", world.allreduce(1), flush=True)
    mark.unlink(missing_ok=True)
else:
    if world.rank == 0:
        mark.touch()
        print("all run", flush=True)
    signal.pause()
"""


def find_key_bucket(cluster: JobCluster) -> str:
    (config,) = [
        config_map for config_map in cluster.list_objects("configmaps") if config_map["metadata"]["name"] == "gpumpi-key-bucket"
    ]
    return str(config["data"]["bucket"])


def read_bucket_objects(cluster: JobCluster, job: str) -> dict[str, str]:
    """Return the objects that the job's pods wrote to the key bucket, keyed by pod name."""
    s3, bucket, contents = cluster.cloud.clients(REGION)("s3"), find_key_bucket(cluster), {}
    for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", ()):
        place = re.fullmatch(rf"jobs/{NAMESPACE}/({job}-[^/]+)/(.+)", entry["Key"])
        if place:
            contents[place[1]] = s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read().decode()
    return contents


@pytest.mark.mission("C", "key bucket")
def test_pods_exchange_public_keys_through_the_bucket_and_connect_to_each_other(job_cluster: JobCluster, tmp_path: Path) -> None:
    name = "keys-in-bucket"
    program = FROM_ALL_TO_ALL.replace("NAME", name)
    settings = {"image": WITH_BOTO3, "launcher": "standalone", "keyExchange": "s3", "perNode": 1}
    file = write_job_file(
        tmp_path, name, command=build_python_command(program), env={"BUCKET": find_key_bucket(job_cluster)}, **settings
    )
    objects = job_cluster.cluster("submit", file, "--dry-run", "--json").json
    assert "Secret" not in {manifest["kind"] for manifest in objects}
    try:
        done = job_cluster.cluster("submit", file, "--follow")
        assert done.code == 0, done.out + done.err
        worker_0, worker_1 = f"{name}-worker-0", f"{name}-worker-1"
        assert {f"{worker_0} reaches {worker_1}", f"{worker_1} reaches {worker_0}", "keys 2"} <= set(done.out.splitlines()), (
            done.out + done.err
        )
        assert "below another's name: An error occurred (AccessDenied) when calling the PutObject operation" in done.out
        there = read_bucket_objects(job_cluster, name)
        assert sorted(re.sub("launcher-.{5}$", "launcher", pod) for pod in there) == [f"{name}-launcher", worker_0, worker_1]
        assert all(KEY_FORM.fullmatch(key) for key in there.values())
    finally:
        job_cluster.cluster("cancel", name)


@pytest.mark.mission_only
def test_the_next_attempt_trusts_the_new_key_of_a_restarted_worker(job_cluster: JobCluster, tmp_path: Path) -> None:
    name = "keys-again"
    program = ONCE_MORE.replace("MARK", f"{name}-{secrets.token_hex(3)}")
    file = write_job_file(
        tmp_path,
        name,
        image=WITH_BOTO3,
        launcher="standalone",
        keyExchange="s3",
        command=build_python_command(program),
        perNode=1,
    )
    lines: list[str] = []
    before: dict[str, str] = {}
    try:
        with job_cluster.run_in_background("submit", file, "--follow") as process:
            assert process.stdout is not None and process.stderr is not None
            for line in process.stdout:
                lines.append(line.strip())
                if lines[-1] == "all run":
                    before = read_bucket_objects(job_cluster, name)
                    pod = f"{name}-worker-1"
                    gone = job_cluster.kubectl("delete", "pod", pod, "-n", NAMESPACE, "--wait=false", "--grace-period=1")
                    assert gone.code == 0, gone.err
            code, said = process.wait(), process.stderr.read()
        assert code == 0, "\n".join(lines) + said
        assert {"second attempt 2"} <= set(lines), lines
        after = read_bucket_objects(job_cluster, name)
        assert after[f"{name}-worker-0"] == before[f"{name}-worker-0"]
        assert after[f"{name}-worker-1"] != before[f"{name}-worker-1"]
    finally:
        job_cluster.cluster("cancel", name)


@pytest.mark.mission_only
def test_submit_follow_reports_an_image_without_an_sdk_and_ends(job_cluster: JobCluster, tmp_path: Path) -> None:
    name = "sdkless"
    try:
        done = job_cluster.cluster(
            "submit", write_job_file(tmp_path, name, launcher="standalone", keyExchange="s3", command=["true"]), "--follow"
        )
    finally:
        job_cluster.cluster("cancel", name)
    assert done.code == 1, done.out + done.err
    assert re.search(rf"cluster submit: {name}-\S+: python3 of the image has no boto3, which keyExchange s3 ", done.err)
    assert f"the job can never run. Cancel it: scripts/cluster cancel {name}" in done.err
