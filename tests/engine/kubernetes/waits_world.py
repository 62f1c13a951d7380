"""Helpers that create objects, wait for them, and write the status that a cluster's controllers would write."""

import threading
from collections.abc import Mapping
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
from testkit.control_plane import Objects

LABELS = {"app": "web"}
POD_SPEC = {"containers": [{"name": "main", "image": "web"}]}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD_SPEC}
TRUE_FOR_READY = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "Ready")]
NEVER_LONG = 1.0
"""Seconds to wait for an object that will not become ready."""
DEPLOYMENT = {"spec": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}}


@dataclass
class Maker:
    """Creates objects in the background, as the Pulumi engine would."""

    cluster: Cluster
    objects: Objects
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(4))
    gone: threading.Event = field(default_factory=threading.Event)

    def make_task(self, manifest: Mapping[str, Any]) -> Task:
        urn = f"urn:pulumi:dev::tiny::kubernetes::{manifest['metadata']['name']}"
        return Task(self.cluster, Kind.from_manifest(manifest), urn, ResourceLog(None, urn), self.gone.is_set)

    def create(self, api_version: str, kind: str, seconds: float = 60.0, **parts: Any) -> "Future[Outcome]":
        """Start creating an object `web` of the given kind."""
        metadata = {"name": "web", "namespace": self.objects.namespace, **parts.pop("metadata", {})}
        manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}
        return self.pool.submit(lifecycle.create, self.make_task(manifest), manifest, {}, seconds)

    def collect_unready_reasons(self, api_version: str, kind: str, **parts: Any) -> list[str]:
        """Return the reasons why an object did not become ready in time."""
        with pytest.raises(InitializationFailed) as failure:
            self.create(api_version, kind, NEVER_LONG, **parts).result(30)
        assert failure.value.state["kind"] == kind, "the object is kept in the state"
        return failure.value.reasons


def owner_reference(objects: Objects, resource: str, kind: str, name: str = "web") -> dict[str, Any]:
    live = objects.get(resource, name)
    return {"apiVersion": live["apiVersion"], "kind": kind, "name": name, "uid": live["metadata"]["uid"], "controller": True}


def make_pod(objects: Objects, belongs_to: dict[str, Any], **status: Any) -> None:
    metadata = {"name": "web-pod", "labels": LABELS, "ownerReferences": [belongs_to]}
    objects.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": POD_SPEC})
    objects.set_status("pods", "web-pod", **status)


def make_replica_set(objects: Objects, ready: int, revision: str = "1") -> None:
    reference = owner_reference(objects, "apps/v1/deployments", "Deployment")
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


def set_deployment_status(objects: Objects, available: str, **more: Any) -> None:
    generation = objects.get("apps/v1/deployments", "web")["metadata"]["generation"]
    conditions = [
        {"type": "Available", "status": available, "reason": "MinimumReplicas", "message": "so many replicas"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "new"},
    ]
    objects.set_status("apps/v1/deployments", "web", observedGeneration=generation, conditions=conditions, **more)
