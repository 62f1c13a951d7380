"""States of other operators' jobs, as shown by `jobs`, `status` and `logs`."""

from typing import Any

import pytest

from cli.jobs import foreign_jobs
from cli.jobs.follow_log import select_log_pods
from cli.jobs.state import derive_foreign_state, explain_stuck_job, explain_waiting_job

CREATED = "2026-11-21T10:00:00Z"
END = "2026-11-21T10:01:00Z"


def make_status(kind: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True", "message": f"{kind}!", "lastTransitionTime": END}]}


def make_job(kind: str, spec: dict[str, Any], status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    about = {"name": "a", "namespace": "foreign", "creationTimestamp": CREATED, **metadata}
    return {"kind": kind, "metadata": about, "spec": spec, "status": status or {}}


PYTORCH = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}}
TRAIN = {"trainer": {"numNodes": 4}}
JOB_SET = {
    "replicatedJobs": [
        {"name": "launcher", "template": {"spec": {}}},
        {"name": "node", "replicas": 1, "template": {"spec": {"parallelism": 3}}},
    ]
}
RAY = {"rayClusterSpec": {"workerGroupSpecs": [{"replicas": 3}]}}
READY = [{"name": "node", "ready": 1}]

PHASES = [
    (make_job("PyTorchJob", PYTORCH), "Starting"),
    (make_job("PyTorchJob", {**PYTORCH, "runPolicy": {"suspend": True}}), "Queued"),
    (make_job("PyTorchJob", PYTORCH, make_status("Running")), "Running"),
    (make_job("PyTorchJob", PYTORCH, {**make_status("Succeeded"), "completionTime": END}), "Succeeded"),
    (make_job("PyTorchJob", PYTORCH, make_status("Failed")), "Failed"),
    (make_job("TrainJob", TRAIN), "Starting"),
    (make_job("TrainJob", {**TRAIN, "suspend": True}), "Queued"),
    (make_job("TrainJob", TRAIN, {"jobsStatus": [{"name": "node", "ready": 0, "active": 1}]}), "Starting"),
    (make_job("TrainJob", TRAIN, {"jobsStatus": READY}), "Running"),
    (make_job("TrainJob", TRAIN, make_status("Complete")), "Succeeded"),
    (make_job("TrainJob", TRAIN, make_status("Failed")), "Failed"),
    (make_job("JobSet", JOB_SET, {"replicatedJobsStatus": READY}), "Running"),
    (make_job("JobSet", JOB_SET, {"replicatedJobsStatus": [*READY, {"name": "launcher", "ready": 0}]}), "Starting"),
    (make_job("JobSet", JOB_SET, make_status("Completed")), "Succeeded"),
    (make_job("RayJob", RAY, {"jobDeploymentStatus": "Initializing"}), "Starting"),
    (make_job("RayJob", RAY, {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}), "Running"),
    (make_job("RayJob", RAY, {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "endTime": END}), "Succeeded"),
    (make_job("RayJob", RAY, {"jobDeploymentStatus": "Complete", "jobStatus": "FAILED", "message": "Failed!"}), "Failed"),
]


@pytest.mark.parametrize(("job", "phase"), PHASES, ids=[f"{spec['kind']}-{number}" for number, (spec, _) in enumerate(PHASES)])
def test_every_job_kind_maps_to_our_phases(job: dict[str, Any], phase: str) -> None:
    state = derive_foreign_state(job)
    assert (state.phase, state.workers, state.launcher) == (phase, 4, job["kind"].lower())
    assert state.reason == ("Failed!" if phase == "Failed" else "")
    assert (state.ended is not None) == ((state.is_over and job["kind"] != "RayJob") or "endTime" in job["status"])


@pytest.mark.parametrize(
    ("metadata", "foreign"),
    [
        ({}, True),
        ({"ownerReferences": [{"kind": "TrainJob", "name": "a", "controller": True}]}, False),
        ({"ownerReferences": [{"kind": "ConfigMap", "name": "a"}]}, True),
        ({"labels": {"gpumpi.io/job": "a"}}, False),
    ],
    ids=["alone", "part of a TrainJob", "with an owner that does not control it", "from submit"],
)
def test_child_objects_of_other_jobs_are_not_listed_as_jobs(metadata: dict[str, Any], foreign: bool) -> None:
    assert foreign_jobs.is_foreign(make_job("JobSet", JOB_SET, **metadata)) == foreign


