"""Server on 127.0.0.1 that connects Session Manager sessions to ports on hosts. Clients authenticate with a token.

A connection starts with the token and a line feed. After that, the server forwards bytes in both directions.
"""

import logging
import secrets
import socket
import threading
from collections.abc import Callable

from localcloud.hosts.proxy import relay_streams

log = logging.getLogger(__name__)

TOKEN_BYTES = 200
SECONDS = 20.0
Connect = Callable[[], socket.socket]


class SessionServer:
    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sessions: dict[str, Connect] = {}
        threading.Thread(target=self._accept_connections, name="sessions", daemon=True).start()

    def open(self, instance_id: str, connect: Connect) -> tuple[str, str]:
        """Return the URL and token of a new session. Clients can open several connections with the same token."""
        token = secrets.token_urlsafe(40)
        self._sessions[token] = connect
        port = self._listener.getsockname()[1]
        return f"ws://127.0.0.1:{port}/v1/data-channel/{instance_id}", token

    def close(self) -> None:
        self._sessions.clear()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept_connections(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._relay_connection, args=(near,), name="session", daemon=True).start()

    def _relay_connection(self, near: socket.socket) -> None:
        with near:
            near.settimeout(SECONDS)
            try:
                connect = self._sessions.get(_read_line(near))
                if connect is None:
                    return
                with connect() as far:
                    near.settimeout(None)
                    far.settimeout(None)
                    relay_streams(near, far, idle_seconds=None)
            except OSError as error:
                log.info("session: %s", error)


def _read_line(near: socket.socket) -> str:
    text = b""
    while not text.endswith(b"\n"):
        more = near.recv(1)
        if not more or len(text) > TOKEN_BYTES:
            return ""
        text += more
    return text.decode(errors="replace").strip()
