"""Minimal client of the API server. Authenticates with the pod's service account or a kubeconfig."""

import base64
import json
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from localcloud.kubernetes.autoscaler import objects
from localcloud.kubernetes.autoscaler.objects import Node, Pod, Taint

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_SECONDS = 30.0
UPDATE_ATTEMPTS = 5
STATUS_NAMESPACE, STATUS_NAME = "kube-system", "cluster-autoscaler-status"
Json = dict[str, Any]


class ApiError(Exception):
    """The API server rejected a request. The message comes from the API server."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Kube(Protocol):
    def nodes(self) -> list[Node]: ...

    def pods(self) -> list[Pod]: ...

    def daemons(self) -> list[Pod]: ...

    def taint(self, name: str, taint: Taint) -> None: ...

    def untaint(self, name: str, key: str) -> None: ...

    def evict(self, pod: Pod) -> None: ...

    def record_event(self, pod: Pod, reason: str, message: str, kind: str = "Normal") -> None: ...

    def show(self, status: str) -> None: ...


@dataclass(frozen=True)
class Connection:
    url: str
    context: ssl.SSLContext
    token_file: Path | None = None


def connect_in_cluster() -> Connection:
    """https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/"""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    context = ssl.create_default_context(cafile=SERVICE_ACCOUNT / "ca.crt")
    return Connection(f"https://{host}:{port}", context, SERVICE_ACCOUNT / "token")


def connect_by_kubeconfig(file: Path) -> Connection:
    """Connect with the client certificate in a kubeconfig."""
    import yaml  # imported here because the image does not contain PyYAML

    document = yaml.safe_load(file.read_text())
    current = next(entry["context"] for entry in document["contexts"] if entry["name"] == document["current-context"])
    cluster = next(entry["cluster"] for entry in document["clusters"] if entry["name"] == current["cluster"])
    user = next(entry["user"] for entry in document["users"] if entry["name"] == current["user"])
    context = ssl.create_default_context(cadata=_read_pem(cluster, "certificate-authority").decode())
    with tempfile.TemporaryDirectory() as folder:  # SSLContext can load client certificates only from files
        certificate, key = Path(folder, "certificate"), Path(folder, "key")
        certificate.write_bytes(_read_pem(user, "client-certificate"))
        key.touch(mode=0o600)
        key.write_bytes(_read_pem(user, "client-key"))
        context.load_cert_chain(certificate, key)
    return Connection(cluster["server"], context)


def _read_pem(holder: Mapping[str, str], name: str) -> bytes:
    return base64.b64decode(holder[f"{name}-data"]) if f"{name}-data" in holder else Path(holder[name]).read_bytes()


class ApiServer:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._opener: OpenerDirector = build_opener(ProxyHandler({}), HTTPSHandler(context=connection.context))

    def nodes(self) -> list[Node]:
        return [objects.parse_node(item) for item in self._list_objects("/api/v1/nodes")]

    def pods(self) -> list[Pod]:
        return [objects.parse_pod(item) for item in self._list_objects("/api/v1/pods")]

    def daemons(self) -> list[Pod]:
        return [objects.build_daemon_pod(item) for item in self._list_objects("/apis/apps/v1/daemonsets")]

    def taint(self, name: str, taint: Taint) -> None:
        added = {"key": taint.key, "value": taint.value, "effect": taint.effect}
        self._set_taints(name, lambda taints: [*(present for present in taints if present["key"] != taint.key), added])

    def untaint(self, name: str, key: str) -> None:
        self._set_taints(name, lambda taints: [present for present in taints if present["key"] != key])

    def evict(self, pod: Pod) -> None:
        """Evict a pod. If a disruption budget blocks the eviction, the next pass retries it."""
        metadata = {"name": pod.name, "namespace": pod.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        try:
            self._send_request("POST", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction", body)
        except ApiError as error:
            if error.status not in (404, 429):
                raise

    def record_event(self, pod: Pod, reason: str, message: str, kind: str = "Normal") -> None:
        """Create an event, which `kubectl describe pod` shows."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{pod.name}.", "namespace": pod.namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
            "reason": reason,
            "message": message,
            "type": kind,
            "source": {"component": "cluster-autoscaler"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._send_request("POST", f"/api/v1/namespaces/{pod.namespace}/events", event)

    def show(self, status: str) -> None:
        """Write the status to the ConfigMap that the real autoscaler uses."""
        path = f"/api/v1/namespaces/{STATUS_NAMESPACE}/configmaps"
        body = {"metadata": {"name": STATUS_NAME, "namespace": STATUS_NAMESPACE}, "data": {"status": status}}
        try:
            self._send_request("PUT", f"{path}/{STATUS_NAME}", body)
        except ApiError as error:
            if error.status != 404:
                raise
            self._send_request("POST", path, body)

    def _set_taints(self, name: str, change: Callable[[list[Json]], list[Json]]) -> None:
        """Replace the whole Node object, because the real autoscaler's role does not allow patching nodes. Retry on
        conflict."""
        path = f"/api/v1/nodes/{name}"
        for _ in range(UPDATE_ATTEMPTS):
            node = self._send_request("GET", path)
            node["spec"]["taints"] = change(node["spec"].get("taints", []))
            try:
                self._send_request("PUT", path, node)
            except ApiError as error:
                if error.status != 409:
                    raise
            else:
                return
        raise ApiError(409, f"node {name}: update failed after {UPDATE_ATTEMPTS} conflicts")

    def _list_objects(self, path: str) -> list[Json]:
        """List objects from the API server's cache instead of etcd, as the real program's informers do."""
        items: list[Json] = self._send_request("GET", f"{path}?{urlencode({'resourceVersion': '0'})}")["items"]
        return items

    def _send_request(self, method: str, path: str, body: Json | None = None) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._connection.token_file is not None:  # the kubelet rotates the token, so read it for each request
            headers["Authorization"] = f"Bearer {self._connection.token_file.read_text().strip()}"
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._connection.url}{path}", data, headers, method=method)
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
                return json.loads(answer.read() or b"null")
        except HTTPError as error:
            text = error.read().decode(errors="replace")
            raise ApiError(error.code, f"{method} {path}: {_parse_error_message(text)}") from None


def _parse_error_message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text
