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
from infra.platform.job_controller.in_pod.cluster import assemble_jobs
from tests.pure.controlled_jobs import (
    Controlled,
    make_condition,
    make_job,
    make_launcher,
    make_main_object,
    make_pod,
    make_timestamp,
    make_workers,
)

KINDS: dict[str, list[dict[str, Any]]] = {"MPIJob": [], "Job": [], "StatefulSet": [], "Pod": []}
FINISHED = {"completionTime": make_timestamp(90), "conditions": [make_condition("Succeeded", 90)]}


def test_record_has_every_phase_with_timestamps_from_kubernetes() -> None:
    loop = Controlled()
    queued = make_main_object()
    queued["spec"]["runPolicy"] = {"suspend": True}
    loop.run_round(make_job(queued, []), 1)
    loop.run_round(make_job(make_main_object(startTime=make_timestamp(5)), []), 7)
    loop.run_round(make_job(make_main_object(startTime=make_timestamp(5)), [*make_workers(), make_launcher()]), 30)
    loop.run_round(make_job(make_main_object(**FINISHED), [*make_workers(), make_launcher(phase="Succeeded", until=90)]), 95)
    assert [(phase["phase"], phase["from"]) for phase in loop["phases"]] == [
        ("Queued", make_timestamp(0)),
        ("Starting", make_timestamp(5)),
        ("Running", make_timestamp(15)),
        ("Succeeded", make_timestamp(90)),
    ]
    assert (loop["exitCode"], loop["ended"], loop["restarts"]) == (0, make_timestamp(90), 0)
    assert loop["seconds"] == {"Queued": 5.0, "Starting": 10.0, "Running": 75.0}


def test_job_deactivated_by_the_queue_fails_with_the_reason() -> None:
    loop, queued = Controlled(), make_main_object()
    queued["spec"]["runPolicy"] = {"suspend": True}
    evicted = make_condition("Evicted", 60, "Not ready within 30m0s,\n  10 times")
    owner = {"metadata": {"ownerReferences": [{"uid": queued["metadata"]["uid"]}]}, "status": {"conditions": [evicted]}}
    [waiting] = assemble_jobs({**KINDS, "MPIJob": [queued], "Workload": [{**owner, "spec": {"active": True}}]}, {})
    loop.run_round(waiting, 30)
    assert loop["phase"] == "Queued"
    [stopped] = assemble_jobs({**KINDS, "MPIJob": [queued], "Workload": [{**owner, "spec": {"active": False}}]}, {})
    loop.run_round(stopped, 90)
    assert (loop["phase"], loop["ended"]) == ("Failed", make_timestamp(60))
    assert loop["reason"] == "the queue stopped it: Not ready within 30m0s, 10 times"


def test_a_record_has_nodes_and_gpu_seconds() -> None:
    loop = Controlled()
    loop.run_round(make_job(make_main_object(), [*make_workers(), make_launcher()]), 30)
    assert loop["gpuSeconds"] == 0
    loop.run_round(make_job(make_main_object(), [*make_workers(phase="Succeeded", until=70), make_launcher()]), 95)
    assert [(worker["node"], worker["type"], worker["pool"], worker["gpus"]) for worker in loop["workers"]] == [
        ("one", "p5.48xlarge", "train", 8),
        ("two", "p5.48xlarge", "train", 8),
    ]
    assert loop["gpuSeconds"] == 2 * 8 * 60


def test_pods_that_outlive_the_job_still_accrue_gpu_seconds() -> None:
    loop = Controlled()
    done = make_main_object(**FINISHED)
    loop.run_round(make_job(done, [*make_workers(), make_launcher(phase="Succeeded", until=90)]), 95)
    before = loop["phases"]
    loop.run_round(make_job(done, [make_launcher(phase="Succeeded", until=90)]), 210)
    assert loop["gpuSeconds"] == 2 * 8 * 200
    assert loop["phases"] == before


def test_gpu_seconds_of_dropped_entries_stay_in_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "WORKERS_KEPT", 2)
    loop = Controlled()
    loop.run_round(make_job(make_main_object(), [*make_workers()]), 30)
    loop.run_round(make_job(make_main_object(), []), 40)
    loop.run_round(make_job(make_main_object(), [make_pod("later", "worker", since=50)]), 60)
    assert len(loop["workers"]) == 2
    assert loop["gpuSeconds"] == 2 * 8 * 30


