"""Health endpoint for the kubelet."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8080
SILENT_SECONDS = 120
"""Maximum time between two rounds of the loop, long enough for a short outage of the API server."""


class Health:
    """Serves /healthz. The loop calls `beat` in each round."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def beat(self) -> None:
        self._last = time.monotonic()

    @property
    def is_alive(self) -> bool:
        return time.monotonic() - self._last < SILENT_SECONDS

    def serve(self, port: int = PORT) -> None:
        health = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known = self.path == "/healthz"
                self.send_response(404 if not known else 200 if health.is_alive else 503)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Do not log the kubelet's requests."""

        server = ThreadingHTTPServer(("", port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True, name="health").start()
