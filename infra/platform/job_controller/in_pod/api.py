"""Small client for the Kubernetes API that uses the pod's own service account."""

import base64
import http.client
import json
import os
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REQUEST_SECONDS = 30
LOG_SECONDS = 10
WATCH_SECONDS = 300
"""The API server ends a watch after this time. https://kubernetes.io/docs/reference/using-api/api-concepts/"""
UPGRADE = {"Accept": "*/*", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
"""containerd returns 406 for a request that accepts only JSON."""
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

NOT_FOUND, CONFLICT = 404, 409
PAGE_OBJECTS, PAGE_BYTES = 100, 1 << 21
"""Limits of a page of a list. A page with more bytes is read again with fewer objects."""
OBJECT_BYTES = 1 << 24
"""Limit of a page with one object. etcd stores at most 1.5 MiB per object, but in JSON, control characters are six times as
long. https://etcd.io/docs/v3.6/dev-guide/limit/
"""
_PARSING = threading.Lock()
"""Held while a page is parsed and trimmed, so that only one thread at a time holds the parsed objects of a page."""

Object = dict[str, Any]
Query = Mapping[str, str] | Sequence[tuple[str, str]]


def build_resource_path(template: str, *names: str) -> str:
    """Return the path of a resource. Raises ValueError for names that the API server would read as several segments: it
    decodes the path before it splits it.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#path-segment-names

    >>> build_resource_path("api/v1/namespaces/{}/pods/{}", "team-a", "x?y")
    'api/v1/namespaces/team-a/pods/x%3Fy'
    """
    for name in names:
        if name in ("", ".", "..") or "/" in name or "%" in name:
            raise ValueError(f"{name!r} is not the name of an object")
    return template.format(*(urllib.parse.quote(name, safe="") for name in names))


class ApiError(Exception):
    """The API server rejected a request."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason = status, reason


class Unreachable(Exception):
    """The API server did not answer."""


class LeaseLost(Exception):
    """The controller may not make changes now: it is not the leader, or has not been the leader for the whole round."""


class Api:
    """Client for a single thread."""

    def __init__(
        self,
        host: str,
        port: int,
        context: ssl.SSLContext | None,
        token: Path | None,
        allows_changes: Callable[[], bool] = lambda: True,
    ) -> None:
        self._host, self._port, self._context, self._token = host, port, context, token
        self._allows_changes = allows_changes
        self._connection: http.client.HTTPConnection | None = None

    @classmethod
    def from_pod(cls) -> "Api":
        """https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/"""
        context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])
        return cls(host, port, context, ACCOUNT / "token")

    def copy(self, allows_changes: Callable[[], bool] | None = None) -> "Api":
        """Return a client with its own connection, for another thread. Before each request that may change something,
        the client and its copies check whether changes are allowed."""
        return Api(self._host, self._port, self._context, self._token, allows_changes or self._allows_changes)

    def call(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Object | None = None, kind: str = ""
    ) -> Object:
        """Send a request and return the response. Raises ApiError, Unreachable and LeaseLost."""
        answer = self._send_request(method, path, query, body, kind, REQUEST_SECONDS)
        return _decode_response(answer.status, self._read_body(answer))

    def read_list(self, path: str, query: Mapping[str, str], add: Callable[[Object], None]) -> str:
        """Call `add` for each object of a list, page by page, and return the list's resource version. Raises ApiError,
        Unreachable, and ValueError for a page that cannot be read.

        API servers return pages only of current lists, not from their cache (`resourceVersion=0`).
        https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
        """
        size, following = PAGE_OBJECTS, ""
        while True:
            limit = PAGE_BYTES if size > 1 else OBJECT_BYTES
            more = {"limit": str(size), **({"continue": following} if following else {})}
            answer = self._send_request("GET", path, {**query, **more}, None, "", REQUEST_SECONDS)
            content = self._read_body(answer, limit + 1)
            if len(content) > limit:
                self._drop_connection()  # the rest of the answer is not read
                if size == 1:
                    raise ValueError(f"/{path}: an object has more than {limit >> 20} MiB")
                size //= 4
                continue
            with _PARSING:
                page = _decode_response(answer.status, content)
                for item in page.get("items") or ():
                    add(item)
                version, following = str(page["metadata"]["resourceVersion"]), page["metadata"].get("continue", "")
                del page, content
            if not following:
                return version

    def read_content(self, path: str, query: Mapping[str, str]) -> bytes:
        """Return a response that is not JSON, such as a log. Raises ApiError and Unreachable."""
        answer = self._send_request("GET", path, query, None, "", LOG_SECONDS)
        content = self._read_body(answer)
        if answer.status >= http.client.BAD_REQUEST:
            _decode_response(answer.status, content)
        return content

    def _read_body(self, answer: http.client.HTTPResponse, limit: int | None = None) -> bytes:
        try:
            return answer.read(limit)
        except (OSError, http.client.HTTPException) as error:
            self._drop_connection()
            raise Unreachable(str(error)) from error

    def watch(self, path: str, query: Mapping[str, str]) -> Iterator[Object]:
        """Yield the events of a watch until the API server ends it. Raises ApiError and Unreachable."""
        more = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        answer = self._send_request("GET", path, {**query, **more}, None, "", WATCH_SECONDS + REQUEST_SECONDS)
        try:
            if answer.status != http.client.OK:
                _decode_response(answer.status, answer.read())
            while line := answer.readline():
                yield json.loads(line)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unreachable(str(error)) from error
        finally:
            self._drop_connection()

    def open_upgraded_stream(self, path: str, query: Query, protocol: str, seconds: int) -> Any:
        """Return the stream of a connection that the server has upgraded to a WebSocket. Raises ApiError, Unreachable and
        LeaseLost. The connection cannot be reused."""
        key = base64.b64encode(os.urandom(16)).decode()
        more = {**UPGRADE, "Sec-WebSocket-Key": key, "Sec-WebSocket-Protocol": protocol}
        answer = self._send_request("GET", path, query, None, "", seconds, more)
        if answer.status != http.client.SWITCHING_PROTOCOLS:
            _decode_response(max(answer.status, http.client.BAD_REQUEST), answer.read())
        return answer.fp

    def close(self) -> None:
        self._drop_connection()

    def _send_request(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: Object | None,
        kind: str,
        limit: int,
        more: Mapping[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        if any(name in ("", ".", "..") or "/" in name for name in map(urllib.parse.unquote, path.split("/"))):
            raise ValueError(f"{path} is not the path of a resource")
        quoted = urllib.parse.quote(path, safe="/%")
        url = f"/{quoted}?{urllib.parse.urlencode(query)}" if query else f"/{quoted}"
        headers = {"Accept": "application/json", "Content-Type": kind or "application/json", **(more or {})}
        if self._token is not None:  # read the token again for each request: the kubelet renews it
            headers["Authorization"] = f"Bearer {self._token.read_text(encoding='utf-8').strip()}"
        content = None if body is None else json.dumps(body).encode()
        may_change = method != "GET" or more is not None  # runs a command in a pod
        for is_last in (self._connection is None, True):
            if may_change and not self._allows_changes():
                raise LeaseLost(f"this controller is not the leader: {method} /{path} was not sent")
            connection = self._connect(limit)
            try:
                connection.request(method, url, content, headers)
                return connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                self._drop_connection()
                if is_last:  # the server may have closed an idle connection
                    raise Unreachable(str(error)) from error
        raise AssertionError

    def _connect(self, limit: int) -> http.client.HTTPConnection:
        if self._connection is None:
            if self._context is None:
                self._connection = http.client.HTTPConnection(self._host, self._port, timeout=limit)
            else:
                self._connection = http.client.HTTPSConnection(self._host, self._port, timeout=limit, context=self._context)
        elif self._connection.sock is not None:
            self._connection.sock.settimeout(limit)
        return self._connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def find_object(api: Api, path: str) -> Object | None:
    """Return an object; None if it does not exist."""
    try:
        return api.call("GET", path)
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return None


def write_object(api: Api, collection: str, stored: Object | None, body: Object) -> Object | None:
    """Create an object, or replace the stored one. Returns None if another client has changed or deleted the object."""
    try:
        if stored is None:
            return api.call("POST", collection, body=body)
        return api.call("PUT", build_resource_path(f"{collection}/{{}}", body["metadata"]["name"]), body=body)
    except ApiError as error:
        if error.status not in (CONFLICT, NOT_FOUND):
            raise
        return None


def _decode_response(status: int, content: bytes) -> Object:
    """Raises ApiError for an error, and ValueError for an answer that is not a JSON object or is nested too deeply."""
    try:
        parsed = json.loads(content or b"{}")
    except (ValueError, RecursionError) as error:
        parsed = f"{type(error).__name__}: {content[:200].decode(errors='replace')}"
    if not isinstance(parsed, dict):
        if status < http.client.BAD_REQUEST:
            raise ValueError(f"the answer cannot be read: {str(parsed)[:200]}")
        parsed = {"message": str(parsed)[:200]}
    answer: Object = parsed
    if status >= http.client.BAD_REQUEST:
        raise ApiError(status, str(answer.get("reason", "")), str(answer.get("message", "")))
    return answer
