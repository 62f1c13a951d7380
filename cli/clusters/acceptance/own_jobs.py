"""Acceptance's own jobs and their programs, and other users' jobs, which acceptance must not disturb."""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cli.clusters.kubernetes_access import Cluster, Object
from cli.errors import CommandError, NotFound
from cli.images.recipes import choose_default_image
from cli.installation import program_name as program
from cli.jobs import objects
from cli.jobs.cancel import PODS_GONE_SECONDS, wait_for_pod_deletion
from cli.jobs.follow_log import Follower
from cli.jobs.state import JobState
from cli.within import run_with_timeout
from infra.jobs.cluster import ClusterDescription
from infra.jobs.model import LauncherName
from infra.jobs.placed import PlacedJob
from infra.jobs.reading import JobRefused, validate_job
from infra.jobs.render import render_job
from infra.naming import GPU_RESOURCE, JOB_LABEL

PREFIX: Final = "acceptance-"
REPORT: Final = "acceptance {"


@dataclass(frozen=True)
class JobWorld:
    """The cluster in which acceptance runs its jobs, and the settings that these jobs share."""

    cluster: Cluster
    described: ClusterDescription
    namespace: str
    image: str | None
    minutes: float
    """Time limit of one job, including the time to add nodes."""

    @property
    def launcher(self) -> LauncherName:
        return "mpijob" if self.described.mpi_operator else "standalone"

    def job(self, name: str, pool: str, workers: int, command: Sequence[str], *, retries: int = 0) -> PlacedJob:
        """Return a validated job with one rank on each of `workers` nodes. Raises CommandError."""
        values = {
            "name": f"{PREFIX}{name}",
            "launcher": self.launcher,
            "pool": pool,
            "workers": workers,
            "perNode": 1,
            "onePerNode": True,
            "image": self.image or choose_default_image(self.described.pool(pool), "OpenMPI"),
            "command": list(command),
            "namespace": self.namespace,
            "volumes": [],
            "maxRestarts": retries,
        }
        try:
            return validate_job(values, self.described)
        except JobRefused as error:
            raise CommandError(f"the job {PREFIX}{name} cannot be created: {error}") from None

    def submit(self, placed: PlacedJob) -> None:
        objects.submit_job(self.cluster, render_job(placed))

    def follow(self, placed: PlacedJob, on_line: Callable[[str], None]) -> JobState:
        """Follow a job to its end, and return its last state. Raises CommandError if it was deleted or takes too long."""
        follower = Follower(self.cluster, placed.name, self.namespace, out=io.StringIO(), keep=on_line)
        try:
            state, _ = run_with_timeout(self.minutes * 60, follower.run)
        except TimeoutError:
            raise CommandError(f"job {placed.name} did not end within {self.minutes:g} minutes (--minutes)") from None
        if state is None:
            raise CommandError(f"job {placed.name} was deleted by someone else")
        return state

    def run(self, placed: PlacedJob, on_line: Callable[[str], None] = lambda line: None) -> tuple[JobState, list[str]]:
        """Submit, follow and delete a job; return its last state and its log."""
        lines: list[str] = []

        def keep_line(line: str) -> None:
            lines.append(line)
            on_line(line)

        self.submit(placed)
        try:
            return self.follow(placed, keep_line), lines
        finally:
            self.delete(placed.name)

    def delete(self, name: str) -> None:
        """Delete one of acceptance's jobs and wait until its pods are gone, so that the next job finds the GPUs free."""
        try:
            state = objects.find_job(self.cluster, name, self.namespace)
            self.cluster.delete(state.kind, state.object_name, self.namespace)
        except NotFound:
            return
        wait_for_pod_deletion(self.cluster, state, PODS_GONE_SECONDS)

    def clean(self) -> list[str]:
        """Delete all of acceptance's jobs; return an error message for each one that could not be deleted."""
        problems = []
        try:
            names = [job.name for job in objects.list_jobs(self.cluster, self.namespace) if job.name.startswith(PREFIX)]
        except CommandError as error:
            return [f"jobs that acceptance created may still exist, because they could not be listed: {error}"]
        for name in names:
            try:
                self.delete(name)
            except CommandError as error:
                problems.append(f"job {name} is left: {error}. Delete it with: {program()} cancel {name}")
        return problems


