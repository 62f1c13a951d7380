"""When the provider considers objects ready, and the provider's message if they are not. Tests write the status that
controllers would write.
"""

from typing import Any

import pytest

from localcloud.engine.kubernetes import lifecycle
from localcloud.engine.kubernetes.failures import InitializationFailed
from testkit.control_plane import Objects
from testkit.waiting import wait_until
from tests.engine.kubernetes.waits_world import DEPLOYMENT, LABELS, NEVER_LONG, POD_SPEC, TRUE_FOR_READY, Maker

SERVICE = {"spec": {"selector": LABELS, "ports": [{"port": 80}]}}


def test_a_service_is_ready_when_its_pods_are_ready(maker: Maker, objects: Objects) -> None:
    creation = maker.create("v1", "Service", **SERVICE)
    wait_until(lambda: objects.get("services", "web"))
    address, ports = {"ip": "10.1.2.3"}, [{"port": 80}]
    manifest = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web"}}
    objects.create("endpoints", {**manifest, "subsets": [{"notReadyAddresses": [address], "ports": ports}]})
    with pytest.raises(TimeoutError):
        creation.result(2.5)
    objects.patch("endpoints", "web", {"subsets": [{"addresses": [address], "ports": ports}]})
    creation.result(30)


def test_a_service_without_endpoints_is_reported(maker: Maker) -> None:
    assert maker.collect_unready_reasons("v1", "Service", **SERVICE)[1:] == [
        "Service does not target any Pods. Selected Pods may not be ready, or "
        "field '.spec.selector' may not match labels on any Pods"
    ]


def test_a_headless_service_is_ready_at_once(maker: Maker) -> None:
    maker.create("v1", "Service", spec={**SERVICE["spec"], "clusterIP": "None"}).result(30)


def test_a_load_balancer_is_ready_when_it_has_an_address(maker: Maker, objects: Objects) -> None:
    creation = maker.create("v1", "Service", spec={"type": "LoadBalancer", "ports": [{"port": 80}]})
    wait_until(lambda: objects.get("services", "web"))
    with pytest.raises(TimeoutError):
        creation.result(0.5)
    objects.set_status("services", "web", loadBalancer={"ingress": [{"ip": "203.0.113.1"}]})
    creation.result(30)


def build_claim(storage_class: str) -> dict[str, Any]:
    storage = {"requests": {"storage": "1Gi"}}
    return {"spec": {"accessModes": ["ReadWriteOnce"], "resources": storage, "storageClassName": storage_class}}


def test_a_volume_claim_is_ready_when_it_is_bound(maker: Maker, objects: Objects) -> None:
    creation = maker.create("v1", "PersistentVolumeClaim", **build_claim("nowhere"))
    wait_until(lambda: objects.get("persistentvolumeclaims", "web"))
    with pytest.raises(TimeoutError):
        creation.result(0.5)
    objects.set_status("persistentvolumeclaims", "web", phase="Bound")
    creation.result(30)


def test_a_volume_claim_that_binds_with_its_first_pod_is_ready_at_once(maker: Maker, objects: Objects) -> None:
    name = f"late-{objects.namespace}"
    manifest = {"metadata": {"name": name}, "provisioner": "example.com/x", "volumeBindingMode": "WaitForFirstConsumer"}
    objects.create("/storage.k8s.io/v1/storageclasses", {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **manifest})
    try:
        maker.create("v1", "PersistentVolumeClaim", **build_claim(name)).result(30)
    finally:
        objects.delete("/storage.k8s.io/v1/storageclasses", name)


