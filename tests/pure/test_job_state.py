"""A job's state, derived from its Kubernetes objects."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli.durations import format_duration
from cli.jobs.records import JobRecord
from cli.jobs.state import (
    JobState,
    derive_state,
    explain_kueue_stop,
    explain_stuck_job,
    explain_unusable_image,
    explain_waiting_job,
    needs_events,
)
from cli.jobs.submit import describe_result
from infra.jobs.in_pods import UNUSABLE_IMAGE
from infra.platform.job_controller.in_pod.job import ManagedJob

CREATED = "2026-11-21T10:00:00Z"
BEGIN = datetime(2026, 11, 21, 10, tzinfo=UTC)


def make_mpi_job(*conditions: tuple[str, str], suspend: bool = False, **status: Any) -> dict[str, Any]:
    worker = {"replicas": 2, "template": {"spec": {"nodeSelector": {"gpumpi.io/pool": "train"}}}}
    return {
        "kind": "MPIJob",
        "metadata": {"name": "a", "namespace": "mpi-jobs", "creationTimestamp": CREATED},
        "spec": {"runPolicy": {"suspend": suspend}, "mpiReplicaSpecs": {"Worker": worker}},
        "status": {
            "conditions": [{"type": kind, "status": is_so, "message": f"{kind}!"} for kind, is_so in conditions],
            **status,
        },
    }


def make_batch_job(*conditions: tuple[str, str], spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    labels = {"gpumpi.io/job": "a", "gpumpi.io/launcher": "standalone", "gpumpi.io/role": "job"}
    end = "2026-11-21T10:01:00Z"
    entries = [{"type": kind, "status": is_so, "message": f"{kind}!", "lastTransitionTime": end} for kind, is_so in conditions]
    return {
        "kind": "Job",
        "metadata": {"name": "a-launcher", "namespace": "mpi-jobs", "labels": labels, "creationTimestamp": CREATED},
        "spec": {"template": {"spec": {}}, **(spec or {})},
        "status": {"conditions": entries, **status},
    }


def make_pod(name: str, role: str, *, ready: bool = False, since: str = "", **status: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}, *status.pop("conditions", [])]
    if since:
        status["containerStatuses"] = [{"name": role, "state": {"running": {"startedAt": since}}}]
    about = {"name": name, "uid": f"uid-{name}", "creationTimestamp": CREATED, "labels": {"gpumpi.io/role": role}}
    return {"metadata": about, "status": {"conditions": conditions, **status}}


def derive_job_state(main: dict[str, Any], *pods: dict[str, Any], **more: Any) -> JobState:
    return derive_state(ManagedJob(main, pods, **more))


LAUNCHER = make_pod("a-launcher-x", "launcher", since=CREATED)
WORKERS = [make_pod(f"a-worker-{index}", "worker", ready=True, since=CREATED) for index in range(2)]
FAILED = {**make_pod("a-launcher-w", "launcher", since=CREATED), "status": {"phase": "Failed"}}
SETUP = {"metadata": {"name": "a-setup"}, "status": {}}
INDEXED = {"completionMode": "Indexed", "completions": 2}

PHASES = [
    (make_mpi_job(), [], "Starting"),
    (make_mpi_job(("Created", "True"), ("Suspended", "True"), suspend=True), [], "Queued"),
    (make_mpi_job(("Running", "True")), [LAUNCHER, WORKERS[0]], "Starting"),
    (make_mpi_job(), [LAUNCHER, *WORKERS], "Running"),
    (make_mpi_job(), [FAILED, *WORKERS], "Restarting"),
    (make_mpi_job(replicaStatuses={"Launcher": {"failed": 1}}), WORKERS, "Restarting"),
    (make_mpi_job(("Running", "False"), ("Succeeded", "True"), completionTime="2026-11-21T10:00:30Z"), [], "Succeeded"),
    (make_mpi_job(("Running", "False"), ("Failed", "True"), completionTime="2026-11-21T10:00:30Z"), [], "Failed"),
    (make_batch_job(active=1, ready=1), [LAUNCHER], "Running"),
    (make_batch_job(spec={"suspend": True}), [], "Queued"),
    (make_batch_job(("SuccessCriteriaMet", "True"), active=1), [], "Starting"),
    (make_batch_job(spec=INDEXED), WORKERS[:1], "Starting"),
    (make_batch_job(spec=INDEXED), WORKERS, "Running"),
    (make_batch_job(("Complete", "True"), completionTime="2026-11-21T10:00:30Z"), [], "Succeeded"),
    (make_batch_job(("FailureTarget", "True"), ("Failed", "True"), failed=3), [], "Failed"),
]


@pytest.mark.parametrize(("main", "pods", "phase"), PHASES, ids=[str(index) for index in range(len(PHASES))])
def test_job_phase_is_derived_from_its_objects(main: dict[str, Any], pods: list[dict[str, Any]], phase: str) -> None:
    assert derive_job_state(main, *pods).phase == phase


def test_jobs_command_shows_the_phase_recorded_by_the_controller() -> None:
    hung = {"outcome": "Failed", "pods": {WORKERS[0]["metadata"]["uid"]: ""}}
    record = JobRecord("", {"attempts": [hung]})
    assert derive_state(ManagedJob(make_batch_job(spec=INDEXED), WORKERS), record).phase == "Restarting", "its pods still end"


def test_a_job_is_in_setup_until_setup_ends() -> None:
    assert derive_job_state(make_mpi_job(suspend=True), setup=SETUP).phase == "Setup"
    done = {**SETUP, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert derive_job_state(make_mpi_job(suspend=True), setup=done).phase == "Queued"


def test_deletion_ends_an_unfinished_job() -> None:
    for main, phase in ((make_mpi_job(("Running", "True")), "Ending"), (make_batch_job(("Complete", "True")), "Succeeded")):
        main["metadata"]["deletionTimestamp"] = CREATED
        assert derive_job_state(main).phase == phase


def test_job_is_listed_by_its_own_name_instead_of_its_launchers() -> None:
    state = derive_job_state(make_batch_job())
    assert (state.name, state.object_name, state.launcher) == ("a", "a-launcher", "standalone")


def test_job_state_reports_pool_and_worker_count() -> None:
    state = derive_job_state(make_mpi_job())
    assert (state.pool, state.workers) == ("train", 2)
    spec = {"completionMode": "Indexed", "completions": 3, "template": {"spec": {"nodeSelector": {"gpumpi.io/pool": "p"}}}}
    state = derive_job_state(make_batch_job(spec=spec))
    assert (state.pool, state.workers) == ("p", 3)


def test_result_shows_duration_and_reason() -> None:
    good = derive_job_state(make_mpi_job(("Succeeded", "True"), completionTime="2026-11-21T10:00:30Z"))
    assert describe_result(good) == "job a succeeded in 30 s"
    again = derive_job_state(
        make_mpi_job(("Succeeded", "True"), completionTime="2026-11-21T10:00:30Z", replicaStatuses={"Launcher": {"failed": 1}})
    )
    assert describe_result(again) == "job a succeeded in 30 s, after 1 failed attempt"
    failed = describe_result(derive_job_state(make_batch_job(("Failed", "True"))))
    assert failed == "job a failed in 60 s: Failed!; see its log: scripts/cluster logs a"


def test_duration_of_a_running_job_is_measured_until_now() -> None:
    assert derive_job_state(make_mpi_job(("Running", "True"))).seconds(BEGIN + timedelta(seconds=7)) == 7


def test_durations_are_formatted_briefly() -> None:
    assert [format_duration(seconds) for seconds in (0, 59, 60, 3661)] == ["0s", "59s", "1m0s", "1h1m"]


# --- waiting -----------------------------------------------------------------------------------------------------------


def test_queued_job_shows_the_reason_from_the_queue() -> None:
    workload = {"status": {"conditions": [{"type": "QuotaReserved", "status": "False", "message": "insufficient quota"}]}}
    state = derive_job_state(make_mpi_job(suspend=True))
    assert explain_waiting_job(state, [], workload) == "waits in the queue: insufficient quota"
    assert explain_waiting_job(state, [], None) == "waits in the queue"


def test_workers_without_a_node_or_image_are_named() -> None:
    state = derive_job_state(make_mpi_job())
    unplaced = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}
    pods = [make_pod("a-worker-0", "worker", ready=True), make_pod("a-worker-1", "worker", conditions=[unplaced])]
    expected = "1 of 2 workers ready: a-worker-1 has no node: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    assert explain_waiting_job(state, pods, None) == expected
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "not\nfound"}}
    pods = [make_pod("a-worker-0", "worker", containerStatuses=[{"state": waiting}])]
    assert explain_waiting_job(state, pods, None) == "0 of 2 workers ready: a-worker-0: ErrImagePull: not found"


@pytest.mark.parametrize("when", ["state", "lastState"])
def test_worker_with_an_unusable_image_reports_the_missing_program(when: str) -> None:
    ended = {"exitCode": UNUSABLE_IMAGE, "message": "the image has no ssh\n"}
    again = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, when: {"terminated": ended}}
    pods = [make_pod("a-worker-0", "worker", ready=True), make_pod("a-worker-1", "worker", containerStatuses=[again])]
    assert explain_unusable_image(pods) == "a-worker-1: the image has no ssh"
    assert (
        explain_waiting_job(derive_job_state(make_mpi_job()), pods, None)
        == "1 of 2 workers ready: a-worker-1: the image has no ssh"
    )


def test_program_failure_is_not_blamed_on_the_image() -> None:
    ended = {"lastState": {"terminated": {"exitCode": 1, "message": "no data"}}}
    assert explain_unusable_image([make_pod("a-worker-0", "worker", containerStatuses=[ended])]) == ""


def test_containers_being_created_are_not_reported_as_a_problem() -> None:
    state = derive_job_state(make_mpi_job())
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    assert (
        explain_waiting_job(state, [make_pod("a-worker-0", "worker", containerStatuses=[{"state": waiting}])], None)
        == "0 of 2 workers ready"
    )


def test_pods_labeled_only_by_mpi_operator_are_recognized() -> None:
    own = make_pod("a-worker-0", "worker", ready=True)
    own["metadata"]["labels"] = {"training.kubeflow.org/job-role": "worker"}
    assert explain_waiting_job(derive_job_state(make_mpi_job()), [own], None) == "1 of 2 workers ready"


# --- jobs that cannot start --------------------------------------------------------------------------------------------


def make_event(about: str, reason: str, message: str, minute: int = 1) -> dict[str, Any]:
    involved = {"kind": "MPIJob", "name": about, "namespace": "mpi-jobs"}
    when = f"2026-11-21T10:{minute:02}:00Z"
    return {"type": "Warning", "involvedObject": involved, "reason": reason, "message": message, "lastTimestamp": when}


FORBIDDEN = 'pods "a-worker-0" is forbidden: violates PodSecurity "restricted:latest"'


def test_pods_refused_by_the_api_server_are_explained_by_events() -> None:
    state = derive_job_state(make_mpi_job())
    events = [
        make_event("a", "MPIJobFailed", "an older one", 1),
        make_event("a", "MPIJobFailed", f"worker pod created failed: {FORBIDDEN}", 2),
        make_event("another", "FailedCreate", "of another job", 3),
        make_event("a-worker-0", "Unhealthy", "Readiness probe failed", 4),
    ]
    assert needs_events(state, [])
    said = f"MPIJob a: MPIJobFailed: worker pod created failed: {FORBIDDEN}"
    assert explain_waiting_job(state, [], None, events) == f"0 of 2 workers ready: {said}"
    assert explain_stuck_job(state, [], events) == said
    complete = [make_pod("a-worker-0", "worker"), make_pod("a-worker-1", "worker"), make_pod("a-launcher-x", "launcher")]
    assert explain_stuck_job(state, complete, events) == "", "the pods exist now"
    former = make_event("a", "MPIJobFailed", "an event of a former job with this name")
    assert explain_waiting_job(state, [], None, [former | {"lastTimestamp": "2026-11-21T09:00:00Z"}]) == "0 of 2 workers ready"


@pytest.mark.parametrize(
    ("reason", "is_stuck"),
    [("ImagePullBackOff", True), ("CreateContainerConfigError", True), ("ContainerCreating", False), ("CrashLoopBackOff", False)],
)
def test_a_job_is_stuck_if_its_image_or_configuration_is_missing(reason: str, is_stuck: bool) -> None:
    state = derive_job_state(make_mpi_job())
    waiting = make_pod(
        "a-worker-0", "worker", containerStatuses=[{"state": {"waiting": {"reason": reason, "message": "no image"}}}]
    )
    assert explain_stuck_job(state, [waiting], []) == (f"a-worker-0: {reason}: no image" if is_stuck else "")


def test_job_stopped_by_the_queue_shows_the_reason() -> None:
    limit = "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
    evicted = {"type": "Evicted", "status": "True", "reason": "DeactivatedDueToRequeuingLimitExceeded", "message": limit}
    workload = {"spec": {"active": False}, "status": {"conditions": [evicted]}}
    state = derive_job_state(make_mpi_job(suspend=True))
    events = [make_event("a-worker-0", "Failed", "image x:1: not found"), make_event("b-worker-0", "Failed", "of another job", 2)]
    assert (
        explain_kueue_stop(state, workload, events)
        == f"the queue stopped it: {limit} (MPIJob a-worker-0: Failed: image x:1: not found)"
    )
    assert explain_kueue_stop(state, {**workload, "spec": {"active": True}}, events) == ""
