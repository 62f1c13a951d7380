"""When objects are ready, and what is told when they are not. What controllers and kubelets would write, the test writes."""

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from localcloud.engine.kubernetes import lifecycle
from localcloud.engine.kubernetes.cluster import Cluster
from localcloud.engine.kubernetes.engines import ResourceLog
from localcloud.engine.kubernetes.failures import InitializationFailed
from localcloud.engine.kubernetes.lifecycle import Outcome, Task
from localcloud.engine.kubernetes.tokens import Kind
from tests.engine.kubernetes.control_plane import Objects
from tests.engine.waiting import until

LABELS = {"app": "web"}
POD_SPEC = {"containers": [{"name": "main", "image": "web"}]}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD_SPEC}
TRUE_FOR_READY = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "Ready")]
NEVER_LONG = 1.0
"""Seconds, for what is not going to be ready."""


@dataclass
class Maker:
    """Creates objects in the background, as the engine would."""

    cluster: Cluster
    objects: Objects
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(4))
    gone: threading.Event = field(default_factory=threading.Event)

    def task(self, manifest: Mapping[str, Any]) -> Task:
        urn = f"urn:pulumi:dev::tiny::kubernetes::{manifest['metadata']['name']}"
        return Task(self.cluster, Kind.of(manifest), urn, ResourceLog(None, urn), self.gone.is_set)

    def create(self, api_version: str, kind: str, seconds: float = 60.0, **parts: Any) -> "Future[Outcome]":
        """An object `web` of a kind."""
        metadata = {"name": "web", "namespace": self.objects.namespace, **parts.pop("metadata", {})}
        manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}
        return self.pool.submit(lifecycle.create, self.task(manifest), manifest, {}, seconds)

    def reasons(self, api_version: str, kind: str, **parts: Any) -> list[str]:
        """Why an object did not become ready in time."""
        with pytest.raises(InitializationFailed) as failure:
            self.create(api_version, kind, NEVER_LONG, **parts).result(30)
        assert failure.value.state["kind"] == kind, "the object is kept in the state"
        return failure.value.reasons


@pytest.fixture
def maker(cluster: Cluster, objects: Objects) -> Iterator[Maker]:
    made = Maker(cluster, objects)
    yield made
    made.gone.set()
    made.pool.shutdown()


def owner(objects: Objects, resource: str, kind: str, name: str = "web") -> dict[str, Any]:
    live = objects.get(resource, name)
    return {"apiVersion": live["apiVersion"], "kind": kind, "name": name, "uid": live["metadata"]["uid"], "controller": True}


def make_pod(objects: Objects, belongs_to: dict[str, Any], **status: Any) -> None:
    metadata = {"name": "web-pod", "labels": LABELS, "ownerReferences": [belongs_to]}
    objects.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": POD_SPEC})
    objects.set_status("pods", "web-pod", **status)


def make_replica_set(objects: Objects, ready: int, revision: str = "1") -> None:
    reference = owner(objects, "apps/v1/deployments", "Deployment")
    annotations = {"deployment.kubernetes.io/revision": revision}
    name = f"web-{revision}"
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "labels": LABELS, "annotations": annotations, "ownerReferences": [reference]},
        "spec": {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": TEMPLATE},
    }
    objects.create("apps/v1/replicasets", manifest)
    objects.set_status("apps/v1/replicasets", name, replicas=1, readyReplicas=ready)
    objects.patch("apps/v1/deployments", "web", {"metadata": {"annotations": annotations}})


def deployment_status(objects: Objects, available: str, **more: Any) -> None:
    generation = objects.get("apps/v1/deployments", "web")["metadata"]["generation"]
    conditions = [
        {"type": "Available", "status": available, "reason": "MinimumReplicas", "message": "so many replicas"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "new"},
    ]
    objects.set_status("apps/v1/deployments", "web", observedGeneration=generation, conditions=conditions, **more)


DEPLOYMENT = {"spec": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}}


def test_a_deployment_is_ready_when_its_replica_set_is(maker: Maker, objects: Objects) -> None:
    made = maker.create("apps/v1", "Deployment", **DEPLOYMENT)
    until(lambda: objects.get("apps/v1/deployments", "web"))
    make_replica_set(objects, ready=0)
    deployment_status(objects, "True")
    with pytest.raises(TimeoutError):
        made.result(1.0)
    objects.set_status("apps/v1/replicasets", "web-1", readyReplicas=1)
    assert made.result(30).id == f"{objects.namespace}/web"