def test_unchanged_job_leaves_the_record_unchanged() -> None:
    loop = Controlled()
    managed = make_job(make_main_object(), [*make_workers(), make_launcher()])
    loop.run_round(managed, 30)
    before = copy.deepcopy(loop.record)
    assert loop.run_round(managed, 300) == []
    assert loop.record == before


def test_controller_records_every_attempt_after_an_outage() -> None:
    loop = Controlled()
    ended = [make_launcher(1, phase="Failed", code=1, until=12), make_launcher(2, phase="Failed", code=2, until=24)]
    loop.run_round(make_job(make_main_object(), [*make_workers(), *ended, make_launcher(3)]), 60)
    assert loop.outcomes == [
        ("Failed", "train-launcher-1: exit code 1"),
        ("Failed", "train-launcher-2: exit code 2"),
        (None, ""),
    ]
    assert (loop["restarts"], loop["failures"], loop["phase"]) == (2, 2, "Running")


def test_attempt_that_succeeded_during_an_outage_is_recorded() -> None:
    loop = Controlled()
    loop.run_round(make_job(make_main_object(), [*make_workers(), make_launcher(1)]), 30)
    failed = make_launcher(1, phase="Failed", code=1, until=40)
    loop.run_round(make_job(make_main_object(), [*make_workers(), failed], lost="two"), 41)
    ended = [failed, make_launcher(2, phase="Succeeded", until=90)]
    loop.run_round(make_job(make_main_object(**FINISHED), ended), 95)
    assert [outcome for outcome, _ in loop.outcomes] == ["Disrupted", "Succeeded"]
    assert (loop["restarts"], loop["failures"], loop["phase"]) == (1, 0, "Succeeded")


def test_canceling_keeps_the_record() -> None:
    loop = Controlled()
    loop.run_round(make_job(make_main_object(), [*make_workers(), make_launcher()]), 30)
    loop.record_deletion(50)
    assert (loop["phase"], loop["ended"]) == ("Canceled", make_timestamp(50))
    assert loop["gpuSeconds"] == 2 * 8 * 40
    before = copy.deepcopy(loop.record)
    loop.record_deletion(900)
    assert loop.record == before


def test_deleting_a_finished_job_keeps_its_final_phase() -> None:
    loop = Controlled()
    loop.run_round(make_job(make_main_object(**FINISHED), [make_launcher(phase="Succeeded", until=90)]), 95)
    loop.record_deletion(900)
    assert (loop["phase"], loop["ended"]) == ("Succeeded", make_timestamp(90))


def test_foreign_job_is_recorded_but_not_changed() -> None:
    foreign = make_main_object()
    del foreign["metadata"]["annotations"]
    loop = Controlled()
    for attempt in range(1, 6):
        pods = [make_launcher(number, phase="Failed", code=1, until=10 * number + 5) for number in range(1, attempt + 1)]
        assert loop.run_round(make_job(foreign, [*make_workers(), *pods]), 10 * attempt + 6) == []
    assert loop["failures"] == 5


def test_foreign_job_record_has_size_but_no_pool() -> None:
    foreign = make_main_object()
    del foreign["metadata"]["annotations"]
    loop = Controlled()
    loop.run_round(make_job(foreign, []), 1)
    assert (loop["size"], loop["pool"], loop["launcher"]) == (2, "", "mpijob")


# --- restarts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mpijob", "standalone"])
def test_a_job_ends_after_its_last_restart(kind: str) -> None:
    loop = Controlled()
    root = make_main_object(kind, {"maxRestarts": 1})
    failure = make_launcher(1, phase="Failed", code=1, until=12)
    assert loop.run_round(make_job(root, [*make_workers(), failure]), 13) == []
    assert loop["phase"] == "Restarting"
    two = make_launcher(2, phase="Failed", code=1, until=24)
    (action,) = loop.run_round(make_job(root, [*make_workers(), failure, two]), 25)
    message = "the job failed 2 times, the last time with train-launcher-2: exit code 1; maxRestarts is 1"
    assert action == FailJob("mpi-jobs", "train-launcher", "MaxRestartsExceeded", message, was_started=False)
    assert loop["verdict"]["reason"] == "MaxRestartsExceeded"


