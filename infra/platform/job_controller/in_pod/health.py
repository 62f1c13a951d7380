"""Isolation of failures, and the health endpoint for the kubelet."""

import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR
from typing import Any, TypeVar

from .api import LeaseLost

Answer = TypeVar("Answer")
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 300.0
MOST_FAILURES = 10_000
"""Maximum number of failures to remember. Jobs may disappear before they succeed."""
PORT = 8080
CONNECTION_SECONDS, MOST_CONNECTIONS = 5.0, 16
"""Limits of the health server: how long it waits for a client, and how many connections it serves at a time."""
SILENT_SECONDS = 120
"""Maximum time between two heartbeats, long enough for a short outage of the API server."""


class Heart:
    """Last heartbeat of a thread."""

    def __init__(self, seconds: float = SILENT_SECONDS) -> None:
        self._seconds = seconds
        self.beat()

    def beat(self) -> None:
        self._last = time.monotonic()

    @property
    def is_alive(self) -> bool:
        return time.monotonic() - self._last < self._seconds


class HealthServer(ThreadingHTTPServer):
    """Closes the oldest connection if there are too many, so that idle clients cannot block the kubelet."""

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._lock = threading.Lock()
        self._connections: dict[Any, None] = {}
        """Open connections, oldest first."""
        super().__init__(address, handler)

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            oldest = list(self._connections)[: max(0, len(self._connections) - MOST_CONNECTIONS + 1)]
            for connection in oldest:
                del self._connections[connection]
            self._connections[request] = None
        for connection in oldest:
            with suppress(OSError):  # the thread may already have closed the connection
                connection.shutdown(SHUT_RDWR)  # ends the thread, which then closes the connection
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do not log connections that end before the response."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Health:
    """Serves /healthz, which fails if the loop or another thread has no recent heartbeat."""

    def __init__(self) -> None:
        self._loop = Heart()
        self._threads: list[Heart] = []

    def add(self, threads: Iterable[Heart]) -> None:
        self._threads += threads

    def beat(self) -> None:
        """Record a heartbeat of the loop."""
        self._loop.beat()

    @property
    def is_alive(self) -> bool:
        return all(heart.is_alive for heart in (self._loop, *self._threads))

    def serve_http(self, port: int = PORT) -> HealthServer:
        health = self

        class Handler(BaseHTTPRequestHandler):
            timeout = CONNECTION_SECONDS

            def do_GET(self) -> None:
                is_health_check = self.path == "/healthz"
                self.send_response(404 if not is_health_check else 200 if health.is_alive else 503)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Do not log the kubelet's requests."""

        server = HealthServer(("", port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True, name="health").start()
        return server


class Guard:
    """Runs tasks, each identified by a text that is also printed with an error."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, tuple[float, float]] = {}
        """Maps a task to the end and the length of its pause."""

    def run(self, task: str, work: Callable[[], Answer]) -> Answer | None:
        """Run a task and return its result; None if it fails, or failed recently. Raises LeaseLost."""
        end, pause = self._failures.get(task, (0.0, 0.0))
        if task in self._failures and self._clock() < end:
            return None
        try:
            answer = work()
        except LeaseLost:
            raise
        except Exception as error:  # a task must not end the program, whatever a user's objects contain or the API server rejects
            pause = min(2 * pause or PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
            if len(self._failures) >= MOST_FAILURES:
                self._failures.clear()
            self._failures[task] = self._clock() + pause, pause
            print(f"{task}: {type(error).__name__}: {error}; next attempt in {pause:.0f} s", file=sys.stderr, flush=True)
            return None
        self._failures.pop(task, None)
        return answer
