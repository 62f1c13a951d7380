"""The local cloud's Kubernetes client retries while an API server restarts."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from localcloud.kubernetes.client import Api, ApiError
from localcloud.kubernetes.pki import Authority

Answer = tuple[int, str]
SHUTTING_DOWN = (503, "apiserver is shutting down")
SHUTTING_DOWN_SLOWLY = (429, "The apiserver is shutting down, please try again later.")


@contextmanager
def serve_answers(folder: Path, answers: list[Answer], *, hangs_up: bool = False) -> Iterator[Api]:
    """Serve these answers in order, and repeat the last one. Answers that remain in the list were not requested. With
    `hangs_up`, the server closes the connection after each answer without a `Connection: close` header.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, message = answers.pop(0) if len(answers) > 1 else answers[0]
            body = json.dumps({"message": message, "client": self.client_address[1]}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = hangs_up

        def log_message(self, format: str, *args: object) -> None: ...

    authority = Authority(folder)
    own = authority.issue("server", addresses=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.file, own.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        api = Api(f"https://127.0.0.1:{server.server_port}", None, authority.certificate, own)
        try:
            yield api
        finally:
            api.close()
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("ending", [SHUTTING_DOWN, SHUTTING_DOWN_SLOWLY])
def test_request_is_retried_when_the_api_server_shuts_down(tmp_path: Path, ending: Answer) -> None:
    with serve_answers(tmp_path, [ending, ending, (200, "here again")]) as api:
        assert api.get("/api/v1/nodes")["message"] == "here again"


@pytest.mark.parametrize("refusal", [(503, "etcd has no leader"), (429, "Cannot evict pod as it would violate the budget")])
def test_non_retryable_api_errors_are_reported_at_once(tmp_path: Path, refusal: Answer) -> None:
    answers = [refusal, (200, "not asked for")]
    with serve_answers(tmp_path, answers) as api, pytest.raises(ApiError, match=refusal[1]) as raised:
        api.get("/api/v1/nodes")
    assert raised.value.status == refusal[0]
    assert len(answers) == 1


def test_requests_share_a_connection_until_the_client_is_closed(tmp_path: Path) -> None:
    with serve_answers(tmp_path, [(200, "")]) as api:
        assert len({api.get("/api/v1/nodes")["client"] for _ in range(3)}) == 1
        api.close()
        assert len({api.get("/api/v1/nodes")["client"] for _ in range(3)}) == 3


def test_a_connection_that_the_api_server_closed_is_replaced(tmp_path: Path) -> None:
    with serve_answers(tmp_path, [(200, "")], hangs_up=True) as api:
        assert len({api.get("/api/v1/nodes")["client"] for _ in range(3)}) == 3


def test_connection_that_ended_without_tls_shutdown_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sending on a closed connection fails with a TLS error, which is not a ConnectionError."""
    with serve_answers(tmp_path, [(200, "")]) as api:
        first = api.get("/api/v1/nodes")["client"]
        with monkeypatch.context() as patched:

            def raise_connection_end(*_: object) -> None:
                patched.undo()
                raise ssl.SSLEOFError(8, "EOF occurred in violation of protocol")

            patched.setattr(HTTPSConnection, "request", raise_connection_end)
            assert api.get("/api/v1/nodes")["client"] != first
