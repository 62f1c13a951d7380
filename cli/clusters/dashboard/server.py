"""Serve the dashboard's page and its data on loopback, to anyone who has the token in its URL."""

import hmac
import json
import re
import secrets
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from cli.errors import CommandError

LOOPBACK: Final = "127.0.0.1"
_HOST: Final = re.compile(r"(?:127\.0\.0\.1|localhost)(?::\d{1,5})?", re.ASCII | re.IGNORECASE)
"""Hosts that a browser may use. Any other name indicates DNS rebinding: a web page made its own host name resolve
to 127.0.0.1. The port is not compared, because `ssh -L` may forward another one.
"""
PAGE: Final = Path(__file__).parent / "page"
FILES: Final[Mapping[str, tuple[str, str]]] = {
    "": ("index.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "table.js": ("table.js", "text/javascript; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
"""Maps each path below the token to its file and media type. The server offers no other files."""
DATA: Final = "data.json"
HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the URL contains the token
    "X-Content-Type-Options": "nosniff",
}
IDLE_SECONDS: Final = 60

Data = Callable[[], Mapping[str, Any]]


class DashboardServer(ThreadingHTTPServer):
    """HTTP server for the dashboard's page. `data` returns the document that the page shows."""

    daemon_threads = True  # a browser's open connection must not keep the program alive

    def __init__(self, port: int, data: Data) -> None:
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            fix = f"Choose another one: --port {port + 1}, or --port 0 for any." if port else ""
            raise CommandError(f"--port: cannot listen on {LOOPBACK}:{port} ({error.strerror}). {fix}".rstrip()) from None
        self.data = data
        self.token = secrets.token_urlsafe(32)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a browser may close the connection at any time
            super().handle_error(request, client_address)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"


def is_local_host(host: str | None) -> bool:
    """Return whether a request's Host header refers to this machine.

    >>> [is_local_host(host) for host in ("127.0.0.1:8080", "localhost", "evil.example:8080", "127.0.0.1.evil.example", None)]
    [True, True, False, False, False]
    """
    return _HOST.fullmatch(host or "") is not None


def strip_token(path: str, token: str) -> str | None:
    """Return the part of a path below the token; None if the path has another token or none.

    >>> [strip_token(path, "t0k") for path in ("/t0k/page.css", "/t0k/", "/t0k", "/other/page.css", "/")]
    ['page.css', '', None, None, None]
    """
    first, slash, rest = path.removeprefix("/").partition("?")[0].partition("/")
    is_right = hmac.compare_digest(first.encode(), token.encode())
    return rest if is_right and slash else None


class _Handler(BaseHTTPRequestHandler):
    server: DashboardServer
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS

    def version_string(self) -> str:
        return "gpumpi"

    def do_GET(self) -> None:
        if not is_local_host(self.headers.get("Host")):
            return self._send_refusal(HTTPStatus.FORBIDDEN, "this host name is not allowed")
        path = strip_token(self.path, self.server.token)
        if path is None:
            return self._send_refusal(HTTPStatus.FORBIDDEN, "open the URL that the command printed, which contains a token")
        if path == DATA:
            body = json.dumps(self.server.data()).encode()
            return self._send_response(HTTPStatus.OK, "application/json", body)
        if path not in FILES:
            return self._send_refusal(HTTPStatus.NOT_FOUND, "there is no such file")
        name, kind = FILES[path]
        return self._send_response(HTTPStatus.OK, kind, (PAGE / name).read_bytes())

    do_HEAD = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer requests that http.server itself rejects, such as those with an unsupported method."""
        self.close_connection = True
        self._send_refusal(HTTPStatus(code), message or "")

    def _send_refusal(self, status: HTTPStatus, why: str) -> None:
        self._send_response(status, "text/plain; charset=utf-8", f"{status.value} {status.phrase}: {why}\n".encode())

    def _send_response(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: a request every few seconds would fill the terminal, and its path contains the token."""
