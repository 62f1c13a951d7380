"""The admission webhook for pods and the agent that serves credentials. Both run in the local AWS process."""

import base64
import json
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import Any

from localcloud.http_guard import Guarded
from localcloud.kubernetes.pod_identity.credentials import CredentialsRefused

log = logging.getLogger(__name__)

MUTATE_PATH = "/mutate"
CREDENTIALS_PATH = "/v1/credentials"
_TIMEOUT_SECONDS = 20.0
Json = dict[str, Any]
Mutate = Callable[[Json], list[Json]]
"""Function that returns the JSON patch for a pod. The pod's metadata must include its namespace."""
Assume = Callable[[str], dict[str, str]]
"""Function that returns credentials for the pod to which a token is bound. Raises CredentialsRefused."""


class _Handler(Guarded):
    """Base class of handlers that respond with JSON. The handlers log requests at debug level instead of to stderr."""

    timeout = _TIMEOUT_SECONDS

    def send_answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


def serve_webhook(listener: socket.socket, context: ssl.SSLContext, mutate: Mutate) -> Callable[[], None]:
    """Serve AdmissionReview requests over TLS. Call the function that this returns to stop the server."""

    class Handler(_Handler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            request = review["request"]
            response: Json = {"uid": request["uid"], "allowed": True}
            pod = request["object"]
            pod.setdefault("metadata", {}).setdefault("namespace", request["namespace"])
            if operations := mutate(pod):
                text = json.dumps(operations).encode()
                response |= {"patchType": "JSONPatch", "patch": base64.b64encode(text).decode()}
            answer = {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
            self.send_answer(200, json.dumps(answer).encode())

    # Each handler thread does its own TLS handshake, so a silent client cannot block other clients.
    return _start_server(context.wrap_socket(listener, server_side=True, do_handshake_on_connect=False), Handler)


def serve_agent(listener: socket.socket, assume: Assume) -> Callable[[], None]:
    """Serve credentials to AWS SDKs. Call the function that this returns to stop the server."""

    class Handler(_Handler):
        def do_GET(self) -> None:
            if self.path != CREDENTIALS_PATH:
                self.send_answer(404, b"404 page not found\n", "text/plain")
                return
            try:
                answer = assume(self.headers.get("Authorization", ""))
            except CredentialsRefused as refused:
                self.send_answer(refused.status, f"{refused}\n".encode(), "text/plain")
            else:
                self.send_answer(200, json.dumps(answer).encode())

    return _start_server(listener, Handler)


def _start_server(listener: socket.socket, handler: type[_Handler]) -> Callable[[], None]:
    server = ThreadingHTTPServer(("", 0), handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, name="pod-identity", daemon=True)
    thread.start()

    def stop_server() -> None:
        server.shutdown()
        thread.join()
        server.server_close()

    return stop_server
