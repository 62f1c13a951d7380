"""Access to jobs: copying a local folder into a job, logs of all pods, and commands and ports in running pods."""

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from localcloud.images import build
from testkit.job_cluster import IMAGE, NAMESPACE, POOL, JobCluster, build_python_command, write_job_file
from testkit.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("job_cleanup")]

TRAIN = """
import os
from mpi4py import MPI
from lib import answer
world = MPI.COMM_WORLD
sent = sorted(os.path.join(root, name)[2:] for root, _, names in os.walk(".") for name in names if "__pycache__" not in root)
print("rank", world.rank, "answer", answer.ANSWER, "files", sent, flush=True)
"""

SERVE = """
import http.server, socket, sys
from mpi4py import MPI
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"x" * 1_000_000 + socket.gethostname().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8123), Hello)
print("rank", MPI.COMM_WORLD.rank, "serves", flush=True)
server.serve_forever()
"""


def create_job_folder(tmp_path: Path, job: str, answer: int) -> str:
    """Create a folder with a job, its code, a secret and an ignored file. Return the path of the job file."""
    root = tmp_path / "code"
    (root / "lib").mkdir(parents=True, exist_ok=True)
    (root / "train.py").write_text(TRAIN)
    (root / "lib" / "answer.py").write_text(f"ANSWER = {answer}\n")
    (root / ".env").write_text("TOKEN=1\n")
    (root / "data.bin").write_text("ignored")
    (root / ".gitignore").write_text("*.bin\n*.yaml\n")
    command = ["python3", "-B", "train.py"]
    described = {"name": job, "pool": POOL, "workers": 2, "image": IMAGE, "workdir": ".", "command": command}
    (root / f"{job}.yaml").write_text(yaml.safe_dump(described))
    return str(root / f"{job}.yaml")


def test_ranks_start_in_the_sent_folder_of_their_own_job(job_cluster: JobCluster, tmp_path: Path) -> None:
    first = job_cluster.cluster("submit", create_job_folder(tmp_path, "sent-one", 41), "--follow")
    assert first.code == 0, first.out + first.err
    files = [".gitignore", "lib/answer.py", "train.py"]
    assert {f"rank {rank} answer 41 files {files}" for rank in (0, 1)} <= set(first.out.splitlines())
    assert "cluster: not sent: .env (may contain a secret)" in first.err
    assert "cluster: sent 3 of 3 files" in first.err

    second = job_cluster.cluster("submit", create_job_folder(tmp_path, "sent-two", 42), "--follow")
    assert second.code == 0, second.out + second.err
    assert {f"rank {rank} answer 42 files {files}" for rank in (0, 1)} <= set(second.out.splitlines())
    assert "cluster: sent 1 of 3 files" in second.err

    jobs = list(job_cluster.cloud.folder.glob(f"file-systems/*/gpumpi/.gpumpi/jobs/{NAMESPACE}/sent-*"))
    assert sorted(path.name.split(".")[0] for path in jobs) == ["sent-one", "sent-two"]
    assert job_cluster.cluster("cancel", "sent-one").code == 0
    wait_until(
        lambda: [path for path in jobs if path.exists()], lambda left: [folder.name[:8] for folder in left] == ["sent-two"]
    )


@pytest.mark.mission_only
def test_ranks_without_a_shared_volume_start_in_a_copy_of_the_folder_from_the_bucket(
    job_cluster: JobCluster, tmp_path: Path
) -> None:
    file = Path(create_job_folder(tmp_path, "unshared", 43))
    values = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**values, "image": "openmpi-boto3:5", "volumes": []}))
    done = job_cluster.cluster("submit", str(file), "--follow")
    assert done.code == 0, done.out + done.err
    files = [".gitignore", "lib/answer.py", "train.py"]
    assert {f"rank {rank} answer 43 files {files}" for rank in (0, 1)} <= set(done.out.splitlines())
    assert "cluster: sent 3 files" in done.err and "/workdirs/mpi-jobs/" in done.err
    assert job_cluster.cluster("cancel", "unshared").code == 0
    assert job_cluster.find_leftovers("unshared") == []


