"""Guard of the local cloud's HTTP servers against web pages.

A web page can send requests to this machine: from its own origin, or through a host name whose address it changes to a
loopback address (DNS rebinding). Browsers then send the page's origin, or the page's host name.
"""

import re
import ssl
from contextlib import suppress
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler

UNREAD_BYTES = 1 << 16
UNREAD_SECONDS = 1.0
"""Limits for reading the body of a rejected request. If the connection closes with unread data, the client loses the response."""


class Guarded(BaseHTTPRequestHandler):
    """Request handler that rejects a request before a handler's method runs, unless its Host header names the address
    of the connection. The handler rejects every request with an Origin header."""

    timeout = 60.0
    """Seconds after which a silent client no longer occupies a thread."""

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        address, port = self.connection.getsockname()[:2]
        reason = find_refusal_reason(self.path, self.headers, address, port, tls=isinstance(self.connection, ssl.SSLSocket))
        if reason:
            self._refuse_request(f"{reason}\n".encode())
        return not reason

    def _refuse_request(self, body: bytes) -> None:
        self.close_connection = True
        self.send_response(HTTPStatus.FORBIDDEN)
        headers = {"Content-Type": "text/plain", "Content-Length": str(len(body)), "Connection": "close"}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError, ValueError):  # the client has disconnected, or the length is not a number
            self.wfile.write(body if self.command != "HEAD" else b"")
            self.connection.settimeout(UNREAD_SECONDS)
            self.rfile.read(max(0, min(int(self.headers.get("Content-Length", 0)), UNREAD_BYTES)))


def find_refusal_reason(target: str, headers: Message, address: str, port: int, *, tls: bool = False) -> str:
    """Return why a request to a server at this address is rejected; empty if it is accepted.

    The Host header may have labels before the server's name, as in the bucket's or account's own host name that S3
    clients use. Nobody can register a domain that ends in an IP address or in `localhost`.
    """
    if "Origin" in headers:
        return "Requests from web pages, which have an Origin header, are rejected."
    names = (address, "localhost") if address.startswith("127.") else (address,)
    own = [f"{name}:{port}" for name in names] + (list(names) if port == (443 if tls else 80) else [])
    hosts = headers.get_all("Host", [])
    is_own = len(hosts) == 1 and any(re.fullmatch(rf"([a-z0-9_-]+\.)*{re.escape(name)}", hosts[0].lower()) for name in own)
    # Clients that use this server as their proxy send a whole URL.
    is_path = target.startswith(("/", *(f"http://{host}/" for host in hosts)))
    return "" if is_own and is_path else f"The Host header does not name this server. Use {own[0]}."
