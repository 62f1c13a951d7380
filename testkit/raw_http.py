"""HTTP requests whose headers a test chooses completely."""

import http.client
import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass

TIMEOUT_SECONDS = 30.0
Connect = Callable[[], socket.socket]
Headers = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    status: int
    body: str


def send_request(
    connect: Connect,
    method: str,
    target: str,
    headers: Headers,
    body: bytes = b"",
    *,
    tls: bool = False,
    seconds: float = TIMEOUT_SECONDS,
) -> Answer:
    """Send a request with exactly these headers and a Content-Length. Raises OSError or http.client.HTTPException if
    there is no HTTP response."""
    with connect() as connection:
        connection.settimeout(seconds)
        with _unverified_context().wrap_socket(connection) if tls else connection as stream:
            lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
            if body:
                lines.append(f"Content-Length: {len(body)}")
            stream.sendall("\r\n".join([*lines, "", ""]).encode() + body)
            response = http.client.HTTPResponse(stream, method=method)
            response.begin()
            return Answer(response.status, response.read().decode(errors="replace"))


def _unverified_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def connect_to_loopback(port: int) -> Connect:
    return lambda: socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