@pytest.mark.mission_only
def test_pods_of_a_running_job_support_logs_exec_and_port_forwarding_and_logs_outlive_the_pods(
    job_cluster: JobCluster, tmp_path: Path
) -> None:
    file = write_job_file(tmp_path, "served", command=build_python_command(SERVE), rankPrefix=True)
    assert job_cluster.cluster("submit", file).code == 0
    job_cluster.await_phase("served", "Running")
    served = wait_until(lambda: job_cluster.cluster("logs", "served").out, lambda out: out.count("serves") == 2)
    assert sorted(line.partition("]")[0][-1] for line in served.splitlines() if "serves" in line) == ["0", "1"]

    every = job_cluster.cluster("logs", "served", "--all")
    assert {line.partition(" | ")[0] for line in every.out.splitlines() if "serves" in line} == {"launcher"}
    assert job_cluster.cluster("logs", "served", "--worker", "2").code == 2

    ran = job_cluster.cluster("exec", "served", "--worker", "1", "--", "sh", "-c", "hostname; echo oops >&2; exit 7")
    assert (ran.code, ran.out, ran.err) == (7, "served-worker-1\n", "oops\n")
    assert job_cluster.cluster("exec", "served", "--launcher", "--", "hostname").out.startswith("served-launcher")
    assert job_cluster.cluster("exec", "served", "--", "no-such-program").code == 255

    for worker in ("0", "1"):
        with forward_port(job_cluster, "served", "8123", "--worker", worker) as address:
            for _ in range(2):
                with urllib.request.urlopen(address, timeout=60) as response:
                    assert response.read()[1_000_000:] == f"served-worker-{worker}".encode()

    gone = job_cluster.kubectl("delete", "mpijob", "served", "-n", NAMESPACE, "--wait")
    assert gone.code == 0, gone.err
    wait_until(lambda: job_cluster.pods("served"), lambda pods: pods == [])
    logs = job_cluster.cluster("logs", "served")
    assert logs.code == 0 and logs.out.count("serves") == 2, logs.out + logs.err
    again = job_cluster.cluster("logs", "served", "--all", "--json").json
    assert again["phase"] == "Deleted" and set(again["pods"]) == {"launcher", "worker-0", "worker-1"}
    assert job_cluster.cluster("cancel", "served").code == 0
    assert job_cluster.cluster("logs", "served").code == 4


@contextmanager
def forward_port(job_cluster: JobCluster, job: str, port: str, *more: str) -> Iterator[str]:
    """Run `port-forward` on a free port. Yield the local address."""
    with job_cluster.run_in_background("port-forward", job, f"0:{port}", *more) as process:
        assert process.stdout is not None
        address = process.stdout.readline().partition(" ")[0]
        assert address.startswith("http://127.0.0.1:"), address
        yield address


@pytest.mark.mission_only
def test_tensorboard_is_reachable_through_a_forwarded_port(job_cluster: JobCluster, tmp_path: Path) -> None:
    """The image of the TensorFlow workload contains TensorBoard."""
    build.ensure_named_image("tensorflow:1", print)  # the build of the image takes longer than the wait for a job
    file = write_job_file(tmp_path, "board", image="tensorflow:1", workers=1, command=["sleep", "600"], launcher="mpijob")
    assert job_cluster.cluster("submit", file).code == 0
    job_cluster.await_phase("board", "Running")
    server = ["tensorboard", "--logdir", "/shared", "--port", "6006"]
    with (
        job_cluster.run_in_background("exec", "board", "--", *server),
        forward_port(job_cluster, "board", "6006") as address,
    ):

        def fetch_page() -> str:
            try:
                with urllib.request.urlopen(address, timeout=60) as response:
                    return str(response.read().decode())
            except OSError:
                return ""

        assert "<title>TensorBoard</title>" in wait_until(fetch_page, bool)
