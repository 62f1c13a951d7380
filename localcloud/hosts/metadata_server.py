"""IMDS server on a socket in a VPC's network namespace. The client's address identifies the instance."""

import socket
import threading
from collections.abc import Callable
from http.server import ThreadingHTTPServer

from localcloud.hosts.metadata import Answer, Credentials, Machine, Sessions, handle_request
from localcloud.http_guard import Guarded

Find = Callable[[str], Machine | None]
"""Function that returns the instance with a private IP address, or None if no instance has the address."""
Lend = Callable[[Machine], Credentials]
"""Function that returns credentials for an instance's role."""


class MetadataServer(ThreadingHTTPServer):
    """IMDS server of one VPC."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, find: Find, lend: Lend) -> None:
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.find, self.lend, self.sessions = find, lend, Sessions()
        threading.Thread(target=self.serve_forever, name="instance-metadata", daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(Guarded):
    protocol_version = "HTTP/1.1"
    server: MetadataServer

    def do_GET(self) -> None:
        self._handle_request()

    do_HEAD = do_PUT = do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests to stderr."""

    def _handle_request(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        machine = self.server.find(self.client_address[0])
        if machine is None:
            return self._send_answer(Answer(404), None)
        headers = {name.lower(): value for name, value in self.headers.items()}
        lend = self.server.lend
        self._send_answer(
            handle_request(machine, lambda: lend(machine), self.server.sessions, self.command, self.path, headers), machine
        )

    def _send_answer(self, answer: Answer, machine: Machine | None) -> None:
        if answer.is_token and machine is not None:
            # As on EC2, the IP TTL of a token response is the instance's hop limit.
            self.connection.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, machine.hop_limit)
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
