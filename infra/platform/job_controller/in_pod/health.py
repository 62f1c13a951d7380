"""Health endpoint for the kubelet."""

import threading
import time
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8080
SILENT_SECONDS = 120
"""Maximum time between two signs of life, long enough for a short outage of the API server."""


class Heart:
    """Last sign of life of a thread."""

    def __init__(self, seconds: float = SILENT_SECONDS) -> None:
        self._seconds = seconds
        self.beat()

    def beat(self) -> None:
        self._last = time.monotonic()

    @property
    def is_alive(self) -> bool:
        return time.monotonic() - self._last < self._seconds


class Health:
    """Serves /healthz, which fails if the loop or another thread shows no sign of life."""

    def __init__(self) -> None:
        self._loop = Heart()
        self._threads: list[Heart] = []

    def add(self, threads: Iterable[Heart]) -> None:
        self._threads += threads

    def beat(self) -> None:
        """Show that the loop is alive."""
        self._loop.beat()

    @property
    def is_alive(self) -> bool:
        return all(heart.is_alive for heart in (self._loop, *self._threads))

    def serve(self, port: int = PORT) -> None:
        health = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                is_health_check = self.path == "/healthz"
                self.send_response(404 if not is_health_check else 200 if health.is_alive else 503)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Do not log the kubelet's requests."""

        server = ThreadingHTTPServer(("", port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True, name="health").start()
