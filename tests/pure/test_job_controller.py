"""The job controller's records and decisions."""

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from infra.naming import RECORD_KEY
from infra.platform.job_controller.in_pod import reconcile, usage
from infra.platform.job_controller.in_pod import record as records
from infra.platform.job_controller.in_pod.actions import DeletePod, FailJob
from infra.platform.job_controller.in_pod.cluster import assemble
from tests.pure.controlled_jobs import Controlled, at, condition, job, launcher, main, pod, workers

KINDS: dict[str, list[dict[str, Any]]] = {"MPIJob": [], "Job": [], "StatefulSet": [], "Pod": []}
FINISHED = {"completionTime": at(90), "conditions": [condition("Succeeded", 90)]}


def test_a_record_has_every_phase_with_the_times_of_kubernetes() -> None:
    loop = Controlled()
    queued = main()
    queued["spec"]["runPolicy"] = {"suspend": True}
    loop.look(job(queued, []), 1)
    loop.look(job(main(startTime=at(5)), []), 7)
    loop.look(job(main(startTime=at(5)), [*workers(), launcher()]), 30)
    loop.look(job(main(**FINISHED), [*workers(), launcher(phase="Succeeded", until=90)]), 95)
    assert [(phase["phase"], phase["from"]) for phase in loop["phases"]] == [
        ("Queued", at(0)),
        ("Starting", at(5)),
        ("Running", at(15)),
        ("Succeeded", at(90)),
    ]
    assert (loop["exitCode"], loop["ended"], loop["restarts"]) == (0, at(90), 0)
    assert loop["seconds"] == {"Queued": 5.0, "Starting": 10.0, "Running": 75.0}


def test_a_job_that_the_queue_has_stopped_for_good_fails_with_the_reason() -> None:
    loop, queued = Controlled(), main()
    queued["spec"]["runPolicy"] = {"suspend": True}
    evicted = condition("Evicted", 60, "Not ready within 30m0s,\n  10 times")
    owner = {"metadata": {"ownerReferences": [{"uid": queued["metadata"]["uid"]}]}, "status": {"conditions": [evicted]}}
    [waiting] = assemble({**KINDS, "MPIJob": [queued], "Workload": [{**owner, "spec": {"active": True}}]}, {})
    loop.look(waiting, 30)
    assert loop["phase"] == "Queued"
    [stopped] = assemble({**KINDS, "MPIJob": [queued], "Workload": [{**owner, "spec": {"active": False}}]}, {})
    loop.look(stopped, 90)
    assert (loop["phase"], loop["ended"]) == ("Failed", at(60))
    assert loop["reason"] == "the queue stopped it: Not ready within 30m0s, 10 times"


def test_a_record_has_nodes_and_gpu_seconds() -> None:
    loop = Controlled()
    loop.look(job(main(), [*workers(), launcher()]), 30)
    assert loop["gpuSeconds"] == 0
    loop.look(job(main(), [*workers(phase="Succeeded", until=70), launcher()]), 95)
    assert [(worker["node"], worker["type"], worker["pool"], worker["gpus"]) for worker in loop["workers"]] == [
        ("one", "p5.48xlarge", "train", 8),
        ("two", "p5.48xlarge", "train", 8),
    ]
    assert loop["gpuSeconds"] == 2 * 8 * 60


def test_pods_that_outlive_the_job_still_cost_gpu_seconds() -> None:
    loop = Controlled()
    done = main(**FINISHED)
    loop.look(job(done, [*workers(), launcher(phase="Succeeded", until=90)]), 95)
    before = loop["phases"]
    loop.look(job(done, [launcher(phase="Succeeded", until=90)]), 210)
    assert loop["gpuSeconds"] == 2 * 8 * 200
    assert loop["phases"] == before


def test_gpu_seconds_of_dropped_entries_stay_in_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "WORKERS_KEPT", 2)
    loop = Controlled()
    loop.look(job(main(), [*workers()]), 30)
    loop.look(job(main(), []), 40)
    loop.look(job(main(), [pod("later", "worker", since=50)]), 60)
    assert len(loop["workers"]) == 2
    assert loop["gpuSeconds"] == 2 * 8 * 30


def test_a_look_at_an_unchanged_job_changes_nothing() -> None:
    loop = Controlled()
    managed = job(main(), [*workers(), launcher()])
    loop.look(managed, 30)
    before = copy.deepcopy(loop.record)
    assert loop.look(managed, 300) == []
    assert loop.record == before


def test_a_controller_that_was_away_records_every_attempt() -> None:
    loop = Controlled()
    ended = [launcher(1, phase="Failed", code=1, until=12), launcher(2, phase="Failed", code=2, until=24)]
    loop.look(job(main(), [*workers(), *ended, launcher(3)]), 60)
    assert loop.outcomes == [
        ("Failed", "train-launcher-1: exit code 1"),
        ("Failed", "train-launcher-2: exit code 2"),
        (None, ""),
    ]
    assert (loop["restarts"], loop["failures"], loop["phase"]) == (2, 2, "Running")


