"""When the provider considers Deployments, DaemonSets, StatefulSets and Jobs ready, and the message if they are not."""

from typing import Any

import pytest

from localcloud.engine.kubernetes.failures import InitializationFailed
from testkit.control_plane import Objects
from testkit.waiting import wait_until
from tests.engine.kubernetes.waits_world import (
    DEPLOYMENT,
    POD_SPEC,
    TRUE_FOR_READY,
    Maker,
    make_pod,
    make_replica_set,
    owner_reference,
    set_deployment_status,
)


def test_a_deployment_is_ready_when_its_replica_set_is_ready(maker: Maker, objects: Objects) -> None:
    creation = maker.create("apps/v1", "Deployment", **DEPLOYMENT)
    wait_until(lambda: objects.get("apps/v1/deployments", "web"))
    make_replica_set(objects, ready=0)
    set_deployment_status(objects, "True")
    with pytest.raises(TimeoutError):
        creation.result(1.0)
    objects.set_status("apps/v1/replicasets", "web-1", readyReplicas=1)
    assert creation.result(30).id == f"{objects.namespace}/web"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}
                ]
            },
            "[Pod {}/web-pod]: 0/3 nodes are available",
        ),
        (
            {
                "conditions": [
                    *TRUE_FOR_READY[:2],
                    {
                        "type": "Ready",
                        "status": "False",
                        "reason": "ContainersNotReady",
                        "message": "containers with unready status: [main]",
                    },
                ],
                "containerStatuses": [
                    {
                        "name": "main",
                        "image": "web",
                        "imageID": "",
                        "ready": False,
                        "restartCount": 0,
                        "state": {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "web"'}},
                    }
                ],
            },
            '[Pod {}/web-pod]: containers with unready status: [main][ImagePullBackOff] Back-off pulling image "web"',
        ),
        (
            {
                "conditions": [*TRUE_FOR_READY[:2], {"type": "Ready", "status": "False"}],
                "containerStatuses": [
                    {
                        "name": "main",
                        "image": "web",
                        "imageID": "",
                        "ready": False,
                        "restartCount": 3,
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
                        "lastState": {"terminated": {"exitCode": 7, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}},
                    }
                ],
            },
            "[Pod {}/web-pod]: [CrashLoopBackOff] back-off 40s\n"
            'container "main" terminated at 2026-01-01T00:00:00Z (Error: exit code 7)',
        ),
    ],
    ids=["unschedulable", "no image", "crashing"],
)
def test_a_failing_deployment_shows_the_errors_of_its_pods(
    maker: Maker, objects: Objects, status: dict[str, Any], reason: str
) -> None:
    creation = maker.create("apps/v1", "Deployment", **DEPLOYMENT)
    wait_until(lambda: objects.get("apps/v1/deployments", "web"))
    make_replica_set(objects, ready=0)
    make_pod(objects, owner_reference(objects, "apps/v1/replicasets", "ReplicaSet", "web-1"), **status)
    set_deployment_status(objects, "False")
    maker.gone.set()  # cancel instead of waiting for a timeout, which would report the same reasons
    with pytest.raises(InitializationFailed) as failure:
        creation.result(30)
    assert failure.value.reasons == [
        'resource "urn:pulumi:dev::tiny::kubernetes::web" was successfully created, but the Kubernetes API server reported '
        'that it failed to fully initialize or become live: Resource operation was cancelled for "web"',
        "[MinimumReplicas] so many replicas",
        "Minimum number of live Pods was not attained",
        reason.format(objects.namespace),
    ]


def test_a_deployment_is_not_ready_while_only_the_old_revision_is_ready(maker: Maker, objects: Objects) -> None:
    creation = maker.create("apps/v1", "Deployment", **DEPLOYMENT)
    wait_until(lambda: objects.get("apps/v1/deployments", "web"))
    make_replica_set(objects, ready=1, revision="1")
    make_replica_set(objects, ready=0, revision="2")
    set_deployment_status(objects, "True", replicas=2, readyReplicas=1)
    with pytest.raises(TimeoutError):
        creation.result(1.5)
    objects.set_status("apps/v1/replicasets", "web-2", readyReplicas=1)
    creation.result(30)