def test_failure_verdict_waits_until_nodes_are_known_to_be_alive() -> None:
    loop = Controlled()
    managed = make_job(
        make_main_object(policy={"maxRestarts": 0}), [*make_workers(), make_launcher(1, phase="Failed", code=1, until=12)]
    )
    assert loop.run_round(managed, 13, alive=False) == []
    assert len(loop.run_round(managed, 22)) == 1


def test_failure_verdict_waits_no_longer_than_kubernetes_needs_to_detect_a_lost_node() -> None:
    loop = Controlled()
    managed = make_job(
        make_main_object(policy={"maxRestarts": 0}), [*make_workers(), make_launcher(1, phase="Failed", code=1, until=12)]
    )
    assert loop.run_round(managed, 100, alive=False) == []
    assert len(loop.run_round(managed, 110, alive=False)) == 1


@pytest.mark.parametrize("kind", ["mpijob", "standalone"])
def test_lost_node_does_not_count_as_failure(kind: str) -> None:
    loop = Controlled()
    root = make_main_object(kind, {"maxRestarts": 0})
    running = [*make_workers(), make_launcher()]
    loop.run_round(make_job(root, running), 30)
    failed = [*make_workers(), make_launcher(phase="Failed", code=1, until=40)]
    (deleted,) = loop.run_round(make_job(root, failed, lost="two"), 41)
    assert isinstance(deleted, DeletePod) and deleted.name == "train-worker-1", "the next attempt needs another one"
    assert loop.outcomes == [("Disrupted", "train-worker-1: its node two is not ready")]
    assert (loop["failures"], loop["disruptions"]) == (0, 1)


@pytest.mark.parametrize("kind", ["mpijob", "standalone", "torchrun"])
@pytest.mark.parametrize("left", [[], [1]])
def test_worker_evicted_for_a_spot_rebalance_does_not_count_as_failure(kind: str, left: list[int]) -> None:
    """EKS evicts the pods of a healthy node without a notice or a fault. The pod may be gone before the controller sees it."""
    loop = Controlled()
    root = make_main_object(kind, {"maxRestarts": 0})
    ranks = [make_launcher()] if kind != "torchrun" else []
    loop.run_round(make_job(root, [*make_workers(), *ranks]), 30)
    stays, evicted = (
        make_workers()[0],
        make_workers(phase="Failed", code=143, until=40, target="EvictionByEvictionAPI", deleting=True)[1],
    )
    failed = [make_launcher(phase="Failed", code=1, until=41)] if ranks else []
    loop.run_round(make_job(root, [stays, *(evicted for _ in left), *failed]), 42)
    assert (loop["failures"], loop["disruptions"]) == (0, 1)
    assert "verdict" not in loop.record


def test_failure_is_discounted_if_a_lost_node_is_noticed_later() -> None:
    loop = Controlled()
    failed = [*make_workers(), make_launcher(phase="Failed", code=1, until=40)]
    assert loop.run_round(make_job(make_main_object(), failed), 41) == []
    assert loop["failures"] == 1
    loop.run_round(make_job(make_main_object(), failed, lost="two"), 80)
    assert (loop["failures"], loop["disruptions"]) == (0, 1)


@pytest.mark.parametrize("how", ["not ready", "removed with its pod"])
def test_node_may_be_noticed_as_lost_during_the_next_attempt(how: str) -> None:
    """Kubernetes retries a failed attempt after 10 seconds, but notices a lost node only after 50 seconds."""
    loop = Controlled()
    root, first = make_main_object(policy={"maxRestarts": 0}), make_launcher(phase="Failed", code=1, until=40)
    loop.run_round(make_job(root, [*make_workers(), make_launcher()]), 30)
    assert loop.run_round(make_job(root, [*make_workers(), first]), 41, alive=False) == []
    again = [*make_workers(), first, make_launcher(5)]
    assert loop.run_round(make_job(root, again), 55, alive=False) == []
    later = make_job(root, again, lost="two") if how == "not ready" else make_job(root, [again[0], *again[2:]])
    ended = [action.name for action in loop.run_round(later, 101, alive=False) if isinstance(action, DeletePod)]
    assert ended == (["train-launcher-5", "train-worker-1"] if how == "not ready" else [])
    assert (loop["failures"], loop["attempts"][0]["outcome"]) == (0, "Disrupted")


