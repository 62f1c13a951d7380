"""The job controller's decisions for torchrun, whose ranks are pods of one Kubernetes Job."""

from infra.platform.job_controller.in_pod.actions import DeletePod, FailJob
from tests.pure.controlled_jobs import Controlled, make_condition, make_job, make_main_object, make_pod, make_workers


def test_all_torchrun_ranks_restart_together() -> None:
    loop = Controlled()
    root = make_main_object("torchrun")
    first, second = make_workers()
    assert loop.run_round(make_job(root, [first, second]), 30) == []
    assert loop["phase"] == "Running"
    failed = make_pod("train-worker-0", "worker", phase="Failed", code=1, until=40)
    assert loop.run_round(make_job(root, [failed, second]), 41) == [
        DeletePod("mpi-jobs", "train-worker-1", "uid-train-worker-1", 5)
    ]
    gone = make_pod("train-worker-1", "worker", node="two", phase="Failed", code=143, until=44)
    again = [make_pod(f"again-{index}", "worker", since=50 + index) for index in range(2)]
    assert loop.run_round(make_job(root, [failed, gone, again[0]]), 52) == []
    assert loop.run_round(make_job(root, [failed, gone, *again]), 60) == []
    assert loop.outcomes == [("Failed", "train-worker-0: exit code 1"), (None, "")]
    assert (loop["restarts"], loop["phase"], len(loop["attempts"][1]["pods"])) == (1, "Running", 2)


def test_restarted_controller_ends_leftover_ranks_even_if_the_next_attempt_began() -> None:
    loop = Controlled()
    root = make_main_object("torchrun")
    first, second = make_workers()
    loop.run_round(make_job(root, [first, second]), 30)
    failed = make_pod("train-worker-0", "worker", phase="Failed", code=1, until=40)
    again = make_pod("again-0", "worker", since=51)
    assert loop.run_round(make_job(root, [failed, again, second]), 60) == [
        DeletePod("mpi-jobs", "train-worker-1", "uid-train-worker-1", 5)
    ]
    gone = make_pod("train-worker-1", "worker", node="two", phase="Failed", code=143, until=62)
    assert loop.run_round(make_job(root, [failed, gone, again, make_pod("again-1", "worker", node="two", since=72)]), 75) == []
    assert loop.outcomes == [("Failed", "train-worker-0: exit code 1"), (None, "")]
    assert (loop["failures"], loop["restarts"], len(loop["attempts"][1]["pods"])) == (1, 1, 2)


def test_torchrun_ranks_get_their_grace_period_when_one_rank_is_evicted() -> None:
    loop = Controlled()
    root = make_main_object("torchrun", {"maxRestarts": 0})
    first, second = make_workers()
    loop.run_round(make_job(root, [first, second]), 30)
    leaving = make_pod("train-worker-0", "worker", target="EvictionByEvictionAPI", deleting=True)
    assert loop.run_round(make_job(root, [leaving, second]), 41) == [
        DeletePod("mpi-jobs", "train-worker-1", "uid-train-worker-1", None)
    ]
    assert (loop["failures"], loop["disruptions"]) == (0, 1)


def test_job_with_finished_ranks_does_not_restart() -> None:
    loop = Controlled()
    loop.run_round(make_job(make_main_object("torchrun"), make_workers()), 30)
    loop.run_round(make_job(make_main_object("torchrun"), make_workers(phase="Succeeded", until=40)), 41)
    assert (loop["phase"], loop["restarts"]) == ("Running", 0)


def test_simultaneous_rank_failures_count_as_one_failure() -> None:
    loop = Controlled()
    root = make_main_object("torchrun", {"maxRestarts": 1})
    loop.run_round(make_job(root, make_workers()), 30)
    loop.run_round(make_job(root, make_workers(phase="Failed", code=1, until=40)), 41)
    assert loop["failures"] == 1


def test_torchrun_ends_if_a_rank_fails_after_another_has_succeeded() -> None:
    loop = Controlled()
    done = make_pod("train-worker-1", "worker", phase="Succeeded", until=40)
    failed = make_pod("train-worker-0", "worker", phase="Failed", code=1, until=41)
    (action,) = loop.run_round(make_job(make_main_object("torchrun"), [failed, done]), 42)
    assert isinstance(action, FailJob)
    assert action.reason == "FailedAfterSuccess"


def test_pods_that_end_with_the_job_are_not_a_disruption() -> None:
    loop = Controlled()
    root = make_main_object("torchrun")
    loop.run_round(make_job(root, make_workers()), 30)
    late = make_main_object("torchrun", conditions=[make_condition("FailureTarget", 40, "deadline")])
    assert loop.run_round(make_job(late, make_workers(deleting=True)), 41) == []
    ended = make_main_object(
        "torchrun", conditions=[make_condition("Failed", 45, "Job was active longer than specified deadline")]
    )
    loop.run_round(make_job(ended, []), 46)
    assert loop.outcomes == [("Failed", "Job was active longer than specified deadline")]
    assert (loop["disruptions"], loop["phase"]) == (0, "Failed")
    assert loop["reason"] == "Job was active longer than specified deadline"
