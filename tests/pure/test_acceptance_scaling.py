"""Scaling from zero and losing a worker, with a fake cluster that returns prepared responses."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from cli.clusters.acceptance import eks, own_jobs
from cli.clusters.acceptance.eks import Choice
from cli.clusters.acceptance.eks_nodes import Scaling
from cli.clusters.acceptance.report import Notebook
from cli.clusters.status.cluster_status import PoolStatus
from cli.ec2.failed_launches import FailedLaunch
from cli.errors import CommandError
from cli.jobs.state import JobState
from infra.jobs.cluster import ClusterDescription
from infra.jobs.placed import PlacedJob
from infra.platform.job_controller.in_pod.phases import Phase
from tests.pure.job_world import SMALL, make_cluster
from tests.pure.test_acceptance_verdicts import make_node

LOST = FailedLaunch(datetime(2026, 11, 23, tzinfo=UTC), "no g5.12xlarge capacity", later_launch_succeeded=False)


def make_job_state(phase: str = "Succeeded", failures: int = 0) -> JobState:
    now = datetime(2026, 11, 23, tzinfo=UTC)
    return JobState("j", "mpi-jobs", "MPIJob", "j", "mpijob", "small", 2, Phase(phase), "", failures, now, now)


class Api:
    """Kubernetes API that lists the pool's nodes. Each request lists the next of the given sizes; the last size
    repeats.
    """

    def __init__(self, *sizes: int) -> None:
        self.sizes = list(sizes)
        self.deleted: list[str] = []

    def list(self, kind: str, namespace: str | None = None, selector: Any = None) -> list[dict[str, Any]]:
        size = self.sizes.pop(0) if len(self.sizes) > 1 else self.sizes[0]
        return [make_node(f"n{number}", SMALL) for number in range(size)]

    def get(self, kind: str, name: str, namespace: str) -> dict[str, Any]:
        return {"metadata": {"uid": "uid-1"}}

    def delete(self, kind: str, name: str, namespace: str) -> None:
        self.deleted.append(f"{kind}/{name}")


class Jobs:
    """Jobs that print the given lines and end in the given state."""

    def __init__(self, api: Api, ends: JobState, *log: str) -> None:
        self.cluster, self.namespace, self.ends, self.log = api, "mpi-jobs", ends, log
        self.described: ClusterDescription = make_cluster()
        self.events: list[str] = []

    def job(self, name: str, pool: str, workers: int, command: Any, *, retries: int = 0) -> PlacedJob:
        return own_jobs.JobWorld(self.cluster, self.described, self.namespace, None, 1).job(  # type: ignore[arg-type]
            name, pool, workers, command, retries=retries
        )

    def submit(self, job: PlacedJob) -> None:
        self.events.append(f"submit {job.name}")

    def follow(self, job: PlacedJob, on_line: Callable[[str], None]) -> JobState:
        self.cluster.sizes = [1, *self.cluster.sizes]
        if self.ends.phase == "Starting":
            raise CommandError("job did not end within 1 minutes (--minutes)")
        return self.ends

    def run(self, job: PlacedJob, on_line: Callable[[str], None]) -> tuple[JobState, list[str]]:
        for line in self.log:
            on_line(line)
        return self.ends, list(self.log)

    def delete(self, name: str) -> None:
        self.events.append(f"delete {name}")


def tick_every_minute() -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += 60.0


def run_scaling_check(
    *sizes: int, ends: JobState | None = None, desired: int = 0, launch: FailedLaunch | None = None
) -> Notebook:
    clock, notes = tick_every_minute(), Notebook()
    jobs: Any = Jobs(Api(*sizes), ends or make_job_state())
    pool = PoolStatus("small", wanted=desired, min_size=0, last_failed_launch=launch)
    scaling = Scaling(jobs, SMALL, 1.0, lambda: pool, pause=lambda seconds: None, clock=lambda: next(clock))
    scaling.run(notes)
    assert jobs.events == ["submit acceptance-scale", "delete acceptance-scale"]
    return notes


def test_pool_scales_up_from_zero_and_back_to_zero() -> None:
    notes = run_scaling_check(0, 1, 1, 0)
    assert notes.failures == []
    shown = {piece.source: piece.value for piece in notes.evidence}
    assert shown["autoscaling describe-auto-scaling-groups: desired size of pool small"] == "0"
    assert shown["nodes of pool small after the job"].startswith("0 after ")
    assert "node n0 of pool small: status.allocatable" in shown, "the new node's devices are checked"


def test_nonempty_pool_is_scaled_to_zero_first() -> None:
    notes = run_scaling_check(2, 2, 1, 0)
    assert notes.failures == []
    assert any(piece.source == "nodes of pool small before the job, with 2 nodes" for piece in notes.evidence)


def test_nodes_remaining_after_scale_down_fail_the_check() -> None:
    with pytest.raises(CommandError, match=r"pool small still has 1 node after 1[78] minutes \(after the job\)"):
        run_scaling_check(0, 1)


def test_desired_size_that_never_drops_fails_the_check() -> None:
    assert run_scaling_check(0, 0, desired=1).failures == ["pool small: its nodes are gone, but AWS still reports desired size 1"]


def test_job_that_never_starts_is_reported_with_failed_launch() -> None:
    with pytest.raises(CommandError, match=r"did not end within .*; last failed launch: no g5.12xlarge capacity"):
        run_scaling_check(0, 0, ends=make_job_state("Starting"), launch=LOST)


def test_job_failure_on_new_node_fails_the_check() -> None:
    assert "the job on the empty pool small is Failed" in run_scaling_check(0, 0, ends=make_job_state("Failed")).failures[0]


# --- a job that loses a worker

FIRST, SECOND = f"{own_jobs.FIRST} w-0:1 w-1:2", f"{own_jobs.SECOND} w-0:1 w-1:2"


def run_lost_worker_check(ends: JobState, *log: str) -> tuple[Notebook, Api]:
    target: Any = object.__new__(eks.EksTarget)
    api, notes = Api(2), Notebook()
    target._jobs = Jobs(api, ends, *log)
    target._check_lost_worker(Choice(SMALL, 2, None), notes)
    return notes, api


def test_worker_is_deleted_once_and_job_result_comes_from_second_attempt() -> None:
    notes, api = run_lost_worker_check(make_job_state(failures=1), FIRST, SECOND, own_jobs.ENDED)
    assert (notes.failures, api.deleted) == ([], ["Pod/acceptance-killed-worker-1"])


@pytest.mark.parametrize(
    ("ends", "log"),
    [
        (make_job_state(failures=0), (FIRST, own_jobs.ENDED)),
        (make_job_state(failures=1), (SECOND, own_jobs.ENDED)),
        (make_job_state(failures=0), (FIRST, SECOND, own_jobs.ENDED)),
        (make_job_state("Failed", failures=5), (FIRST,)),
    ],
    ids=["no second attempt", "nothing was deleted", "no failed attempt", "failed"],
)
def test_job_without_worker_loss_and_recovery_fails_the_check(ends: JobState, log: tuple[str, ...]) -> None:
    assert run_lost_worker_check(ends, *log)[0].failures
