"""Environment and termination of ranks that the commands in a job's manifests start in the job's pods."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcloud.images import root
from localcloud.images.catalogue import INTEL_MPI, MPICH, Image
from tests.images.conftest import needs_roots
from tests.images.pods import ADDRESSES, LAUNCHER, WORKERS, Job, Pod, wait_until_true
from tests.pure.job_world import render_pods

pytestmark = [needs_roots, pytest.mark.xdist_group("job-images"), pytest.mark.mission_only]

NAMES = ("stopped-worker-0.stopped.mpi-jobs.svc", "stopped-worker-1.stopped.mpi-jobs.svc")
LIBRARIES = "/shared/lib:/opt/lib"
# The ranks of worker 1 save last: by default, MPI would terminate them as soon as the first rank exits.
PROGRAM = """
import json, os, pathlib, signal, sys, time
from mpi4py import MPI
rank, size, told = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, []
signal.signal(signal.SIGUSR1, lambda *_: told.append(1))
variables = {name: os.environ.get(name) for name in sys.argv[1:]}
pathlib.Path(f"/tmp/environment-{rank}").write_text(json.dumps([rank, size, variables]))
while not told:
    time.sleep(0.05)
pathlib.Path(f"/tmp/saving-{rank}").touch()
while not pathlib.Path("/tmp/may-save").exists():
    time.sleep(0.05)
time.sleep(2 if rank > 1 else 0)
pathlib.Path(f"/tmp/saved-{rank}").write_text(str(len(told)))
os._exit(3)
"""
VARIABLES = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    *("MASTER_ADDR", "MASTER_PORT", "LD_LIBRARY_PATH", "MPLCONFIGDIR"),
)
FIELDS: dict[str, Any] = {
    "name": "stopped",
    "pool": "small",
    "slots": 2,
    "gpusPerWorker": 2,
    "checkpointSignal": "SIGUSR1",
    "env": {"LD_LIBRARY_PATH": LIBRARIES, "OMPI_MCA_btl_tcp_if_include": "10.9.0.0/24"},
}


class Running:
    """A running job with four ranks, two on each worker."""

    def __init__(self, image: Image, system: Path, command: list[str]) -> None:
        implementation = {INTEL_MPI: "Intel", MPICH: "MPICH"}.get(image, "OpenMPI")
        self._of_image = image.environment
        self._specs = render_pods(**FIELDS, command=command, mpiImplementation=implementation)
        self._job = Job(system, starts_sshd=False)
        with (system / "etc/hosts").open("a") as hosts:
            hosts.writelines(f"{ADDRESSES[name]} {dns}\n" for name, dns in zip(WORKERS, NAMES, strict=True))
        (system / "etc/mpi").mkdir(exist_ok=True)
        form = "{} slots=2" if implementation == "OpenMPI" else "{}:2"
        (system / "etc/mpi/hostfile").write_text("".join(form.format(name) + "\n" for name in NAMES))
        self.workers = [self._job.pods[name] for name in WORKERS]
        self._processes = [self._start(pod, "worker") for pod in self.workers]
        self.launcher = self._start(self._job.launcher, "launcher")

    def _start(self, pod: Pod, role: str) -> "subprocess.Popen[str]":
        (container,) = self._specs[role]["containers"]
        variables = dict(self._of_image)
        variables |= {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}
        variables |= {"PATH": root.PATH, "HOSTNAME": LAUNCHER, "HYDRA_IFACE": "bridge", "I_MPI_HYDRA_IFACE": "bridge"}
        if role == "worker":
            del variables["HYDRA_IFACE"], variables["I_MPI_HYDRA_IFACE"]
        settings = (f"{name}={value}" for name, value in variables.items())
        return pod.start("env", "-i", *settings, "sh", "-c", 'echo "$$" > /tmp/main; exec "$@"', "main", *container["command"])

    def end(self, *ended: Pod) -> None:
        """Send SIGTERM to the pods' containers, which is the kubelet's first step when it terminates pods."""
        for pod in ended:
            assert pod.run("sh", "-c", 'kill -TERM "$(cat /tmp/main)"').returncode == 0

    def read_files(self, prefix: str) -> dict[str, str]:
        """Return the contents of the ranks' files with this prefix, keyed by file name."""
        show = f"cd /tmp; for file in {prefix}-*; do [ ! -e $file ] || echo $file $(cat $file); done"
        lines = [line for pod in self.workers for line in pod.run("sh", "-c", show).stdout.splitlines()]
        return {line.partition(" ")[0]: line.partition(" ")[2] for line in lines}

    def wait_for_files(self, prefix: str, number: int) -> dict[str, str]:
        def read_if_enough() -> dict[str, str] | None:
            assert self.launcher.poll() is None, self.launcher.communicate()[0]
            return files if len(files := self.read_files(prefix)) >= number else None

        return wait_until_true(read_if_enough)

    @property
    def all_pods(self) -> list[Pod]:
        return [*self.workers, self._job.launcher]

    def stop(self) -> None:
        self._job.stop()
        for process in [*self._processes, self.launcher]:
            process.kill()
            process.communicate()


@pytest.fixture
def running_ranks(image: Image, root_folder: Path) -> Iterator[Running]:
    started = Running(image, root_folder, ["python3", "-c", PROGRAM, *VARIABLES])
    try:
        started.wait_for_files("environment", 4)
        yield started
    finally:
        started.stop()


def assert_all_save(running: Running) -> None:
    """Let the signaled ranks save, first those of worker 0. All ranks must save, and the launcher must exit with 143."""
    running.wait_for_files("saving", 4)
    for pod in running.workers:
        assert pod.run("touch", "/tmp/may-save").returncode == 0
    output = running.launcher.communicate(timeout=240)[0]
    assert running.read_files("saved") == {f"saved-{rank}": "1" for rank in range(4)}, output
    assert running.launcher.returncode == 143, "a stopped attempt has not succeeded"


def test_all_ranks_save_a_checkpoint_when_the_node_of_one_worker_is_drained(running_ranks: Running) -> None:
    ranks = sorted(json.loads(text) for text in running_ranks.read_files("environment").values())
    assert [(rank, size) for rank, size, _ in ranks] == [(rank, 4) for rank in range(4)]
    for rank, _, variables in ranks:
        assert variables.pop("LD_LIBRARY_PATH").endswith(LIBRARIES), "over SSH, ranks have the variables of their container"
        assert variables == {
            **{"RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank % 2), "LOCAL_WORLD_SIZE": "2"},
            **{"MASTER_ADDR": NAMES[0], "MASTER_PORT": "29500", "MPLCONFIGDIR": "/tmp/.cache/matplotlib"},
        }
    running_ranks.end(running_ranks.workers[1])
    assert_all_save(running_ranks)


def test_all_ranks_save_a_checkpoint_when_the_job_is_deleted(running_ranks: Running) -> None:
    running_ranks.end(*running_ranks.all_pods)
    assert_all_save(running_ranks)
