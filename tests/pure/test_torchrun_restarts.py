"""The job controller's decisions for torchrun, whose ranks are pods of one Kubernetes Job."""

from infra.platform.job_controller.in_pod.actions import DeletePod, FailJob
from tests.pure.controlled_jobs import Controlled, condition, job, main, pod, workers


def test_all_ranks_of_torchrun_restart_together() -> None:
    loop = Controlled()
    root = main("torchrun")
    first, second = workers()
    assert loop.look(job(root, [first, second]), 30) == []
    assert loop["phase"] == "Running"
    failed = pod("train-worker-0", "worker", phase="Failed", code=1, until=40)
    assert loop.look(job(root, [failed, second]), 41) == [DeletePod("mpi-jobs", "train-worker-1", "uid-train-worker-1", 5)]
    gone = pod("train-worker-1", "worker", node="two", phase="Failed", code=143, until=44)
    again = [pod(f"again-{index}", "worker", since=50 + index) for index in range(2)]
    assert loop.look(job(root, [failed, gone, again[0]]), 52) == []
    assert loop.look(job(root, [failed, gone, *again]), 60) == []
    assert loop.outcomes == [("Failed", "train-worker-0: exit code 1"), (None, "")]
    assert (loop["restarts"], loop["phase"], len(loop["attempts"][1]["pods"])) == (1, "Running", 2)


def test_a_controller_that_was_down_ends_the_ranks_left_over_although_the_next_attempt_has_begun() -> None:
    loop = Controlled()
    root = main("torchrun")
    first, second = workers()
    loop.look(job(root, [first, second]), 30)
    failed = pod("train-worker-0", "worker", phase="Failed", code=1, until=40)
    again = pod("again-0", "worker", since=51)
    assert loop.look(job(root, [failed, again, second]), 60) == [DeletePod("mpi-jobs", "train-worker-1", "uid-train-worker-1", 5)]
    gone = pod("train-worker-1", "worker", node="two", phase="Failed", code=143, until=62)
    assert loop.look(job(root, [failed, gone, again, pod("again-1", "worker", node="two", since=72)]), 75) == []
    assert loop.outcomes == [("Failed", "train-worker-0: exit code 1"), (None, "")]
    assert (loop["failures"], loop["restarts"], len(loop["attempts"][1]["pods"])) == (1, 1, 2)


def test_ranks_of_torchrun_get_their_time_to_save_when_one_of_them_is_taken_away() -> None:
    loop = Controlled()
    root = main("torchrun", {"maxRestarts": 0})
    first, second = workers()
    loop.look(job(root, [first, second]), 30)
    leaving = pod("train-worker-0", "worker", target="EvictionByEvictionAPI", deleting=True)
    assert loop.look(job(root, [leaving, second]), 41) == [DeletePod("mpi-jobs", "train-worker-1", "uid-train-worker-1", None)]
    assert (loop["failures"], loop["disruptions"]) == (0, 1)


def test_a_job_whose_ranks_have_ended_does_not_restart() -> None:
    loop = Controlled()
    loop.look(job(main("torchrun"), workers()), 30)
    loop.look(job(main("torchrun"), workers(phase="Succeeded", until=40)), 41)
    assert (loop["phase"], loop["restarts"]) == ("Running", 0)


def test_several_ranks_that_fail_together_are_one_failure() -> None:
    loop = Controlled()
    root = main("torchrun", {"maxRestarts": 1})
    loop.look(job(root, workers()), 30)
    loop.look(job(root, workers(phase="Failed", code=1, until=40)), 41)
    assert loop["failures"] == 1


def test_torchrun_ends_if_a_rank_fails_after_another_has_succeeded() -> None:
    loop = Controlled()
    done = pod("train-worker-1", "worker", phase="Succeeded", until=40)
    failed = pod("train-worker-0", "worker", phase="Failed", code=1, until=41)
    (action,) = loop.look(job(main("torchrun"), [failed, done]), 42)
    assert isinstance(action, FailJob)
    assert action.reason == "FailedAfterSuccess"


def test_pods_that_end_with_the_job_are_no_disruption() -> None:
    loop = Controlled()
    root = main("torchrun")
    loop.look(job(root, workers()), 30)
    late = main("torchrun", conditions=[condition("FailureTarget", 40, "deadline")])
    assert loop.look(job(late, workers(deleting=True)), 41) == []
    ended = main("torchrun", conditions=[condition("Failed", 45, "Job was active longer than specified deadline")])
    loop.look(job(ended, []), 46)
    assert loop.outcomes == [("Failed", "Job was active longer than specified deadline")]
    assert (loop["disruptions"], loop["phase"]) == (0, "Failed")
    assert loop["reason"] == "Job was active longer than specified deadline"