def test_a_daemon_set_is_ready_when_it_runs_on_every_desired_node(maker: Maker, objects: Objects) -> None:
    creation = maker.create("apps/v1", "DaemonSet", **DEPLOYMENT)
    wait_until(lambda: objects.get("apps/v1/daemonsets", "web"))
    counts = dict.fromkeys(("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable"), 2)
    status = {"observedGeneration": 1, "desiredNumberScheduled": 2, "numberMisscheduled": 0, **counts}
    objects.set_status("apps/v1/daemonsets", "web", numberReady=1, **status)
    with pytest.raises(TimeoutError):
        creation.result(0.5)
    objects.set_status("apps/v1/daemonsets", "web", numberReady=2)
    creation.result(30)


def test_a_daemon_set_without_nodes_is_ready(maker: Maker, objects: Objects) -> None:
    creation = maker.create("apps/v1", "DaemonSet", **DEPLOYMENT)
    wait_until(lambda: objects.get("apps/v1/daemonsets", "web"))
    nothing = {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}
    objects.set_status("apps/v1/daemonsets", "web", observedGeneration=1, **nothing)
    creation.result(30)


def test_a_stateful_set_is_ready_when_all_pods_have_the_new_revision(maker: Maker, objects: Objects) -> None:
    creation = maker.create("apps/v1", "StatefulSet", spec={"serviceName": "web", "replicas": 2, **DEPLOYMENT["spec"]})
    wait_until(lambda: objects.get("apps/v1/statefulsets", "web"))
    counts = dict.fromkeys(("replicas", "readyReplicas", "currentReplicas"), 2)
    objects.set_status("apps/v1/statefulsets", "web", observedGeneration=1, currentRevision="a", updateRevision="b", **counts)
    with pytest.raises(TimeoutError):
        creation.result(0.5)
    objects.set_status("apps/v1/statefulsets", "web", currentRevision="b")
    creation.result(30)


def test_the_error_for_an_unready_stateful_set_counts_its_replicas(maker: Maker) -> None:
    reasons = maker.collect_unready_reasons(
        "apps/v1", "StatefulSet", spec={"serviceName": "web", "replicas": 2, **DEPLOYMENT["spec"]}
    )
    assert "0 out of 2 replicas succeeded readiness checks" in reasons


JOB = {"spec": {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}}


def test_a_job_is_ready_when_it_is_complete(maker: Maker, objects: Objects) -> None:
    creation = maker.create("batch/v1", "Job", **JOB)
    wait_until(lambda: objects.get("batch/v1/jobs", "web"))
    objects.set_status("batch/v1/jobs", "web", startTime="2026-01-01T00:00:00Z", active=1)
    with pytest.raises(TimeoutError):
        creation.result(0.5)
    conditions = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
    done = {"active": 0, "succeeded": 1, "completionTime": "2026-01-01T00:00:05Z", "conditions": conditions}
    objects.set_status("batch/v1/jobs", "web", **done)
    creation.result(30)


def test_a_failed_job_ends_the_wait_with_its_reason(maker: Maker, objects: Objects) -> None:
    creation = maker.create("batch/v1", "Job", **JOB)
    wait_until(lambda: objects.get("batch/v1/jobs", "web"))
    why = {"reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}
    conditions = [{"type": kind, "status": "True", **why} for kind in ("FailureTarget", "Failed")]
    objects.set_status("batch/v1/jobs", "web", startTime="2026-01-01T00:00:00Z", failed=7, conditions=conditions)
    with pytest.raises(InitializationFailed) as failure:
        creation.result(30)
    assert failure.value.reasons[1:] == ["[BackoffLimitExceeded] Job has reached the specified backoff limit"]
