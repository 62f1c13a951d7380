"""Forward proxy (HTTP and CONNECT) for package managers, in place of a VPC's NAT gateway.

It connects to every address that this machine can reach, except loopback, link-local and multicast addresses.
"""

import ipaddress
import select
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

CONNECT_SECONDS = 20.0
IDLE_SECONDS = 120.0
CHUNK = 1 << 16
_HOP_BY_HOP = ("connection", "proxy-connection", "keep-alive", "te", "trailer", "upgrade")


class Proxy(ThreadingHTTPServer):
    """Proxy that listens on a socket in a VPC's network namespace and connects from outside the namespace."""

    daemon_threads = True

    def __init__(self, listener: socket.socket) -> None:
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        threading.Thread(target=self.serve_forever, name="nat-proxy", daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class Forbidden(Exception):
    """The destination is a loopback, link-local, multicast or unspecified address."""


def resolve_destination(host: str, port: int) -> tuple[str, int]:
    """Resolve the destination of a request. Raises Forbidden or OSError."""
    for *_, socket_address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        address = ipaddress.ip_address(socket_address[0])
        if not (address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast):
            return str(address), port
    raise Forbidden(host)


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests to stderr."""

    def do_CONNECT(self) -> None:
        host, _, port = self.path.rpartition(":")
        far = self._open_connection(host.strip("[]"), int(port) if port.isdigit() else 443)
        if far is None:
            return
        with far:
            self.send_response(200, "Connection established")
            self.end_headers()
            relay_streams(self.connection, far, IDLE_SECONDS)

    def do_GET(self) -> None:
        """Forward a plain HTTP request. Each connection carries one request."""
        self.close_connection = True
        parts = urlsplit(self.path)
        if parts.scheme != "http" or not parts.hostname:
            return self.send_error(400, "the proxy supports only absolute http URLs and CONNECT")
        far = self._open_connection(parts.hostname, parts.port or 80)
        if far is None:
            return None
        with far:
            path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
            headers = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP)
            far.sendall(f"{self.command} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n".encode("latin-1"))
            far.sendall(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            while data := far.recv(CHUNK):
                self.wfile.write(data)
        return None

    do_HEAD = do_POST = do_GET

    def _open_connection(self, host: str, port: int) -> socket.socket | None:
        try:
            far = socket.create_connection(resolve_destination(host, port), CONNECT_SECONDS)
        except Forbidden:
            self.send_error(403, "the proxy does not connect to loopback, link-local or multicast addresses")
        except OSError as error:
            self.send_error(502, str(error))
        else:
            far.settimeout(IDLE_SECONDS)
            return far
        return None


def relay_streams(near: socket.socket, far: socket.socket, idle_seconds: float | None) -> None:
    """Copy data in both directions until both sides have closed the connection or the idle timeout expires."""
    ends = {near: far, far: near}
    open_ends = [near, far]
    while open_ends:
        readable, _, _ = select.select(open_ends, [], [], idle_seconds)
        if not readable:
            return
        for end in readable:
            try:
                data = end.recv(CHUNK)
                if data:
                    ends[end].sendall(data)
                else:
                    open_ends.remove(end)
                    ends[end].shutdown(socket.SHUT_WR)
            except OSError:
                return