@pytest.mark.parametrize(
    ("status", "told"),
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
def test_a_deployment_that_does_not_come_up_tells_what_its_pods_say(
    maker: Maker, objects: Objects, status: dict[str, Any], told: str
) -> None:
    made = maker.create("apps/v1", "Deployment", **DEPLOYMENT)
    until(lambda: objects.get("apps/v1/deployments", "web"))
    make_replica_set(objects, ready=0)
    make_pod(objects, owner(objects, "apps/v1/replicasets", "ReplicaSet", "web-1"), **status)
    deployment_status(objects, "False")
    maker.gone.set()  # the same is told when patience ends
    with pytest.raises(InitializationFailed) as failure:
        made.result(30)
    assert failure.value.reasons == [
        'resource "urn:pulumi:dev::tiny::kubernetes::web" was successfully created, but the Kubernetes API server reported '
        'that it failed to fully initialize or become live: Resource operation was cancelled for "web"',
        "[MinimumReplicas] so many replicas",
        "Minimum number of live Pods was not attained",
        told.format(objects.namespace),
    ]


def test_a_deployment_is_not_ready_while_the_old_revision_still_is(maker: Maker, objects: Objects) -> None:
    made = maker.create("apps/v1", "Deployment", **DEPLOYMENT)
    until(lambda: objects.get("apps/v1/deployments", "web"))
    make_replica_set(objects, ready=1, revision="1")
    make_replica_set(objects, ready=0, revision="2")
    deployment_status(objects, "True", replicas=2, readyReplicas=1)
    with pytest.raises(TimeoutError):
        made.result(1.5)
    objects.set_status("apps/v1/replicasets", "web-2", readyReplicas=1)
    made.result(30)


def test_a_daemon_set_is_ready_on_every_node_that_it_wants(maker: Maker, objects: Objects) -> None:
    made = maker.create("apps/v1", "DaemonSet", **DEPLOYMENT)
    until(lambda: objects.get("apps/v1/daemonsets", "web"))
    counts = dict.fromkeys(("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable"), 2)
    status = {"observedGeneration": 1, "desiredNumberScheduled": 2, "numberMisscheduled": 0, **counts}
    objects.set_status("apps/v1/daemonsets", "web", numberReady=1, **status)
    with pytest.raises(TimeoutError):
        made.result(0.5)
    objects.set_status("apps/v1/daemonsets", "web", numberReady=2)
    made.result(30)


def test_a_daemon_set_without_nodes_is_ready(maker: Maker, objects: Objects) -> None:
    made = maker.create("apps/v1", "DaemonSet", **DEPLOYMENT)
    until(lambda: objects.get("apps/v1/daemonsets", "web"))
    nothing = {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}
    objects.set_status("apps/v1/daemonsets", "web", observedGeneration=1, **nothing)
    made.result(30)


def test_a_stateful_set_is_ready_when_all_pods_have_its_revision(maker: Maker, objects: Objects) -> None:
    made = maker.create("apps/v1", "StatefulSet", spec={"serviceName": "web", "replicas": 2, **DEPLOYMENT["spec"]})
    until(lambda: objects.get("apps/v1/statefulsets", "web"))
    counts = dict.fromkeys(("replicas", "readyReplicas", "currentReplicas"), 2)
    objects.set_status("apps/v1/statefulsets", "web", observedGeneration=1, currentRevision="a", updateRevision="b", **counts)
    with pytest.raises(TimeoutError):
        made.result(0.5)
    objects.set_status("apps/v1/statefulsets", "web", currentRevision="b")
    made.result(30)


def test_a_stateful_set_that_is_not_ready_counts_its_replicas(maker: Maker) -> None:
    reasons = maker.reasons("apps/v1", "StatefulSet", spec={"serviceName": "web", "replicas": 2, **DEPLOYMENT["spec"]})
    assert "0 out of 2 replicas succeeded readiness checks" in reasons


JOB = {"spec": {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}}


def test_a_job_is_ready_when_it_is_complete(maker: Maker, objects: Objects) -> None:
    made = maker.create("batch/v1", "Job", **JOB)
    until(lambda: objects.get("batch/v1/jobs", "web"))
    objects.set_status("batch/v1/jobs", "web", startTime="2026-01-01T00:00:00Z", active=1)
    with pytest.raises(TimeoutError):
        made.result(0.5)
    conditions = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
    done = {"active": 0, "succeeded": 1, "completionTime": "2026-01-01T00:00:05Z", "conditions": conditions}
    objects.set_status("batch/v1/jobs", "web", **done)
    made.result(30)


def test_a_failed_job_ends_the_wait_with_its_reason(maker: Maker, objects: Objects) -> None:
    made = maker.create("batch/v1", "Job", **JOB)
    until(lambda: objects.get("batch/v1/jobs", "web"))
    why = {"reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}
    conditions = [{"type": kind, "status": "True", **why} for kind in ("FailureTarget", "Failed")]
    objects.set_status("batch/v1/jobs", "web", startTime="2026-01-01T00:00:00Z", failed=7, conditions=conditions)
    with pytest.raises(InitializationFailed) as failure:
        made.result(30)
    assert failure.value.reasons[1:] == ["[BackoffLimitExceeded] Job has reached the specified backoff limit"]


SERVICE = {"spec": {"selector": LABELS, "ports": [{"port": 80}]}}


def test_a_service_is_ready_when_the_pods_behind_it_are(maker: Maker, objects: Objects) -> None:
    made = maker.create("v1", "Service", **SERVICE)
    until(lambda: objects.get("services", "web"))
    address, ports = {"ip": "10.1.2.3"}, [{"port": 80}]
    manifest = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web"}}
    objects.create("endpoints", {**manifest, "subsets": [{"notReadyAddresses": [address], "ports": ports}]})
    with pytest.raises(TimeoutError):
        made.result(2.5)
    objects.patch("endpoints", "web", {"subsets": [{"addresses": [address], "ports": ports}]})
    made.result(30)


def test_a_service_that_leads_nowhere_says_so(maker: Maker) -> None:
    assert maker.reasons("v1", "Service", **SERVICE)[1:] == [
        "Service does not target any Pods. Selected Pods may not be ready, or "
        "field '.spec.selector' may not match labels on any Pods"
    ]


def test_a_headless_service_waits_for_nobody(maker: Maker) -> None:
    maker.create("v1", "Service", spec={**SERVICE["spec"], "clusterIP": "None"}).result(30)


def test_a_load_balancer_needs_an_address(maker: Maker, objects: Objects) -> None:
    made = maker.create("v1", "Service", spec={"type": "LoadBalancer", "ports": [{"port": 80}]})
    until(lambda: objects.get("services", "web"))
    with pytest.raises(TimeoutError):
        made.result(0.5)
    objects.set_status("services", "web", loadBalancer={"ingress": [{"ip": "203.0.113.1"}]})
    made.result(30)


def claim(storage_class: str) -> dict[str, Any]:
    storage = {"requests": {"storage": "1Gi"}}
    return {"spec": {"accessModes": ["ReadWriteOnce"], "resources": storage, "storageClassName": storage_class}}


def test_a_claim_is_ready_when_it_is_bound(maker: Maker, objects: Objects) -> None:
    made = maker.create("v1", "PersistentVolumeClaim", **claim("nowhere"))
    until(lambda: objects.get("persistentvolumeclaims", "web"))
    with pytest.raises(TimeoutError):
        made.result(0.5)
    objects.set_status("persistentvolumeclaims", "web", phase="Bound")
    made.result(30)


def test_a_claim_that_is_bound_with_its_first_pod_is_not_waited_for(maker: Maker, objects: Objects) -> None:
    name = f"late-{objects.namespace}"
    manifest = {"metadata": {"name": name}, "provisioner": "example.com/x", "volumeBindingMode": "WaitForFirstConsumer"}
    objects.create("/storage.k8s.io/v1/storageclasses", {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **manifest})
    try:
        maker.create("v1", "PersistentVolumeClaim", **claim(name)).result(30)
    finally:
        objects.delete("/storage.k8s.io/v1/storageclasses", name)


def definition(group: str, kind: str) -> dict[str, Any]:
    """Of a kind that is called `webs` whatever its kind is."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    names = {"plural": "webs", "singular": kind.lower(), "kind": kind}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": f"webs.{group}", "namespace": None}, "spec": spec}


def test_a_definition_is_ready_when_its_kind_is_served(maker: Maker, objects: Objects) -> None:
    group, path = f"{objects.namespace}.example.com", "/apiextensions.k8s.io/v1/customresourcedefinitions"
    try:
        state = maker.create("apiextensions.k8s.io/v1", "CustomResourceDefinition", **definition(group, "Web")).result(30).state
        established = {one["type"]: one["status"] for one in state["status"]["conditions"]}
        assert established["Established"] == "True"
        # Two definitions of one group that both call one `web`
        second = definition(group, "Other")
        second["metadata"]["name"], second["spec"]["names"]["plural"] = f"others.{group}", "others"
        second["spec"]["names"]["singular"] = "web"
        reasons = maker.reasons("apiextensions.k8s.io/v1", "CustomResourceDefinition", **second)
        assert any("SingularConflict" in reason and '"web" is already in use' in reason for reason in reasons), reasons
    finally:
        for name in ("webs", "others"):
            objects.delete(path, f"{name}.{group}")


def test_a_pod_is_ready_when_it_says_so(maker: Maker, objects: Objects) -> None:
    made = maker.create("v1", "Pod", spec=POD_SPEC)
    until(lambda: objects.get("pods", "web"))
    objects.set_status("pods", "web", phase="Running", conditions=TRUE_FOR_READY[:2])
    with pytest.raises(TimeoutError):
        made.result(0.5)
    objects.set_status("pods", "web", conditions=TRUE_FOR_READY)
    assert made.result(30).state["status"]["phase"] == "Running", "the state is the ready object's"


def test_skip_await_asks_for_nothing(maker: Maker) -> None:
    metadata = {"annotations": {"pulumi.com/skipAwait": "true"}}
    maker.create("apps/v1", "Deployment", metadata=metadata, **DEPLOYMENT).result(30)


@pytest.mark.parametrize(
    "asked",
    ["condition=Fancy", "jsonpath={.status.phase}=Running", '["condition=Fancy=True", "jsonpath={.status.podIP}"]'],
)
def test_what_to_wait_for_may_be_told(maker: Maker, objects: Objects, asked: str) -> None:
    made = maker.create("v1", "Pod", metadata={"annotations": {"pulumi.com/waitFor": asked}}, spec=POD_SPEC)
    until(lambda: objects.get("pods", "web"))
    with pytest.raises(TimeoutError):
        made.result(0.3)
    fancy = [{"type": "Fancy", "status": "True"}]
    objects.set_status("pods", "web", phase="Running", podIP="10.0.0.1", podIPs=[{"ip": "10.0.0.1"}], conditions=fancy)
    made.result(30)


def test_a_condition_that_nobody_understands_is_refused(maker: Maker) -> None:
    reasons = maker.reasons("v1", "Pod", metadata={"annotations": {"pulumi.com/waitFor": "soon"}}, spec=POD_SPEC)
    assert reasons[0].endswith('expected a "jsonpath=" or "condition=" prefix, got "soon"')


def test_a_time_limit_of_the_annotation_holds(maker: Maker) -> None:
    metadata = {"annotations": {"pulumi.com/timeoutSeconds": "1"}}
    with pytest.raises(InitializationFailed, match="timed out waiting to be Ready"):
        maker.create("v1", "Pod", seconds=0, metadata=metadata, spec=POD_SPEC).result(30)


def test_an_engine_that_is_gone_ends_the_wait(maker: Maker, objects: Objects) -> None:
    made = maker.create("v1", "Pod", spec=POD_SPEC)
    until(lambda: objects.get("pods", "web"))
    maker.gone.set()
    with pytest.raises(InitializationFailed, match='Resource operation was cancelled for "web"'):
        made.result(30)


def test_a_deletion_waits_for_finalizers_and_names_them(maker: Maker, objects: Objects) -> None:
    metadata = {"finalizers": ["example.com/hold"]}
    state = maker.create("v1", "ConfigMap", metadata=metadata).result(30)
    task = maker.task({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}})
    with pytest.raises(InitializationFailed, match="timed out waiting for the condition"):
        lifecycle.delete(task, state.id, state.state, {}, NEVER_LONG)
    ended = maker.pool.submit(lifecycle.delete, task, state.id, state.state, {}, 60)
    objects.patch("configmaps", "web", {"metadata": {"finalizers": None}})
    ended.result(30)
    assert objects.get("configmaps", "web") is None


def test_what_is_gone_is_deleted(maker: Maker, objects: Objects) -> None:
    state = maker.create("v1", "ConfigMap").result(30)
    objects.delete("configmaps", "web")
    task = maker.task({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}})
    lifecycle.delete(task, state.id, state.state, {}, 60)


def test_a_refresh_tells_that_an_object_is_no_longer_ready(maker: Maker, objects: Objects) -> None:
    made = maker.create("v1", "Pod", spec=POD_SPEC)
    until(lambda: objects.get("pods", "web"))
    objects.set_status("pods", "web", conditions=TRUE_FOR_READY)
    ready = made.result(30)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
    inputs = {**pod, "spec": POD_SPEC}
    assert lifecycle.read(maker.task(pod), ready.id, ready.state, inputs, {}) is not None
    unready = [*TRUE_FOR_READY[:2], {"type": "Ready", "status": "False", "message": "the probe fails"}]
    objects.set_status("pods", "web", conditions=unready)
    with pytest.raises(InitializationFailed) as failure:
        lifecycle.read(maker.task(pod), ready.id, ready.state, inputs, {})
    assert failure.value.reasons[1:] == [f"[Pod {objects.namespace}/web]: the probe fails"]
