"""The job controller names a rank that is slower than the others."""

from typing import Any

import pytest

from cli.jobs.records import JobRecord
from infra.naming import COMPLETION_INDEX
from infra.platform.job_controller.in_pod.progress import Seen
from infra.platform.job_controller.in_pod.steps import Step
from tests.pure.controlled_jobs import Controlled, Object, at, job, launcher, main, workers

POLICY = {"progress": {"pattern": "x", "within": 600, "ranksPerWorker": 2}}


def shown(*slowest: tuple[int, float], policy: dict[str, Any] = POLICY, kind: str = "mpijob") -> str:
    """Return the output of `jobs` for a job, given the slowest rank and its slowdown ratio in each of the steps 40, 41,
    ...
    """
    loop = Controlled()
    pods = pods_of(kind)
    running = job(main(kind, policy), pods)
    loop.look(running, 20)
    printed = [Step(at(30 + number), 40 + number, 0, *slow) for number, slow in enumerate(slowest)]
    loop.look(running, 60, seen=Seen(pods[-1 if kind == "mpijob" else 0]["metadata"]["uid"], printed, (), at(60)))
    assert loop.record is not None
    return JobRecord("train-record", loop.record).slow


def pods_of(kind: str) -> list[Object]:
    if kind == "mpijob":
        return [*workers(), launcher()]
    named = workers()
    for index, resource in enumerate(named):
        resource["metadata"]["labels"][COMPLETION_INDEX] = str(index)
    return named


@pytest.mark.parametrize("kind", ["mpijob", "torchrun"])
def test_the_same_slow_rank_in_five_steps_is_shown_with_its_node(kind: str) -> None:
    steps = [(0, 1.1), *[(3, 2.0)] * 4, (3, 2.14)]
    assert shown(*steps, kind=kind) == "rank 3 on two is slow: 2.1 times the median of all ranks since step 41"


@pytest.mark.parametrize(
    "steps",
    [
        [(3, 2.0)] * 4,
        [(3, 1.4)] * 9,
        [(3, 2.0)] * 4 + [(1, 2.0)] * 4,
        [(3, 2.0)] * 9 + [(1, 1.1)],
    ],
)
def test_a_few_slow_steps_changing_ranks_and_a_rank_that_recovers_are_not_shown(steps: list[tuple[int, float]]) -> None:
    assert shown(*steps) == ""


def test_without_the_ranks_per_worker_the_rank_is_shown_without_its_node() -> None:
    policy = {"progress": {"pattern": "x", "within": 600}}
    assert shown(*[(3, 2.0)] * 5, policy=policy) == "rank 3 is slow: 2.0 times the median of all ranks since step 40"


def test_a_slow_rank_is_written_at_once_and_forgotten_when_its_attempt_ends() -> None:
    loop = Controlled()
    running = job(main(policy=POLICY), pods_of("mpijob"))
    loop.look(running, 20)
    for second in range(30, 36):
        printed = [Step(at(number), number, 0, 1, 3.0) for number in range(30, second + 1)]
        loop.look(running, second, seen=Seen("uid-train-launcher-1", printed, (), at(second)))
    assert loop.record is not None
    assert "rank 1 on one is slow" in JobRecord("train-record", loop.record).slow
    loop.look(job(main(policy=POLICY), [*workers(), launcher(phase="Failed", code=1, until=40)]), 41)
    assert JobRecord("train-record", loop.record).slow == ""