def test_cancel_keeps_the_record() -> None:
    loop = Controlled()
    loop.look(job(main(), [*workers(), launcher()]), 30)
    loop.gone(50)
    assert (loop["phase"], loop["ended"]) == ("Canceled", at(50))
    assert loop["gpuSeconds"] == 2 * 8 * 40
    before = copy.deepcopy(loop.record)
    loop.gone(900)
    assert loop.record == before


def test_deleting_a_finished_job_changes_no_phase() -> None:
    loop = Controlled()
    loop.look(job(main(**FINISHED), [launcher(phase="Succeeded", until=90)]), 95)
    loop.gone(900)
    assert (loop["phase"], loop["ended"]) == ("Succeeded", at(90))


def test_a_job_of_another_tool_is_recorded_and_left_alone() -> None:
    foreign = main()
    del foreign["metadata"]["annotations"]
    loop = Controlled()
    for attempt in range(1, 6):
        pods = [launcher(number, phase="Failed", code=1, until=10 * number + 5) for number in range(1, attempt + 1)]
        assert loop.look(job(foreign, [*workers(), *pods]), 10 * attempt + 6) == []
    assert loop["failures"] == 5


def test_a_job_of_another_tool_has_no_pool_but_a_size() -> None:
    foreign = main()
    del foreign["metadata"]["annotations"]
    loop = Controlled()
    loop.look(job(foreign, []), 1)
    assert (loop["size"], loop["pool"], loop["launcher"]) == (2, "", "mpijob")


# --- restarts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mpijob", "standalone"])
def test_a_job_ends_after_its_last_restart(kind: str) -> None:
    loop = Controlled()
    root = main(kind, {"maxRestarts": 1})
    failure = launcher(1, phase="Failed", code=1, until=12)
    assert loop.look(job(root, [*workers(), failure]), 13) == []
    assert loop["phase"] == "Restarting"
    two = launcher(2, phase="Failed", code=1, until=24)
    (action,) = loop.look(job(root, [*workers(), failure, two]), 25)
    message = "the job failed 2 times, the last time with train-launcher-2: exit code 1; maxRestarts is 1"
    assert action == FailJob("mpi-jobs", "train-launcher", "MaxRestartsExceeded", message, was_started=False)
    assert loop["verdict"]["reason"] == "MaxRestartsExceeded"


def test_the_verdict_waits_until_the_nodes_have_shown_that_they_are_alive() -> None:
    loop = Controlled()
    managed = job(main(policy={"maxRestarts": 0}), [*workers(), launcher(1, phase="Failed", code=1, until=12)])
    assert loop.look(managed, 13, alive=False) == []
    assert len(loop.look(managed, 22)) == 1


def test_the_verdict_waits_no_longer_than_kubernetes_needs_to_notice_a_lost_node() -> None:
    loop = Controlled()
    managed = job(main(policy={"maxRestarts": 0}), [*workers(), launcher(1, phase="Failed", code=1, until=12)])
    assert loop.look(managed, 100, alive=False) == []
    assert len(loop.look(managed, 110, alive=False)) == 1


@pytest.mark.parametrize("kind", ["mpijob", "standalone"])
def test_a_lost_node_does_not_count(kind: str) -> None:
    loop = Controlled()
    root = main(kind, {"maxRestarts": 0})
    running = [*workers(), launcher()]
    loop.look(job(root, running), 30)
    failed = [*workers(), launcher(phase="Failed", code=1, until=40)]
    (deleted,) = loop.look(job(root, failed, lost="two"), 41)
    assert isinstance(deleted, DeletePod) and deleted.name == "train-worker-1", "the next attempt needs another one"
    assert loop.outcomes == [("Disrupted", "train-worker-1: its node two is not ready")]
    assert (loop["failures"], loop["disruptions"]) == (0, 1)


@pytest.mark.parametrize("kind", ["mpijob", "standalone", "torchrun"])
@pytest.mark.parametrize("left", [[], [1]])
def test_a_worker_evicted_for_a_spot_rebalance_does_not_count(kind: str, left: list[int]) -> None:
    """EKS evicts the pods of a healthy node: no notice, no fault. The pod may be gone before the controller sees it."""
    loop = Controlled()
    root = main(kind, {"maxRestarts": 0})
    ranks = [launcher()] if kind != "torchrun" else []
    loop.look(job(root, [*workers(), *ranks]), 30)
    stays, evicted = workers()[0], workers(phase="Failed", code=143, until=40, target="EvictionByEvictionAPI", deleting=True)[1]
    failed = [launcher(phase="Failed", code=1, until=41)] if ranks else []
    loop.look(job(root, [stays, *(evicted for _ in left), *failed]), 42)
    assert (loop["failures"], loop["disruptions"]) == (0, 1)
    assert "verdict" not in loop.record