@pytest.mark.parametrize("kind", ["mpijob", "standalone"])
@pytest.mark.parametrize("how", ["not ready", "gone"])
def test_worker_with_silent_kubelet_ends_the_attempt_even_if_ranks_run(kind: str, how: str) -> None:
    """The lost node keeps running its containers. If the attempt continued, Kubernetes would replace the worker, but nothing
    could end the old ranks.
    """
    loop = Controlled()
    root, pods = make_main_object(kind, {"maxRestarts": 0}), [*make_workers(), make_launcher()]
    loop.run_round(make_job(root, pods), 30)
    lost = make_job(root, pods, lost="two")
    if how == "gone":
        lost = replace(lost, nodes={name: node for name, node in lost.nodes.items() if name != "two"})
    actions = loop.run_round(lost, 90)
    assert [(action.name, action.seconds) for action in actions if isinstance(action, DeletePod)] == [
        ("train-launcher-1", None),
        ("train-worker-1", None),
    ], "the ranks on the other node get their time to save"
    why = "is gone" if how == "gone" else "is not ready"
    assert loop.outcomes == [("Disrupted", f"train-worker-1: its node two {why}")]
    again = [pods[0], make_workers(since=100, uid="new")[1], make_launcher(11)]
    assert loop.run_round(make_job(root, again), 130) == []
    assert (loop["failures"], loop["disruptions"], loop["restarts"]) == (0, 1, 1)


def test_launcher_with_silent_kubelet_ends_with_all_its_workers() -> None:
    """The launcher's mpirun may still be running, and the next mpirun would start a second copy of each rank."""
    loop = Controlled()
    pods = [*make_workers(), make_launcher(node="three")]
    loop.run_round(make_job(make_main_object(), pods), 30)
    names = [
        action.name
        for action in loop.run_round(make_job(make_main_object(), pods, lost="three"), 90)
        if isinstance(action, DeletePod)
    ]
    assert names == ["train-launcher-1", "train-worker-0", "train-worker-1"]


@pytest.mark.parametrize("why", ["PreemptionByScheduler", "EvictionByEvictionAPI", "DeletionByTaintManager"])
def test_preemption_drain_and_taints_do_not_count_as_failures(why: str) -> None:
    loop = Controlled()
    root = make_main_object(policy={"maxRestarts": 0})
    loop.run_round(make_job(root, [*make_workers(), make_launcher()]), 30)
    first, second = make_workers(target=why, deleting=True)
    assert loop.run_round(make_job(root, [first, second, make_launcher(phase="Failed", code=143, until=40)]), 41) == []
    assert loop.outcomes == [("Disrupted", f"train-worker-0: {why}")]


def test_replaced_worker_explains_the_launcher_failure() -> None:
    loop = Controlled()
    loop.run_round(make_job(make_main_object(), [*make_workers(), make_launcher()]), 30)
    first, second = make_workers()
    second["metadata"]["uid"] = "uid-of-the-replacement"
    loop.run_round(make_job(make_main_object(), [first, second, make_launcher(phase="Failed", code=1, until=40)]), 41)
    assert loop.outcomes == [("Disrupted", "train-worker-1 was deleted")]


def test_out_of_memory_worker_counts_as_failure_and_is_named() -> None:
    loop = Controlled()
    loop.run_round(make_job(make_main_object(), [*make_workers(), make_launcher()]), 30)
    first, second = make_workers()
    second["status"]["containerStatuses"][0]["lastState"] = {
        "terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": make_timestamp(38)}
    }
    loop.run_round(make_job(make_main_object(), [first, second, make_launcher(phase="Failed", code=1, until=40)]), 41)
    assert loop.outcomes == [("Failed", "train-worker-1: exit code 137 (OOMKilled)")]
    assert [exit["code"] for exit in loop["attempts"][0]["exits"]] == [137, 1]


@pytest.mark.parametrize("kind", ["mpijob", "standalone", "torchrun"])
def test_non_retryable_exit_code_ends_the_job_at_once(kind: str) -> None:
    loop = Controlled()
    root = make_main_object(kind, {"maxRestarts": 5, "noRetryExitCodes": [3]})
    pods = make_workers() if kind == "torchrun" else [*make_workers(), make_launcher()]
    failed = make_pod("train-worker-0", "worker", phase="Failed", code=3, until=40)
    pods[0 if kind == "torchrun" else 2] = failed if kind == "torchrun" else make_launcher(phase="Failed", code=3, until=40)
    (action,) = loop.run_round(make_job(root, pods), 41)
    assert isinstance(action, FailJob)
    assert action.reason == "ExitCodeNotRetried"
    assert action.message.endswith("ended with exit code 3, which noRetryExitCodes lists")


