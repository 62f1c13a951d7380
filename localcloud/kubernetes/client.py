"""Admin client of the API server. The client connects from inside the cluster's network namespace, so private endpoints work
too.

The client reuses connections: a TLS handshake costs more than most requests, and draining a thousand nodes takes thousands of
requests.
"""

import http.client
import json
import queue
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlencode, urlsplit

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from localcloud.kubernetes.pki import Certificate
from localcloud.machine import network

TIMEOUT_SECONDS = 30.0
AWAY_SECONDS = 30.0
"""How long to retry while the API server refuses connections or is shutting down. A restart takes less time, and
kubelets retry as well."""
IDLE = 16
"""Maximum number of idle connections: as many as there are threads for simulated nodes."""
FIELD_MANAGER = "local-cloud"
Json = dict[str, Any]


class ApiError(Exception):
    """The API server rejected a request. The message comes from the API server."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _GoingAway(ApiError):
    """The API server is shutting down and has not processed the request.

    https://github.com/kubernetes/kubernetes/blob/v1.35.0/staging/src/k8s.io/apiserver/pkg/server/filters/waitgroup.go and
    `with_retry_after.go` in the same folder: the status is 503, or 429 if a shutdown delay is set.
    """

    TEXT = "apiserver is shutting down"


_RETRYING = Retrying(
    retry=retry_if_exception_type((ConnectionRefusedError, _GoingAway)),
    wait=wait_fixed(0.3),
    stop=stop_after_delay(AWAY_SECONDS),
    reraise=True,
)


class _Connection(http.client.HTTPSConnection):
    """HTTPS connection opened from inside a network namespace."""

    def __init__(self, namespace: str | None, host: str, port: int, context: ssl.SSLContext, timeout: float) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._namespace, self._context_of_tls, self._seconds = namespace, context, timeout

    def connect(self) -> None:
        plain = network.connect(self._namespace, self.host, self.port, self._seconds)
        try:
            self.sock = self._context_of_tls.wrap_socket(plain, server_hostname=self.host)
        except OSError:
            plain.close()
            raise


class Api:
    """Client for one cluster's API server. Thread-safe."""

    def __init__(self, url: str, namespace: str | None, authority: Certificate, own: Certificate) -> None:
        self._host, self._port = urlsplit(url).hostname or "", urlsplit(url).port or 443
        self._namespace = namespace
        self._context = ssl.create_default_context(cafile=authority.file)
        self._context.load_cert_chain(own.file, own.key)
        self._plurals: dict[tuple[str, str], tuple[str, bool]] = {}
        self._idle: queue.LifoQueue[_Connection] = queue.LifoQueue(IDLE)
        self._is_closed = False

    def close(self) -> None:
        """Close idle connections, which would keep the network namespace alive. A closed client does not reuse connections."""
        self._is_closed = True
        while (connection := self._take_idle_connection()) is not None:
            connection.close()

    def is_ready(self) -> bool:
        """https://kubernetes.io/docs/reference/using-api/health-checks/"""
        try:
            return self._send_request("GET", "/readyz", None, {})[0] == 200
        except OSError:
            return False

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: Any) -> Any:
        """Send a request and return the parsed response. Raises ApiError; OSError if the API server is unreachable."""
        target = f"{path}?{urlencode(query)}" if query else path
        text = _RETRYING(self._send_and_check, method, target, body, {"Content-Type": content_type})
        return json.loads(text) if text else None

    def get(self, path: str, **query: Any) -> Any:
        return self.request("GET", path, **query)

    def find(self, path: str) -> Any:
        """Like `get`, but returns None if the object does not exist."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def create(self, path: str, body: Json) -> Any:
        return self.request("POST", path, body)

    def patch(self, path: str, body: Json, *, kind: str = "merge-patch") -> Any:
        return self.request("PATCH", path, body, f"application/{kind}+json")

    def delete(self, path: str, **query: Any) -> None:
        """Delete an object. Do nothing if the object does not exist."""
        try:
            self.request("DELETE", path, **query)
        except ApiError as error:
            if error.status != 404:
                raise

    def apply(self, item: Json) -> Any:
        """Apply an object server-side. Force conflicts: take over fields that other field managers own."""
        path = self.build_path(item)
        return self.request("PATCH", path, item, "application/apply-patch+yaml", fieldManager=FIELD_MANAGER, force="true")

    def build_path(self, item: Json) -> str:
        """Return an object's API path, derived from its apiVersion, kind, namespace and name."""
        version, metadata = item["apiVersion"], item["metadata"]
        plural, namespaced = self._find_plural(version, item["kind"])
        base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        where = f"/namespaces/{metadata.get('namespace', 'default')}" if namespaced else ""
        return f"{base}{where}/{plural}/{metadata['name']}"

    def watch(self, path: str, *, seconds: int = 300, **query: Any) -> Iterator[Json]:
        """Yield watch events (`type`, `object`) for `seconds`, or until the API server closes the watch."""
        target = f"{path}?{urlencode({**query, 'watch': 'true', 'timeoutSeconds': seconds})}"
        with closing(self._create_connection(seconds + TIMEOUT_SECONDS)) as connection:
            connection.request("GET", target)
            response = connection.getresponse()
            if response.status >= 400:
                raise ApiError(response.status, _parse_error_message(response.read()))
            for line in response:
                yield json.loads(line)

    def _find_plural(self, version: str, kind: str) -> tuple[str, bool]:
        if (version, kind) not in self._plurals:
            resource_list = self.get(f"/api/{version}" if "/" not in version else f"/apis/{version}")
            for resource in resource_list["resources"]:
                if "/" not in resource["name"]:
                    self._plurals[(version, resource["kind"])] = resource["name"], resource["namespaced"]
        if (version, kind) not in self._plurals:
            raise ApiError(404, f"the API server has no kind {kind} in {version}")
        return self._plurals[(version, kind)]

    def _create_connection(self, timeout: float = TIMEOUT_SECONDS) -> _Connection:
        return _Connection(self._namespace, self._host, self._port, self._context, timeout)

    def _send_and_check(self, method: str, target: str, body: Any, headers: Mapping[str, str]) -> bytes:
        status, text = self._send_request(method, target, body, headers)
        if status < 400:
            return text
        message = _parse_error_message(text) or f"{method} {target}: status {status}"
        raise (_GoingAway if _GoingAway.TEXT in message else ApiError)(status, message)

    def _send_request(self, method: str, target: str, body: Any, headers: Mapping[str, str]) -> tuple[int, bytes]:
        data = None if body is None else json.dumps(body).encode()
        request = method, target, data, {"Accept": "application/json", **headers}
        while (connection := self._take_idle_connection()) is not None:
            with suppress(ConnectionError):  # the API server closes idle connections, and all connections on a restart
                return self._exchange(connection, *request)
        return self._exchange(self._create_connection(), *request)

    def _exchange(
        self, connection: _Connection, method: str, target: str, data: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        try:
            connection.request(method, target, data, headers)
            response = connection.getresponse()
            answer = response.status, response.read()
        except (
            http.client.HTTPException,
            ssl.SSLEOFError,
        ) as error:  # the server closed the connection, perhaps without close_notify
            connection.close()
            raise ConnectionError(f"{method} {target}: {error!r}") from error
        except OSError:
            connection.close()
            raise
        self._keep_connection(connection)
        return answer

    def _take_idle_connection(self) -> _Connection | None:
        with suppress(queue.Empty):
            return self._idle.get_nowait()
        return None

    def _keep_connection(self, connection: _Connection) -> None:
        if self._is_closed or connection.sock is None:
            connection.close()
            return
        try:
            self._idle.put_nowait(connection)
        except queue.Full:
            connection.close()


def _parse_error_message(text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.decode(errors="replace")