def test_a_node_that_is_noticed_as_lost_after_the_failure_does_not_count() -> None:
    loop = Controlled()
    failed = [*workers(), launcher(phase="Failed", code=1, until=40)]
    assert loop.look(job(main(), failed), 41) == []
    assert loop["failures"] == 1
    loop.look(job(main(), failed, lost="two"), 80)
    assert (loop["failures"], loop["disruptions"]) == (0, 1)


@pytest.mark.parametrize("how", ["not ready", "removed with its pod"])
def test_a_node_may_be_noticed_as_lost_while_the_next_attempt_runs(how: str) -> None:
    """Kubernetes retries a failed attempt after 10 seconds, but notices a lost node only after 50 seconds."""
    loop = Controlled()
    root, first = main(policy={"maxRestarts": 0}), launcher(phase="Failed", code=1, until=40)
    loop.look(job(root, [*workers(), launcher()]), 30)
    assert loop.look(job(root, [*workers(), first]), 41, alive=False) == []
    again = [*workers(), first, launcher(5)]
    assert loop.look(job(root, again), 55, alive=False) == []
    later = job(root, again, lost="two") if how == "not ready" else job(root, [again[0], *again[2:]])
    ended = [action.name for action in loop.look(later, 101, alive=False) if isinstance(action, DeletePod)]
    assert ended == (["train-launcher-5", "train-worker-1"] if how == "not ready" else [])
    assert (loop["failures"], loop["attempts"][0]["outcome"]) == (0, "Disrupted")


@pytest.mark.parametrize("kind", ["mpijob", "standalone"])
@pytest.mark.parametrize("how", ["not ready", "gone"])
def test_a_worker_whose_kubelet_is_silent_ends_the_attempt_although_its_ranks_run(kind: str, how: str) -> None:
    """The node keeps running its containers. If the attempt continued, Kubernetes would replace the worker, but nothing
    could end the old ranks.
    """
    loop = Controlled()
    root, pods = main(kind, {"maxRestarts": 0}), [*workers(), launcher()]
    loop.look(job(root, pods), 30)
    lost = job(root, pods, lost="two")
    if how == "gone":
        lost = replace(lost, nodes={name: node for name, node in lost.nodes.items() if name != "two"})
    actions = loop.look(lost, 90)
    assert [(action.name, action.seconds) for action in actions if isinstance(action, DeletePod)] == [
        ("train-launcher-1", None),
        ("train-worker-1", None),
    ], "the ranks on the other node get their time to save"
    why = "is gone" if how == "gone" else "is not ready"
    assert loop.outcomes == [("Disrupted", f"train-worker-1: its node two {why}")]
    again = [pods[0], workers(since=100, uid="new")[1], launcher(11)]
    assert loop.look(job(root, again), 130) == []
    assert (loop["failures"], loop["disruptions"], loop["restarts"]) == (0, 1, 1)


def test_a_launcher_whose_kubelet_is_silent_ends_with_all_its_workers() -> None:
    """The launcher's mpirun may still be running, and the next mpirun would start a second copy of each rank."""
    loop = Controlled()
    pods = [*workers(), launcher(node="three")]
    loop.look(job(main(), pods), 30)
    names = [action.name for action in loop.look(job(main(), pods, lost="three"), 90) if isinstance(action, DeletePod)]
    assert names == ["train-launcher-1", "train-worker-0", "train-worker-1"]


@pytest.mark.parametrize("why", ["PreemptionByScheduler", "EvictionByEvictionAPI", "DeletionByTaintManager"])
def test_preemption_drain_and_taints_do_not_count(why: str) -> None:
    loop = Controlled()
    root = main(policy={"maxRestarts": 0})
    loop.look(job(root, [*workers(), launcher()]), 30)
    first, second = workers(target=why, deleting=True)
    assert loop.look(job(root, [first, second, launcher(phase="Failed", code=143, until=40)]), 41) == []
    assert loop.outcomes == [("Disrupted", f"train-worker-0: {why}")]


def test_a_replaced_worker_explains_the_failure_of_the_launcher() -> None:
    loop = Controlled()
    loop.look(job(main(), [*workers(), launcher()]), 30)
    first, second = workers()
    second["metadata"]["uid"] = "uid-of-the-replacement"
    loop.look(job(main(), [first, second, launcher(phase="Failed", code=1, until=40)]), 41)
    assert loop.outcomes == [("Disrupted", "train-worker-1 was deleted")]