@pytest.mark.parametrize(("phase", "reason"), [("Failed", "Evicted"), ("Succeeded", "Terminated")])
def test_ended_mpijob_worker_is_deleted_for_replacement_by_the_operator(phase: str, reason: str) -> None:
    first, second = make_workers()
    ended = {**second, "status": {**second["status"], "phase": phase, "reason": reason}}
    loop = Controlled()
    assert loop.run_round(make_job(make_main_object(), [first, ended, make_launcher()]), 30) == [
        DeletePod("mpi-jobs", "train-worker-1", "uid-train-worker-1", 0)
    ]


def test_worker_that_failed_by_itself_counts_as_failure() -> None:
    loop = Controlled()
    loop.run_round(make_job(make_main_object(), [*make_workers(), make_launcher()]), 30)
    first, second = make_workers()
    failed = {**second, "status": {**second["status"], "phase": "Failed", "reason": "Evicted"}}
    loop.run_round(make_job(make_main_object(), [first, failed, make_launcher()]), 35)
    loop.run_round(make_job(make_main_object(), [first, make_launcher(phase="Failed", code=1, until=40)]), 41)
    assert loop.outcomes == [("Failed", "train-worker-1: Evicted")]


def test_deadline_of_standalone_job_starts_at_worker_admission() -> None:
    loop = Controlled()
    root = make_main_object("standalone", {"activeDeadlineSeconds": 60})
    waiting = [make_launcher(since=1), *make_workers(1)]
    assert loop.run_round(make_job(root, waiting), 100) == []
    running = [make_launcher(since=1), *make_workers(since=100)]
    assert loop.run_round(make_job(root, running), 160) == []
    (action,) = loop.run_round(make_job(root, running), 161)
    assert isinstance(action, FailJob)
    assert action.reason == "DeadlineExceeded"


def test_suspended_job_gets_no_failure_verdict() -> None:
    loop = Controlled()
    root = make_main_object(policy={"maxRestarts": 0})
    root["spec"]["runPolicy"] = {"suspend": True}
    assert loop.run_round(make_job(root, [make_launcher(phase="Failed", code=1, until=12)]), 100) == []


# --- records -----------------------------------------------------------------------------------------------------------


def test_record_round_trips_through_its_config_map() -> None:
    record = records.create_record("0123456789", "train", "mpi-jobs", make_timestamp(0))
    written = records.build_config_map(record)
    assert records.read_record(written) == record
    assert written["metadata"]["name"] == "train-record-01234567"
    assert written["metadata"]["labels"] == {"gpumpi.io/record": "train", "app.kubernetes.io/managed-by": "gpumpi"}


@pytest.mark.parametrize("data", [{}, {"record.json": "{"}, {"record.json": json.dumps({"version": 2})}, {"record.json": "[]"}])
def test_a_damaged_or_newer_record_is_not_read(data: dict[str, str]) -> None:
    assert records.read_record({"data": data}) is None


def test_fields_written_by_a_newer_controller_are_preserved() -> None:
    record = {**records.create_record("uid-train", "train", "mpi-jobs", make_timestamp(0)), "cost": {"total": 1}}
    assert reconcile.update_record(record, make_job(make_main_object(), []), make_timestamp(5))["cost"] == {"total": 1}


def test_the_record_of_the_largest_job_fits_into_a_config_map() -> None:
    loop = Controlled()
    for second in range(10, 210, 10):
        pods = [make_pod(f"train-worker-{number}", "worker", uid=f"{second:036}{number}", since=second) for number in range(512)]
        loop.run_round(make_job(make_main_object(), [*pods, make_launcher(second // 10)]), second + 5)
        loop.run_round(
            make_job(make_main_object(), [*pods, make_launcher(second // 10, phase="Failed", code=1, until=second + 7)]),
            second + 8,
        )
    assert loop.record is not None
    assert len(records.build_config_map(loop.record)["data"][RECORD_KEY]) < 2**20
