"""An API server in memory, as the connection of a kubeconfig: `scripts/cluster` reads hostile objects from it, and tests
read the requests that it sent."""

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

from kubernetes.client.exceptions import ApiException

from testkit.hostile_objects import COLLECTIONS, Object

CLUSTER_WIDE: Final = {"Node": "api/v1/nodes", "Namespace": "api/v1/namespaces"}
OTHER: Final = {
    "PersistentVolumeClaim": "api/v1/namespaces/{}/persistentvolumeclaims",
    "Role": "apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Secret": "api/v1/namespaces/{}/secrets",
    "Service": "api/v1/namespaces/{}/services",
    "ServiceAccount": "api/v1/namespaces/{}/serviceaccounts",
}
KINDS: Final = {path.rpartition("/")[2]: kind for kind, path in {**CLUSTER_WIDE, **OTHER, **COLLECTIONS}.items()}
"""Maps the last part of a collection's path to its kind."""
JOBS: Final = ("Job", "JobSet", "MPIJob", "PyTorchJob", "RayJob", "TrainJob")


@dataclass(frozen=True)
class Request:
    """A request as the client sent it."""

    method: str
    path: str
    body: Any = None


@dataclass
class MemoryApi:
    """Stores objects by kind. Deleting a job deletes the pods of its namespace; a new Job starts a pod at once."""

    objects: dict[str, list[Object]]
    namespace: str | None = None
    requests: list[Request] = field(default_factory=list)
    context: str = "test"
    server: str = "https://cluster.test"

    def list_failing_checks(self) -> list[str]:
        return []

    def call(self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None, **more: Any) -> Any:
        self.requests.append(Request(method, path, copy.deepcopy(body)))
        if path == "version":
            return _make_answer({"gitVersion": "v1.35.0"})
        if path.endswith("/log"):
            return SimpleNamespace(stream=lambda *_, **__: [b"2026-11-23T12:00:01Z line\n"], release_conn=lambda: None)
        kind, namespace, name = _parse_path(path)
        stored = self.objects.setdefault(kind, [])
        if method == "POST":
            return _make_answer(self._create(kind, {**body, "metadata": {"uid": f"new-{len(stored)}", **body["metadata"]}}))
        selected = list(_select(stored, namespace, query or {}))
        if not name:
            return _make_answer({"items": selected})
        existing = next((item for item in selected if item["metadata"]["name"] == name), None)
        if existing is None:
            raise ApiException(status=404, reason="NotFound")
        if method == "DELETE":
            stored.remove(existing)
            if kind in JOBS:
                self.objects["Pod"] = [pod for pod in self.objects.get("Pod", []) if pod["metadata"]["namespace"] != namespace]
        return _make_answer(existing)

    def open_websocket(self, path: str, query: Sequence[tuple[str, str]]) -> Any:
        """Record the request, and refuse it: a kubelet would answer it."""
        self.requests.append(Request("CONNECT", path, query))
        raise ApiException(status=403, reason="Forbidden")

    def _create(self, kind: str, created: Object) -> Object:
        metadata = created["metadata"]
        created = {**created, "metadata": {"creationTimestamp": "2026-11-23T12:00:00Z", **metadata}}
        self.objects[kind].append(created)
        if kind == "Job":
            labels = {"batch.kubernetes.io/job-name": metadata["name"]}
            pod_metadata = {**created["metadata"], "name": f"{metadata['name']}-x", "labels": labels}
            status = {"phase": "Running", "containerStatuses": [{"name": "files", "state": {"running": {}}}]}
            self.objects.setdefault("Pod", []).append({"metadata": pod_metadata, "spec": {"containers": []}, "status": status})
        return created


def _make_answer(document: Any) -> Any:
    return SimpleNamespace(data=json.dumps(document))


def _parse_path(path: str) -> tuple[str, str, str]:
    """Return kind, namespace and name of a path; namespace and name may be empty. Raises ApiException for other paths."""
    for kind, collection in {**COLLECTIONS, **OTHER, **CLUSTER_WIDE}.items():
        prefix, _, plural = collection.partition("namespaces/{}/") if "{}" in collection else ("", "", collection)
        if path == prefix + plural or path.startswith(f"{prefix}{plural}/"):
            return kind, "", path.removeprefix(prefix + plural).strip("/")
        if prefix and path.startswith(f"{prefix}namespaces/"):
            namespace, _, rest = path.removeprefix(f"{prefix}namespaces/").partition("/")
            if rest == plural or rest.startswith(f"{plural}/"):
                return kind, namespace, rest.removeprefix(plural).strip("/")
    raise ApiException(status=404, reason="NotFound")


def _select(stored: Iterable[Object], namespace: str, query: Mapping[str, str]) -> Iterable[Object]:
    for item in stored:
        labels = item["metadata"].get("labels") or {}
        if namespace and item["metadata"]["namespace"] != namespace:
            continue
        if all(_has_label(labels, term) for term in query.get("labelSelector", "").split(",") if term) and all(
            _has_field(item, term) for term in query.get("fieldSelector", "").split(",") if term
        ):
            yield copy.deepcopy(item)


def _has_label(labels: Mapping[str, str], term: str) -> bool:
    key, has_value, value = term.partition("=")
    return key in labels and (not has_value or labels[key] == value)


def _has_field(item: Any, term: str) -> bool:
    path, _, value = term.partition("=")
    for key in path.split("."):
        item = (item or {}).get(key)
    return bool(item == value)
