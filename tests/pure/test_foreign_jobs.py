"""States of other operators' jobs, as shown by `jobs`, `status` and `logs`."""

from typing import Any

import pytest

from cli.jobs import foreign_jobs
from cli.jobs.follow_log import log_pods
from cli.jobs.state import state_of, stuck, waits_for

CREATED = "2026-11-21T10:00:00Z"
END = "2026-11-21T10:01:00Z"


def condition(kind: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True", "message": f"{kind}!", "lastTransitionTime": END}]}


def found(kind: str, spec: dict[str, Any], status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
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
    (found("PyTorchJob", PYTORCH), "Starting"),
    (found("PyTorchJob", {**PYTORCH, "runPolicy": {"suspend": True}}), "Queued"),
    (found("PyTorchJob", PYTORCH, condition("Running")), "Running"),
    (found("PyTorchJob", PYTORCH, {**condition("Succeeded"), "completionTime": END}), "Succeeded"),
    (found("PyTorchJob", PYTORCH, condition("Failed")), "Failed"),
    (found("TrainJob", TRAIN), "Starting"),
    (found("TrainJob", {**TRAIN, "suspend": True}), "Queued"),
    (found("TrainJob", TRAIN, {"jobsStatus": [{"name": "node", "ready": 0, "active": 1}]}), "Starting"),
    (found("TrainJob", TRAIN, {"jobsStatus": READY}), "Running"),
    (found("TrainJob", TRAIN, condition("Complete")), "Succeeded"),
    (found("TrainJob", TRAIN, condition("Failed")), "Failed"),
    (found("JobSet", JOB_SET, {"replicatedJobsStatus": READY}), "Running"),
    (found("JobSet", JOB_SET, {"replicatedJobsStatus": [*READY, {"name": "launcher", "ready": 0}]}), "Starting"),
    (found("JobSet", JOB_SET, condition("Completed")), "Succeeded"),
    (found("RayJob", RAY, {"jobDeploymentStatus": "Initializing"}), "Starting"),
    (found("RayJob", RAY, {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}), "Running"),
    (found("RayJob", RAY, {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "endTime": END}), "Succeeded"),
    (found("RayJob", RAY, {"jobDeploymentStatus": "Complete", "jobStatus": "FAILED", "message": "Failed!"}), "Failed"),
]


@pytest.mark.parametrize(("job", "phase"), PHASES, ids=[f"{one['kind']}-{number}" for number, (one, _) in enumerate(PHASES)])
def test_every_kind_has_the_phases_of_our_jobs(job: dict[str, Any], phase: str) -> None:
    state = state_of(job)
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
def test_parts_of_other_jobs_are_no_jobs(metadata: dict[str, Any], foreign: bool) -> None:
    assert foreign_jobs.is_foreign(found("JobSet", JOB_SET, **metadata)) == foreign


def pod(name: str, labels: dict[str, str], index: str | None = None, **status: Any) -> dict[str, Any]:
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
            pod("a-worker-0", {**PYTORCH_LABELS, "training.kubeflow.org/replica-type": "worker"}),
            pod(
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
    "TrainJob": (TRAIN, [pod("a-node-0-1", NODE, "1"), pod("a-node-0-0", NODE, "0")], "a-node-0-0"),
    "JobSet": (
        JOB_SET,
        [
            pod("a-node-0-0", NODE, "0"),
            pod("a-launcher-0-0", {**JOB_SET_LABELS, "jobset.sigs.k8s.io/replicatedjob-name": "launcher"}, "0"),
        ],
        "a-launcher-0-0",
    ),
    "Job": ({"template": {"spec": {}}}, [pod("a-x", {"batch.kubernetes.io/job-name": "a"})], "a-x"),
}


@pytest.mark.parametrize("kind", PODS)
def test_the_log_is_that_of_the_first_rank(kind: str) -> None:
    spec, pods, first = PODS[kind]
    state = state_of(found(kind, spec))
    assert {foreign_jobs.job_of(one) for one in pods} == {"a"} and {foreign_jobs.role_of(one) for one in pods} == {"worker"}
    assert [one["metadata"]["name"] for one in log_pods(pods, state)] == [first]


def test_the_reason_why_pods_are_refused_comes_from_the_jobs_of_a_job_set() -> None:
    refused = {
        "involvedObject": {"kind": "Job", "name": "a-node-0"},
        "type": "Warning",
        "reason": "FailedCreate",
        "message": 'pods "a-node-0-0-x" is forbidden: violates PodSecurity "restricted:v1.35"',
        "lastTimestamp": END,
        "metadata": {},
    }
    state = state_of(found("TrainJob", TRAIN))
    assert waits_for(state, [], None, [refused]).startswith("0 of 4 workers ready: Job a-node-0: FailedCreate: pods ")
    assert "violates PodSecurity" in stuck(state, [], [refused])
    other = {**refused, "involvedObject": {"kind": "Job", "name": "b-node-0"}}
    assert stuck(state, [], [other]) == ""


def test_an_image_that_cannot_be_pulled_is_the_reason() -> None:
    waiting = {"state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}
    state = state_of(found("PyTorchJob", PYTORCH))
    bad = pod("a-worker-0", {**PYTORCH_LABELS, "training.kubeflow.org/replica-type": "worker"}, containerStatuses=[waiting])
    assert stuck(state, [bad], []) == "a-worker-0: ErrImagePull: not found"
