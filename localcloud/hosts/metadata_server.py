"""The metadata service on a socket in a VPC's namespace. The client's address identifies the instance."""

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from localcloud.hosts.metadata import Answer, Credentials, Machine, Sessions, answer

Find = Callable[[str], Machine | None]
"""Private address -> the instance."""
Lend = Callable[[Machine], Credentials]
"""Returns the credentials of an instance's role."""


class MetadataServer(ThreadingHTTPServer):
    """Metadata service of one VPC."""

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


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: MetadataServer

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_PUT = do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Keep requests out of stderr."""

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        machine = self.server.find(self.client_address[0])
        if machine is None:
            return self._send(Answer(404), None)
        headers = {name.lower(): value for name, value in self.headers.items()}
        lend = self.server.lend
        self._send(answer(machine, lambda: lend(machine), self.server.sessions, self.command, self.path, headers), machine)

    def _send(self, answer: Answer, machine: Machine | None) -> None:
        if answer.is_token and machine is not None:
            # The TTL limits the answer to the hops that the launch allows, as on EC2.
            self.connection.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, machine.hop_limit)
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
