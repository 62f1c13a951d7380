"""Jobs with a faulty program, volume or image fail, and the error message names the reason and the fix."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.job_cluster import NAMESPACE, JobCluster, build_python_command, write_job_file
from testkit.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("job_cleanup")]

RAISES = """
import signal
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 1:
    raise ValueError("the data is wrong")
signal.pause()
"""
HANGS = """
import signal
from mpi4py import MPI
print("rank", MPI.COMM_WORLD.rank, "goes on", flush=True)
if MPI.COMM_WORLD.rank == 1:
    signal.pause()
MPI.COMM_WORLD.barrier()
"""
WRITES = "open('/shared/checkpoint', 'w')"
FILLS = """
import pathlib, socket
link = pathlib.Path(f"/shared/{socket.gethostname()}.checkpoint")
link.symlink_to("/dev/full")  # writes fail as on a full volume
try:
    link.write_text("weights")
finally:
    link.unlink()
"""
WITHOUT_SSHD = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0"
"""An image with a shell but without sshd. Any such image works."""


def test_an_exception_on_one_rank_ends_the_waiting_ranks(job_cluster: JobCluster, tmp_path: Path) -> None:
    done = job_cluster.cluster(
        "submit",
        write_job_file(tmp_path, "raises", command=["python3", "-u", "-m", "mpi4py", "-c", RAISES], maxRestarts=0),
        "--follow",
    )
    assert done.code == 1, done.out + done.err
    assert "ValueError: the data is wrong" in done.out
    assert done.err.splitlines()[-1].startswith("cluster: job raises failed in ")
    assert done.err.endswith("; see its log: scripts/cluster logs raises\n")


@pytest.mark.mission_only
def test_the_deadline_ends_a_job_with_a_hanging_rank(job_cluster: JobCluster, tmp_path: Path) -> None:
    file = write_job_file(tmp_path, "hangs", command=build_python_command(HANGS), activeDeadlineSeconds=40)
    done = job_cluster.cluster("submit", file, "--follow")
    assert done.code == 1, done.out + done.err
    assert {"rank 0 goes on", "rank 1 goes on"} <= set(done.out.splitlines())
    assert "active longer than specified deadline" in done.err
    assert done.err.endswith("; a rank hung, or activeDeadlineSeconds is too short: scripts/cluster logs hangs\n")


@pytest.mark.mission_only
def test_a_program_without_output_succeeds(job_cluster: JobCluster, tmp_path: Path) -> None:
    done = job_cluster.cluster("submit", write_job_file(tmp_path, "silent", command=["true"]), "--follow")
    assert done.code == 0, done.out + done.err
    # On a busy machine, ssh may start before Open MPI has set the process group of ssh. The only consequence is a warning:
    # https://github.com/openpmix/prrte/blob/v3.0.6/src/mca/plm/ssh/plm_ssh_module.c
    printed = [line for line in done.out.splitlines() if "plm:ssh: Warning: setpgid(" not in line]
    assert [line for line in printed if not line.startswith("waiting for silent-worker-")] == []
    assert "cluster: job silent succeeded in" in done.err


@pytest.mark.mission_only
def test_the_error_for_writing_to_a_read_only_volume_names_the_volume(job_cluster: JobCluster, tmp_path: Path) -> None:
    volumes = [{"name": "shared", "readOnly": True}]
    file = write_job_file(tmp_path, "reader", command=build_python_command(WRITES), volumes=volumes, maxRestarts=0)
    done = job_cluster.cluster("submit", file, "--follow")
    assert done.code == 1, done.out + done.err
    assert "Read-only file system: '/shared/checkpoint'" in done.out


@pytest.mark.mission_only
def test_the_error_for_writing_to_a_full_volume_names_the_volume(job_cluster: JobCluster, tmp_path: Path) -> None:
    file = write_job_file(tmp_path, "filler", command=build_python_command(FILLS), workers=1, perNode=1, maxRestarts=0)
    done = job_cluster.cluster("submit", file, "--follow")
    assert done.code == 1, done.out + done.err
    assert "OSError: [Errno 28] No space left on device" in done.out
    assert done.err.endswith("; see its log: scripts/cluster logs filler\n")


@pytest.fixture
def pod_blocking_quota(job_cluster: JobCluster) -> Iterator[None]:
    """Create a ResourceQuota that rejects every new pod in the job namespace."""
    result = job_cluster.kubectl("create", "quota", "no-pods", "--hard=pods=0", "-n", NAMESPACE)
    assert result.code == 0, result.err
    try:
        # Until the quota controller has written the status, pods are rejected with another message.
        wait_until(lambda: job_cluster.list_objects("resourcequota")[0].get("status", {}).get("hard"), bool)
        yield
    finally:
        job_cluster.kubectl("delete", "quota", "no-pods", "-n", NAMESPACE)


@pytest.mark.parametrize("launcher", [pytest.param("mpijob", marks=pytest.mark.mission_only), "torchrun"])
def test_the_error_for_pods_rejected_by_a_quota_names_the_quota(
    job_cluster: JobCluster, pod_blocking_quota: None, tmp_path: Path, launcher: str
) -> None:
    name = f"over-quota-{launcher}"
    assert job_cluster.cluster("submit", write_job_file(tmp_path, name, launcher=launcher, command=["true"])).code == 0

    def read_reason() -> str:
        return str(next(job["reason"] for job in job_cluster.cluster("jobs", "--json").json if job["name"] == name))

    assert "exceeded quota: no-pods" in wait_until(read_reason, lambda text: "quota" in text)


@pytest.mark.parametrize("launcher", ["mpijob", pytest.param("standalone", marks=pytest.mark.mission_only)])
def test_submit_follow_reports_an_image_without_sshd_and_ends(job_cluster: JobCluster, tmp_path: Path, launcher: str) -> None:
    name = f"sshless-{launcher}"
    file = write_job_file(tmp_path, name, launcher=launcher, image=WITHOUT_SSHD, command=["true"])
    done = job_cluster.cluster("submit", file, "--follow")
    assert done.code == 1, done.out + done.err
    (sentence,) = [line for line in done.err.splitlines() if line.startswith("cluster submit: ")]
    assert re.match(rf"cluster submit: {name}-(worker-\d|launcher-\w+): the image has no /usr/sbin/sshd", sentence)
    assert "without which the launcher starts no rank; docs/guides/images.md lists what an image must have" in sentence
    assert sentence.endswith(f"the job can never run. Cancel it: scripts/cluster cancel {name}")
