"""Forward proxy (HTTP and CONNECT) for package managers, in place of a VPC's NAT gateway.

It connects to public addresses only, like a NAT gateway, and to the package registries that this machine is configured
to use. It does not connect to this machine or to others in its private network.
"""

import ipaddress
import select
import socket
import threading
from collections.abc import Collection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import psutil

from localcloud.hosts import package_registries

CONNECT_SECONDS = 20.0
IDLE_SECONDS = 120.0
CHUNK = 1 << 16
PRIVATE_NETWORKS = tuple(
    map(ipaddress.ip_network, ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"))
)
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
    """The destination is in a private network, or an address of this machine."""


def resolve_destination(host: str, port: int, registries: Collection[str]) -> tuple[str, int]:
    """Resolve the destination of a request. `registries`: hosts that may have a private address. Raises Forbidden or
    OSError."""
    for *_, socket_address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        address = ipaddress.ip_address(str(socket_address[0]).partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast:
            continue
        if host in registries or not (any(address in network for network in PRIVATE_NETWORKS) or is_own_address(str(address))):
            return str(address), port
    raise Forbidden(host)


def is_own_address(address: str) -> bool:
    """Return whether this machine has this address. Its servers may listen on all of its addresses."""
    return any(address == own.address for interface in psutil.net_if_addrs().values() for own in interface)


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
            destination = resolve_destination(host, port, package_registries.list_registry_hosts())
            far = socket.create_connection(destination, CONNECT_SECONDS)
        except Forbidden:
            self.send_error(403, "the proxy connects only to public addresses")
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
