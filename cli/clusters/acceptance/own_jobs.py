"""Run acceptance's own jobs, and find other users' jobs, which acceptance must not disturb."""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cli.clusters.kubernetes_access import Cluster, Object
from cli.errors import CommandError, NotFound
from cli.images.recipes import default_image
from cli.installation import command as program
from cli.jobs import objects
from cli.jobs.cancel import PODS_GONE_SECONDS, wait_for_pods
from cli.jobs.follow_log import Follower
from cli.jobs.state import JobState
from cli.within import within
from infra.jobs.cluster import ClusterDescription
from infra.jobs.model import Job, Launcher
from infra.jobs.reading import JobRefused, judged
from infra.jobs.render import render
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
    def launcher(self) -> Launcher:
        return "mpijob" if self.described.mpi_operator else "standalone"

    def job(self, name: str, pool: str, workers: int, command: Sequence[str], *, retries: int = 0) -> Job:
        """Return a validated job with one rank on each of `workers` nodes. Raises CommandError."""
        values = {
            "name": f"{PREFIX}{name}",
            "launcher": self.launcher,
            "pool": pool,
            "workers": workers,
            "perNode": 1,
            "onePerNode": True,
            "image": self.image or default_image(self.described.pool(pool), "OpenMPI"),
            "command": list(command),
            "namespace": self.namespace,
            "volumes": [],
            "maxRestarts": retries,
        }
        try:
            return judged(values, self.described)
        except JobRefused as error:
            raise CommandError(f"the job {PREFIX}{name} cannot be created: {error}") from None

    def submit(self, job: Job) -> None:
        objects.submit(self.cluster, render(job, self.described))

    def follow(self, job: Job, on_line: Callable[[str], None]) -> JobState:
        """Follow a job to its end, and return its last state. Raises CommandError if it was deleted or takes too long."""
        follower = Follower(self.cluster, job.name, self.namespace, out=io.StringIO(), keep=on_line)
        try:
            state, _ = within(self.minutes * 60, follower.run)
        except TimeoutError:
            raise CommandError(f"job {job.name} did not end within {self.minutes:g} minutes (--minutes)") from None
        if state is None:
            raise CommandError(f"job {job.name} was deleted by someone else")
        return state

    def run(self, job: Job, on_line: Callable[[str], None] = lambda line: None) -> tuple[JobState, list[str]]:
        """Submit, follow and delete a job; return its last state and its log."""
        lines: list[str] = []

        def keep(line: str) -> None:
            lines.append(line)
            on_line(line)

        self.submit(job)
        try:
            return self.follow(job, keep), lines
        finally:
            self.delete(job.name)

    def delete(self, name: str) -> None:
        """Delete one of acceptance's jobs and wait until its pods are gone, so that the next job finds free GPUs."""
        try:
            state = objects.find(self.cluster, name, self.namespace)
            self.cluster.delete(state.kind, state.object_name, self.namespace)
        except NotFound:
            return
        wait_for_pods(self.cluster, state, PODS_GONE_SECONDS)

    def clean(self) -> list[str]:
        """Delete all of acceptance's jobs; return an error message for each one that could not be deleted."""
        problems = []
        try:
            names = [one.name for one in objects.all_jobs(self.cluster, self.namespace) if one.name.startswith(PREFIX)]
        except CommandError as error:
            return [f"jobs that acceptance created may still exist, because they could not be listed: {error}"]
        for name in names:
            try:
                self.delete(name)
            except CommandError as error:
                problems.append(f"job {name} is left: {error}. Delete it with: {program()} cancel {name}")
        return problems


def reports(lines: Sequence[str]) -> list[Mapping[str, Any]]:
    """Parse the log lines of the form `acceptance {...}`, with or without the launcher's prefix."""
    found = []
    for line in lines:
        if (start := line.find(REPORT)) >= 0:
            try:
                found.append(json.loads(line[start + len(REPORT) - 1 :]))
            except ValueError:
                continue
    return found


def foreign(cluster: Cluster) -> list[str]:
    """Return descriptions of unfinished jobs and GPU pods that this run did not create."""
    jobs = [state for state in objects.all_jobs(cluster, None) if not state.is_over]
    named = [f"job {state.name} in namespace {state.namespace} ({state.phase})" for state in jobs]
    known = {state.name for state in jobs}
    return named + [f"pod {one}" for one in _gpu_pods(cluster.list("Pod"), known)]


def _gpu_pods(pods: Sequence[Object], jobs: set[str]) -> Iterator[str]:
    """Yield descriptions of unfinished pods that request GPUs and belong to none of the jobs."""
    for pod in pods:
        metadata = pod["metadata"]
        labels = metadata.get("labels", {})
        belongs = {labels.get(JOB_LABEL), labels.get("training.kubeflow.org/job-name")} & jobs
        if not belongs and pod["status"].get("phase") not in ("Succeeded", "Failed") and _holds_gpus(pod):
            yield f"{metadata['name']} in namespace {metadata['namespace']}"


def _holds_gpus(pod: Object) -> bool:
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    wanted = [one.get("resources", {}).get(kind, {}) for one in containers for kind in ("requests", "limits")]
    return any(GPU_RESOURCE in one for one in wanted)
