"""HTTP client for the Kubernetes API server. https://kubernetes.io/docs/reference/using-api/api-concepts/"""

import json
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3

from localcloud.engine.kubernetes.credentials import Credentials, NoCredential
from localcloud.engine.kubernetes.kubeconfig import Access
from localcloud.engine.kubernetes.objects import Object

CONNECT_SECONDS = 40.0
"""Connect timeout. It exceeds the time for which localcloud/kubernetes/loopback.py holds connections while the API
server restarts."""
READ_SECONDS = 60.0
CONNECTIONS = 64
RETRIES = 10
"""Maximum number of retries after a connection failure or, as in client-go, a response with a Retry-After header."""
LONGEST_PAUSE_SECONDS = 5.0

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
"""Content type for server-side apply. The body is JSON, which is valid YAML.
https://kubernetes.io/docs/reference/using-api/server-side-apply/"""


class Unreachable(Exception):
    """The API server did not respond."""


class ApiError(Exception):
    """An error status returned by the API server."""

    def __init__(self, code: int, status: Mapping[str, Any]) -> None:
        super().__init__(str(status.get("message") or f"the server responded with status {code}"))
        self.code = code
        self.reason = str(status.get("reason") or "")
        self.details: Mapping[str, Any] = status.get("details") or {}

    @property
    def not_found(self) -> bool:
        return self.code == 404

    @property
    def is_namespace_missing(self) -> bool:
        return self.code == 404 and self.details.get("kind") == "namespaces"

    @property
    def is_already_exists(self) -> bool:
        return self.reason == "AlreadyExists"

    @property
    def is_conflict(self) -> bool:
        return self.code == 409 and self.reason == "Conflict"

    @property
    def is_forbidden(self) -> bool:
        return self.code == 403


class Api:
    """Thread-safe client for one API server."""

    def __init__(self, access: Access, credentials: Credentials, read_seconds: float = READ_SECONDS) -> None:
        self.server = access.server
        self._credentials = credentials
        self._read_seconds = read_seconds
        options: dict[str, Any] = {"maxsize": CONNECTIONS, "retries": False, "block": False}
        if access.server.startswith("https:"):
            options |= {"ssl_context": _create_tls_context(access), "server_hostname": access.server_name}
            options |= {"assert_hostname": False} if access.insecure else {}
        options = {name: value for name, value in options.items() if value is not None}
        self._pool = urllib3.ProxyManager(access.proxy, **options) if access.proxy else urllib3.PoolManager(**options)

    def get(self, path: str, **query: str) -> Object:
        return self.request("GET", path, query)

    def request(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None, content_type: str = JSON
    ) -> Object:
        """Send a request and return the object in the response. Raises ApiError or Unreachable."""
        for attempt in range(RETRIES + 1):
            try:
                answer = self._send(method, path, query, body, content_type)
            except (urllib3.exceptions.HTTPError, NoCredential) as error:
                if attempt < RETRIES and _can_retry(error, method, content_type, body):
                    time.sleep(0.1 * (attempt + 1))
                    continue
                raise Unreachable(self._format_error(method, path, error)) from error
            if answer.status == 401:
                self._credentials.discard_token()
            pause = answer.headers.get("Retry-After")
            if answer.status in (429, 500, 502, 503, 504) and pause and attempt < RETRIES:
                time.sleep(min(float(pause) if pause.isdigit() else 1.0, LONGEST_PAUSE_SECONDS))
                continue
            return _parse_response(answer.status, answer.data)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def watch(self, path: str, seconds: int, stop: threading.Event, **query: str) -> Iterator[Object]:
        """Yield watch events for `seconds`, or until the server ends the watch or `stop` is set."""
        parameters = {**query, "watch": "true", "timeoutSeconds": str(seconds)}
        try:
            answer = self._send("GET", path, parameters, None, JSON, stream=True, read_seconds=seconds + 5.0)
        except (urllib3.exceptions.HTTPError, NoCredential) as error:
            raise Unreachable(self._format_error("GET", path, error)) from error
        try:
            if answer.status != 200:
                _parse_response(answer.status, answer.read())
            yield from _parse_events(answer, stop)
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(self._format_error("GET", path, error)) from error
        finally:
            answer.close()

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Any,
        content_type: str,
        *,
        stream: bool = False,
        read_seconds: float | None = None,
    ) -> Any:
        headers = {"Accept": JSON, "User-Agent": "local-kubernetes-provider"}
        if authorization := self._credentials.build_header():
            headers["Authorization"] = authorization
        if body is not None:
            headers["Content-Type"] = content_type
        return self._pool.request(
            method,
            self.server + path + (f"?{urlencode(query)}" if query else ""),
            body=None if body is None else json.dumps(body).encode(),
            headers=headers,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds or self._read_seconds),
            preload_content=not stream,
        )

    def _format_error(self, method: str, path: str, error: Exception) -> str:
        """Return an error message with the root cause, without urllib3's object representations."""
        origin: BaseException = error
        while (deeper := origin.__cause__ or origin.__context__) is not None:
            origin = deeper
        return f'{method.capitalize()} "{self.server}{path}": {origin}'


def _can_retry(error: Exception, method: str, content_type: str, body: Any) -> bool:
    """Return whether a request can be retried after a connection failure.

    When an API server stops, it closes connections with requests in flight, and another API server soon takes over. If
    the TLS handshake fails, no request was sent, so a retry is safe. Otherwise, the request must be safe to process
    twice. Creating an object with a given name is safe, because the second attempt fails. If the name is generated, a
    retry could create a second object.
    """
    if isinstance(error, urllib3.exceptions.SSLError):
        return not isinstance(error.args[0], ssl.SSLCertVerificationError)
    if not isinstance(error, urllib3.exceptions.ProtocolError) or content_type == JSON_PATCH:
        return False
    return method != "POST" or bool(body and body.get("metadata", {}).get("name"))


def _parse_events(answer: Any, stop: threading.Event) -> Iterator[Object]:
    rest = b""
    for part in answer.stream(amt=None, decode_content=True):
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if stop.is_set():
                return
            if line.strip():
                event = json.loads(line)
                if event.get("type") == "ERROR":
                    raise ApiError(int(event["object"].get("code") or 500), event["object"])
                yield event


def _parse_response(code: int, data: bytes) -> Object:
    try:
        parsed = json.loads(data) if data else {}
    except ValueError:
        parsed = {"message": data.decode(errors="replace").strip()}
    if not isinstance(parsed, dict):
        parsed = {"message": str(parsed)}
    if code >= 400:
        raise ApiError(code, parsed)
    return parsed


def _create_tls_context(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=access.authority.decode() if access.authority else None)
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.certificate and access.key:
        with tempfile.TemporaryDirectory() as folder:  # OpenSSL loads key pairs only from files
            pair = Path(folder, "pair.pem")
            pair.touch(mode=0o600)
            pair.write_bytes(access.certificate + b"\n" + access.key)
            context.load_cert_chain(pair)
    return context