def make_pod(name: str, labels: dict[str, str], index: str | None = None, **status: Any) -> dict[str, Any]:
    annotations = {} if index is None else {"batch.kubernetes.io/job-completion-index": index}
    metadata = {"name": name, "labels": labels, "annotations": annotations, "creationTimestamp": CREATED}
    return {"metadata": metadata, "spec": {}, "status": status}


PYTORCH_LABELS = {"training.kubeflow.org/job-name": "a", "training.kubeflow.org/replica-index": "0"}
JOB_SET_LABELS = {"jobset.sigs.k8s.io/jobset-name": "a", "batch.kubernetes.io/job-name": "a-node-0"}
NODE = {**JOB_SET_LABELS, "jobset.sigs.k8s.io/replicatedjob-name": "node", "jobset.sigs.k8s.io/job-index": "0"}
PODS = {
    "PyTorchJob": (
        PYTORCH,
        [
            make_pod("a-worker-0", {**PYTORCH_LABELS, "training.kubeflow.org/replica-type": "worker"}),
            make_pod(
                "a-master-0",
                {
                    **PYTORCH_LABELS,
                    "training.kubeflow.org/replica-type": "master",
                    "training.kubeflow.org/job-role": "master",
                },
            ),
        ],
        "a-master-0",
    ),
    "TrainJob": (TRAIN, [make_pod("a-node-0-1", NODE, "1"), make_pod("a-node-0-0", NODE, "0")], "a-node-0-0"),
    "JobSet": (
        JOB_SET,
        [
            make_pod("a-node-0-0", NODE, "0"),
            make_pod("a-launcher-0-0", {**JOB_SET_LABELS, "jobset.sigs.k8s.io/replicatedjob-name": "launcher"}, "0"),
        ],
        "a-launcher-0-0",
    ),
    "Job": ({"template": {"spec": {}}}, [make_pod("a-x", {"batch.kubernetes.io/job-name": "a"})], "a-x"),
}


@pytest.mark.parametrize("kind", PODS)
def test_job_log_comes_from_the_first_rank(kind: str) -> None:
    spec, pods, first = PODS[kind]
    state = derive_foreign_state(make_job(kind, spec))
    assert {foreign_jobs.get_job_name(pod) for pod in pods} == {"a"} and {foreign_jobs.get_pod_role(pod) for pod in pods} == {
        "worker"
    }
    assert [pod["metadata"]["name"] for pod in select_log_pods(pods, state)] == [first]


def test_pod_rejection_of_a_job_set_is_read_from_its_jobs() -> None:
    refused = {
        "involvedObject": {"kind": "Job", "name": "a-node-0"},
        "type": "Warning",
        "reason": "FailedCreate",
        "message": 'pods "a-node-0-0-x" is forbidden: violates PodSecurity "restricted:v1.35"',
        "lastTimestamp": END,
        "metadata": {},
    }
    state = derive_foreign_state(make_job("TrainJob", TRAIN))
    assert explain_waiting_job(state, [], None, [refused]).startswith("0 of 4 workers ready: Job a-node-0: FailedCreate: pods ")
    assert "violates PodSecurity" in explain_stuck_job(state, [], [refused])
    other = {**refused, "involvedObject": {"kind": "Job", "name": "b-node-0"}}
    assert explain_stuck_job(state, [], [other]) == ""


def test_image_pull_failure_is_the_reported_reason() -> None:
    waiting = {"state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}
    state = derive_foreign_state(make_job("PyTorchJob", PYTORCH))
    bad = make_pod("a-worker-0", {**PYTORCH_LABELS, "training.kubeflow.org/replica-type": "worker"}, containerStatuses=[waiting])
    assert explain_stuck_job(state, [bad], []) == "a-worker-0: ErrImagePull: not found"
