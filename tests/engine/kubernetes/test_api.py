"""Requests while an API server stops and another one replaces it."""

import json
import os
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

import pytest

from localcloud.engine.kubernetes.api import APPLY, JSON, JSON_PATCH, Api, ApiError, Unreachable
from localcloud.engine.kubernetes.cluster import Cluster
from localcloud.engine.kubernetes.credentials import Credentials
from localcloud.engine.kubernetes.kubeconfig import Access
from localcloud.engine.kubernetes.settings import Settings
from localcloud.kubernetes.pki import Authority

Turn = Literal["drop", "answer"]
"""Reaction of the server to a connection: close it (`drop`), or answer the request."""
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\nConnection: close\r\n\r\n{"kind": "It"}'


def read_request(connection: socket.socket) -> None:
    """Read the whole request, because closing a socket with unread bytes would send a TCP reset."""
    heard = b""
    while b"\r\n\r\n" not in heard:
        heard += connection.recv(1 << 16)
    head, _, body = heard.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    while length and len(body) < int(length[1]):
        body += connection.recv(1 << 16)


@contextmanager
def run_api_server(turns: list[Turn], authority: Authority | None = None) -> Iterator[Api]:
    """Run a server that, for each connection, removes the next item from `turns` and reacts accordingly. If an
    authority is given, the server uses TLS.
    """
    context = None
    if authority is not None:
        own = authority.issue("server", addresses=["127.0.0.1"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own.file, own.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):  # the listener ends
                while turns:
                    plain, _ = listener.accept()
                    with plain, suppress(OSError):
                        turn = turns.pop(0)
                        if turn == "drop":
                            plain.recv(1 << 16)
                            continue
                        connection = context.wrap_socket(plain, server_side=True) if context else plain
                        read_request(connection)
                        connection.sendall(ANSWER)
                        connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        scheme = "https" if authority else "http"
        trusted = authority.certificate.file.read_bytes() if authority else None
        access = Access(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", authority=trusted)
        try:
            yield Api(access, Credentials(access, {}))
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()


NAMED = {"metadata": {"name": "it"}}
TO_BE_NAMED = {"metadata": {"generateName": "it-"}}


@pytest.mark.parametrize(
    ("method", "content_type"), [("GET", JSON), ("PATCH", APPLY), ("PUT", JSON), ("DELETE", JSON), ("POST", JSON)], ids=str
)
def test_an_idempotent_request_is_retried_when_the_connection_breaks(method: str, content_type: str) -> None:
    with run_api_server(["drop", "drop", "answer"]) as api:
        assert api.request(method, "/api", body=NAMED, content_type=content_type) == {"kind": "It"}


@pytest.mark.parametrize(
    ("method", "body", "content_type"), [("POST", TO_BE_NAMED, JSON), ("PATCH", [], JSON_PATCH)], ids=["create", "change"]
)
def test_a_non_idempotent_request_is_not_retried(method: str, body: object, content_type: str) -> None:
    turns: list[Turn] = ["drop", "answer"]
    with run_api_server(turns) as api, pytest.raises(Unreachable, match=r"closed connection|reset by peer"):
        api.request(method, "/api", body=body, content_type=content_type)
    assert turns == ["answer"]


def test_a_broken_tls_handshake_is_retried_for_every_request(tmp_path: Path) -> None:
    with run_api_server(["drop", "drop", "answer"], Authority(tmp_path)) as api:
        assert api.request("POST", "/api", body=TO_BE_NAMED) == {"kind": "It"}


def test_a_server_certificate_of_an_unknown_authority_fails_at_once(tmp_path: Path) -> None:
    turns: list[Turn] = ["answer", "answer"]
    with run_api_server(turns, Authority(tmp_path / "its")) as api:
        other = Authority(tmp_path / "other").certificate.file.read_bytes()
        access = Access(api.server, authority=other)
        with pytest.raises(Unreachable, match="certificate verify failed"):
            Api(access, Credentials(access, {})).get("/api")
    assert len(turns) == 1


class Door:
    """An API server that rejects tokens below `valid_from`, and a credential plugin that issues the tokens 1, 2, 3 and
    so on."""

    def __init__(self, folder: Path, *, valid_from: int) -> None:
        self.valid_from = valid_from
        self.asked: list[str] = []
        counter = folder / "count"
        counter.write_text("0")
        script = f'n=$(($(cat {counter}) + 1)); echo $n > {counter}; echo "{{\\"status\\": {{\\"token\\": \\"$n\\"}}}}"'
        door = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                door.asked.append(f"{self.path} {self.headers['Authorization']}")
                is_valid = int(self.headers["Authorization"].removeprefix("Bearer ")) >= door.valid_from
                body = json.dumps(RESOURCES if is_valid else {"message": "Unauthorized", "reason": "Unauthorized"}).encode()
                self.send_response(200 if is_valid else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "args": ["-c", script]}
        self.kubeconfig = json.dumps(
            {
                "clusters": [{"name": "it", "cluster": {"server": f"http://127.0.0.1:{self.server.server_port}"}}],
                "users": [{"name": "it", "user": {"exec": plugin}}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
                "current-context": "it",
            }
        )

    @contextmanager
    def open_cluster(self) -> Iterator[Cluster]:
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        try:
            yield Cluster(Settings(kubeconfig=self.kubeconfig), {"PATH": os.environ["PATH"]})
        finally:
            self.server.shutdown()
            self.server.server_close()
            thread.join()


RESOURCES = {"kind": "APIResourceList", "resources": [{"name": "namespaces", "kind": "Namespace", "namespaced": False}]}


def test_a_rejected_token_makes_the_cluster_unreachable_without_retries(tmp_path: Path) -> None:
    """The official provider neither waits for the API server to accept its token nor retries requests."""
    door = Door(tmp_path, valid_from=9)
    with door.open_cluster() as cluster:
        assert cluster.unreachable == "unable to load schema information from the API server: Unauthorized"
    assert [asked.split()[0] for asked in door.asked] == ["/version", "/api/v1"]


def test_a_new_token_is_used_starting_with_the_next_request(tmp_path: Path) -> None:
    door = Door(tmp_path, valid_from=2)
    with door.open_cluster() as cluster:
        assert cluster.unreachable is None
        assert door.asked == ["/version Bearer 1", "/api/v1 Bearer 2"]
        door.valid_from = 3
        with pytest.raises(ApiError, match="Unauthorized"):
            cluster.api.get("/api/v1/namespaces/x")
        assert cluster.api.get("/api/v1/namespaces/x") == RESOURCES