def build_crd(group: str, kind: str) -> dict[str, Any]:
    """Return a custom resource definition for the given kind, with the plural name `webs`."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    names = {"plural": "webs", "singular": kind.lower(), "kind": kind}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": f"webs.{group}", "namespace": None}, "spec": spec}


def test_a_custom_resource_definition_is_ready_when_its_kind_is_served(maker: Maker, objects: Objects) -> None:
    group, path = f"{objects.namespace}.example.com", "/apiextensions.k8s.io/v1/customresourcedefinitions"
    try:
        state = maker.create("apiextensions.k8s.io/v1", "CustomResourceDefinition", **build_crd(group, "Web")).result(30).state
        established = {condition["type"]: condition["status"] for condition in state["status"]["conditions"]}
        assert established["Established"] == "True"
        # This definition conflicts with the first one: both have the singular name `web`.
        second = build_crd(group, "Other")
        second["metadata"]["name"], second["spec"]["names"]["plural"] = f"others.{group}", "others"
        second["spec"]["names"]["singular"] = "web"
        reasons = maker.collect_unready_reasons("apiextensions.k8s.io/v1", "CustomResourceDefinition", **second)
        assert any("SingularConflict" in reason and '"web" is already in use' in reason for reason in reasons), reasons
    finally:
        for name in ("webs", "others"):
            objects.delete(path, f"{name}.{group}")


def test_a_pod_is_ready_when_its_ready_condition_is_true(maker: Maker, objects: Objects) -> None:
    creation = maker.create("v1", "Pod", spec=POD_SPEC)
    wait_until(lambda: objects.get("pods", "web"))
    objects.set_status("pods", "web", phase="Running", conditions=TRUE_FOR_READY[:2])
    with pytest.raises(TimeoutError):
        creation.result(0.5)
    objects.set_status("pods", "web", conditions=TRUE_FOR_READY)
    assert creation.result(30).state["status"]["phase"] == "Running", "the recorded state is the state of the ready object"


def test_the_skip_await_annotation_skips_the_wait(maker: Maker) -> None:
    metadata = {"annotations": {"pulumi.com/skipAwait": "true"}}
    maker.create("apps/v1", "Deployment", metadata=metadata, **DEPLOYMENT).result(30)


@pytest.mark.parametrize(
    "asked",
    ["condition=Fancy", "jsonpath={.status.phase}=Running", '["condition=Fancy=True", "jsonpath={.status.podIP}"]'],
)
def test_the_wait_for_annotation_accepts_a_condition(maker: Maker, objects: Objects, asked: str) -> None:
    creation = maker.create("v1", "Pod", metadata={"annotations": {"pulumi.com/waitFor": asked}}, spec=POD_SPEC)
    wait_until(lambda: objects.get("pods", "web"))
    with pytest.raises(TimeoutError):
        creation.result(0.3)
    fancy = [{"type": "Fancy", "status": "True"}]
    objects.set_status("pods", "web", phase="Running", podIP="10.0.0.1", podIPs=[{"ip": "10.0.0.1"}], conditions=fancy)
    creation.result(30)


def test_an_invalid_wait_for_condition_is_refused(maker: Maker) -> None:
    reasons = maker.collect_unready_reasons("v1", "Pod", metadata={"annotations": {"pulumi.com/waitFor": "soon"}}, spec=POD_SPEC)
    assert reasons[0].endswith('expected a "jsonpath=" or "condition=" prefix, got "soon"')


def test_the_timeout_annotation_limits_the_wait(maker: Maker) -> None:
    metadata = {"annotations": {"pulumi.com/timeoutSeconds": "1"}}
    with pytest.raises(InitializationFailed, match="timed out waiting to be Ready"):
        maker.create("v1", "Pod", seconds=0, metadata=metadata, spec=POD_SPEC).result(30)


def test_a_disconnected_engine_ends_the_wait(maker: Maker, objects: Objects) -> None:
    creation = maker.create("v1", "Pod", spec=POD_SPEC)
    wait_until(lambda: objects.get("pods", "web"))
    maker.gone.set()
    with pytest.raises(InitializationFailed, match='Resource operation was cancelled for "web"'):
        creation.result(30)


def test_deletion_waits_for_finalizers_and_names_them(maker: Maker, objects: Objects) -> None:
    metadata = {"finalizers": ["example.com/hold"]}
    state = maker.create("v1", "ConfigMap", metadata=metadata).result(30)
    task = maker.make_task({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}})
    with pytest.raises(InitializationFailed, match="timed out waiting for the condition"):
        lifecycle.delete(task, state.id, state.state, {}, NEVER_LONG)
    ended = maker.pool.submit(lifecycle.delete, task, state.id, state.state, {}, 60)
    objects.patch("configmaps", "web", {"metadata": {"finalizers": None}})
    ended.result(30)
    assert objects.get("configmaps", "web") is None


def test_deleting_a_missing_object_succeeds(maker: Maker, objects: Objects) -> None:
    state = maker.create("v1", "ConfigMap").result(30)
    objects.delete("configmaps", "web")
    task = maker.make_task({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}})
    lifecycle.delete(task, state.id, state.state, {}, 60)


def test_a_refresh_reports_an_object_that_is_no_longer_ready(maker: Maker, objects: Objects) -> None:
    creation = maker.create("v1", "Pod", spec=POD_SPEC)
    wait_until(lambda: objects.get("pods", "web"))
    objects.set_status("pods", "web", conditions=TRUE_FOR_READY)
    ready = creation.result(30)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
    inputs = {**pod, "spec": POD_SPEC}
    assert lifecycle.read(maker.make_task(pod), ready.id, ready.state, inputs, {}) is not None
    unready = [*TRUE_FOR_READY[:2], {"type": "Ready", "status": "False", "message": "the probe fails"}]
    objects.set_status("pods", "web", conditions=unready)
    with pytest.raises(InitializationFailed) as failure:
        lifecycle.read(maker.make_task(pod), ready.id, ready.state, inputs, {})
    assert failure.value.reasons[1:] == [f"[Pod {objects.namespace}/web]: the probe fails"]