def parse_reports(lines: Sequence[str]) -> list[Mapping[str, Any]]:
    """Parse the log lines of the form `acceptance {...}`, with or without the launcher's prefix."""
    parsed = []
    for line in lines:
        if (start := line.find(REPORT)) >= 0:
            try:
                parsed.append(json.loads(line[start + len(REPORT) - 1 :]))
            except ValueError:
                continue
    return parsed


def find_foreign_jobs(cluster: Cluster) -> list[str]:
    """Return descriptions of unfinished jobs and GPU pods that this run did not create."""
    jobs = [state for state in objects.list_jobs(cluster, None) if not state.is_over]
    named = [f"job {state.name} in namespace {state.namespace} ({state.phase})" for state in jobs]
    job_names = {state.name for state in jobs}
    return named + [f"pod {pod}" for pod in find_gpu_pods(cluster.list("Pod"), job_names)]


def find_gpu_pods(pods: Sequence[Object], jobs: set[str]) -> Iterator[str]:
    """Yield descriptions of unfinished pods that request GPUs and belong to none of the jobs."""
    for pod in pods:
        metadata = pod["metadata"]
        labels = metadata.get("labels", {})
        belongs = {labels.get(JOB_LABEL), labels.get("training.kubeflow.org/job-name")} & jobs
        if not belongs and pod["status"].get("phase") not in ("Succeeded", "Failed") and requests_gpus(pod):
            yield f"{metadata['name']} in namespace {metadata['namespace']}"


def requests_gpus(pod: Object) -> bool:
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    amounts = [container.get("resources", {}).get(kind, {}) for container in containers for kind in ("requests", "limits")]
    return any(GPU_RESOURCE in amount for amount in amounts)


VERSIONS: Final = """
import json, os, platform, re, shutil, subprocess

def text(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""

def devices():
    try:
        names = os.listdir("/sys/class/infiniband")
    except OSError:
        return 0
    return sum(os.path.basename(os.path.realpath(f"/sys/class/infiniband/{name}/device/driver")) == "efa" for name in names)

tool = shutil.which("nvidia-smi")
shown = subprocess.run([tool], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode() if tool else ""
cuda = re.search(r"CUDA Version\\s*:\\s*([\\d.]+)", shown)
efa = text("/sys/module/efa/version") or ("of the kernel" if os.path.isdir("/sys/module/efa") else "")
report = {"node": os.environ.get("GPUMPI_NODE") or platform.node(), "kernel": platform.release()}
report.update(nvidia=text("/sys/module/nvidia/version"), cuda=cuda.group(1) if cuda else "", efa=efa, efaDevices=devices())
print("acceptance " + json.dumps(report), flush=True)
"""
"""Program that prints one line with a node's driver versions. It may run in any pod, because /sys shows the node's
kernel modules in every pod.

NOT VERIFIED on a machine with a GPU or EFA: the output format of nvidia-smi is from memory (2026-11-23). EFA's kernel
module has a version file only if the EFA installer installed it.
"""

FIRST, SECOND, ENDED = "acceptance: first attempt runs", "acceptance: second attempt runs", "acceptance: ranks agree"

TWICE: Final = f"""
import os, pathlib, platform, signal, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
mark = pathlib.Path(sys.argv[1])
again = world.allreduce(int(mark.exists()), MPI.MAX)
if not again:
    mark.touch()
where = world.gather(platform.node() + ":" + str(os.getpid()))
if world.rank == 0:
    print("{SECOND}" if again else "{FIRST}", *where, flush=True)
if not again:
    signal.pause()
if world.allreduce(world.rank, MPI.SUM) != world.size * (world.size - 1) // 2:
    sys.exit("the ranks do not agree on a sum")
if world.rank == 0:
    print("{ENDED}", flush=True)
"""
"""Program that waits to be killed in the first attempt and succeeds in the second. It recognizes the second attempt by
a file that the first one created on the surviving nodes.
"""

MARK: Final = "/tmp/gpumpi-acceptance"

RANKS: Final = """
import json, os, platform
from mpi4py import MPI
world = MPI.COMM_WORLD
gpus = len([one for one in os.listdir("/dev") if one.startswith("nvidia") and one[6:].isdigit()])
total = world.allreduce(world.rank + 1, MPI.SUM)
report = {"rank": world.rank, "size": world.size, "host": platform.node(), "sum": total, "gpus": gpus}
reports = world.gather(report)
for one in reports or ():
    print("acceptance " + json.dumps(one), flush=True)
"""
"""Program in which rank 0 prints one line per rank: host, sum over all ranks, GPUs of the host."""