def test_a_worker_that_ran_out_of_memory_counts_and_is_named() -> None:
    loop = Controlled()
    loop.look(job(main(), [*workers(), launcher()]), 30)
    first, second = workers()
    second["status"]["containerStatuses"][0]["lastState"] = {
        "terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": at(38)}
    }
    loop.look(job(main(), [first, second, launcher(phase="Failed", code=1, until=40)]), 41)
    assert loop.outcomes == [("Failed", "train-worker-1: exit code 137 (OOMKilled)")]
    assert [exit["code"] for exit in loop["attempts"][0]["exits"]] == [137, 1]


@pytest.mark.parametrize("kind", ["mpijob", "standalone", "torchrun"])
def test_an_exit_code_that_is_not_retried_ends_the_job_at_once(kind: str) -> None:
    loop = Controlled()
    root = main(kind, {"maxRestarts": 5, "noRetryExitCodes": [3]})
    pods = workers() if kind == "torchrun" else [*workers(), launcher()]
    failed = pod("train-worker-0", "worker", phase="Failed", code=3, until=40)
    pods[0 if kind == "torchrun" else 2] = failed if kind == "torchrun" else launcher(phase="Failed", code=3, until=40)
    (action,) = loop.look(job(root, pods), 41)
    assert isinstance(action, FailJob)
    assert action.reason == "ExitCodeNotRetried"
    assert action.message.endswith("ended with exit code 3, which noRetryExitCodes lists")


@pytest.mark.parametrize(("phase", "reason"), [("Failed", "Evicted"), ("Succeeded", "Terminated")])
def test_a_worker_of_an_mpijob_that_has_ended_is_deleted_so_that_the_operator_replaces_it(phase: str, reason: str) -> None:
    first, second = workers()
    ended = {**second, "status": {**second["status"], "phase": phase, "reason": reason}}
    loop = Controlled()
    assert loop.look(job(main(), [first, ended, launcher()]), 30) == [
        DeletePod("mpi-jobs", "train-worker-1", "uid-train-worker-1", 0)
    ]


def test_a_worker_that_failed_by_itself_counts() -> None:
    loop = Controlled()
    loop.look(job(main(), [*workers(), launcher()]), 30)
    first, second = workers()
    failed = {**second, "status": {**second["status"], "phase": "Failed", "reason": "Evicted"}}
    loop.look(job(main(), [first, failed, launcher()]), 35)
    loop.look(job(main(), [first, launcher(phase="Failed", code=1, until=40)]), 41)
    assert loop.outcomes == [("Failed", "train-worker-1: Evicted")]


def test_the_deadline_of_a_standalone_job_counts_from_the_admission_of_its_workers() -> None:
    loop = Controlled()
    root = main("standalone", {"activeDeadlineSeconds": 60})
    waiting = [launcher(since=1), *workers(1)]
    assert loop.look(job(root, waiting), 100) == []
    running = [launcher(since=1), *workers(since=100)]
    assert loop.look(job(root, running), 160) == []
    (action,) = loop.look(job(root, running), 161)
    assert isinstance(action, FailJob)
    assert action.reason == "DeadlineExceeded"


def test_a_suspended_job_is_not_judged() -> None:
    loop = Controlled()
    root = main(policy={"maxRestarts": 0})
    root["spec"]["runPolicy"] = {"suspend": True}
    assert loop.look(job(root, [launcher(phase="Failed", code=1, until=12)]), 100) == []


# --- records -----------------------------------------------------------------------------------------------------------


def test_a_record_survives_its_config_map() -> None:
    record = records.new("0123456789", "train", "mpi-jobs", at(0))
    written = records.config_map(record)
    assert records.read(written) == record
    assert written["metadata"]["name"] == "train-record-01234567"
    assert written["metadata"]["labels"] == {"gpumpi.io/record": "train", "app.kubernetes.io/managed-by": "gpumpi"}


@pytest.mark.parametrize("data", [{}, {"record.json": "{"}, {"record.json": json.dumps({"version": 2})}, {"record.json": "[]"}])
def test_a_damaged_or_newer_record_is_not_read(data: dict[str, str]) -> None:
    assert records.read({"data": data}) is None


def test_keys_of_a_newer_controller_stay() -> None:
    record = {**records.new("uid-train", "train", "mpi-jobs", at(0)), "cost": {"total": 1}}
    assert reconcile.observe(record, job(main(), []), at(5))["cost"] == {"total": 1}


def test_the_record_of_the_largest_job_fits_into_a_config_map() -> None:
    loop = Controlled()
    for second in range(10, 210, 10):
        pods = [pod(f"train-worker-{number}", "worker", uid=f"{second:036}{number}", since=second) for number in range(512)]
        loop.look(job(main(), [*pods, launcher(second // 10)]), second + 5)
        loop.look(job(main(), [*pods, launcher(second // 10, phase="Failed", code=1, until=second + 7)]), second + 8)
    assert loop.record is not None
    assert len(records.config_map(loop.record)["data"][RECORD_KEY]) < 2**20
