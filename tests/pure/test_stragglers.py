"""The job controller names a rank that is slower than the others."""

from typing import Any

import pytest

from cli.jobs.records import JobRecord
from infra.naming import COMPLETION_INDEX
from infra.platform.job_controller.in_pod.progress import Seen
from infra.platform.job_controller.in_pod.steps import Step
from tests.pure.controlled_jobs import Controlled, Object, make_job, make_launcher, make_main_object, make_timestamp, make_workers

POLICY = {"progress": {"pattern": "x", "within": 600, "ranksPerWorker": 2}}


def run_jobs(*slowest: tuple[int, float], policy: dict[str, Any] = POLICY, kind: str = "mpijob") -> str:
    """Return the output of `jobs` for a job, given the slowest rank and its slowdown ratio in each of the steps 40, 41,
    ...
    """
    loop = Controlled()
    pods = make_pods(kind)
    running = make_job(make_main_object(kind, policy), pods)
    loop.run_round(running, 20)
    printed = [Step(make_timestamp(30 + number), 40 + number, 0, *slow) for number, slow in enumerate(slowest)]
    loop.run_round(
        running, 60, seen=Seen(pods[-1 if kind == "mpijob" else 0]["metadata"]["uid"], printed, (), make_timestamp(60))
    )
    assert loop.record is not None
    return JobRecord("train-record", loop.record).slow_rank_reason


def make_pods(kind: str) -> list[Object]:
    if kind == "mpijob":
        return [*make_workers(), make_launcher()]
    named = make_workers()
    for index, resource in enumerate(named):
        resource["metadata"]["labels"][COMPLETION_INDEX] = str(index)
    return named


@pytest.mark.parametrize("kind", ["mpijob", "torchrun"])
def test_rank_that_is_slow_in_five_steps_is_shown_with_its_node(kind: str) -> None:
    steps = [(0, 1.1), *[(3, 2.0)] * 4, (3, 2.14)]
    assert run_jobs(*steps, kind=kind) == "rank 3 on two is slow: 2.1 times the median of all ranks since step 41"


@pytest.mark.parametrize(
    "steps",
    [
        [(3, 2.0)] * 4,
        [(3, 1.4)] * 9,
        [(3, 2.0)] * 4 + [(1, 2.0)] * 4,
        [(3, 2.0)] * 9 + [(1, 1.1)],
    ],
)
def test_brief_changing_or_recovered_slowness_is_not_shown(steps: list[tuple[int, float]]) -> None:
    assert run_jobs(*steps) == ""


def test_slow_rank_is_shown_without_its_node_if_ranks_per_worker_are_unknown() -> None:
    policy = {"progress": {"pattern": "x", "within": 600}}
    assert run_jobs(*[(3, 2.0)] * 5, policy=policy) == "rank 3 is slow: 2.0 times the median of all ranks since step 40"


def test_slow_rank_is_recorded_at_once_and_cleared_when_its_attempt_ends() -> None:
    loop = Controlled()
    running = make_job(make_main_object(policy=POLICY), make_pods("mpijob"))
    loop.run_round(running, 20)
    for second in range(30, 36):
        printed = [Step(make_timestamp(number), number, 0, 1, 3.0) for number in range(30, second + 1)]
        loop.run_round(running, second, seen=Seen("uid-train-launcher-1", printed, (), make_timestamp(second)))
    assert loop.record is not None
    assert "rank 1 on one is slow" in JobRecord("train-record", loop.record).slow_rank_reason
    loop.run_round(
        make_job(make_main_object(policy=POLICY), [*make_workers(), make_launcher(phase="Failed", code=1, until=40)]), 41
    )
    assert JobRecord("train-record", loop.record).slow_rank_reason == ""
