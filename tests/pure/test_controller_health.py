"""The health server of the job controller: idle and broken clients neither exhaust its memory nor block the kubelet."""

import errno
import http.client
import socket
from collections.abc import Iterator

import pytest

from infra.platform.job_controller.in_pod import health
from infra.platform.job_controller.in_pod.health import MOST_CONNECTIONS, Health, HealthServer

GIVE_UP_SECONDS = 60
IDLE_CLIENTS = {
    "nothing": b"",
    "part of a request line": b"GET /heal",
    "part of the headers": b"GET /healthz HTTP/1.1\r\nX: ",
    "binary": b"\x16\x03\x01",
}


@pytest.fixture
def server() -> Iterator[HealthServer]:
    server = Health().serve_http(0)
    yield server
    server.shutdown()
    server.server_close()


def connect(server: HealthServer, sent: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.server_port), GIVE_UP_SECONDS)
    client.sendall(sent)
    return client


def read_status(server: HealthServer, path: str = "/healthz") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=GIVE_UP_SECONDS)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


def is_closed_by_server(client: socket.socket) -> bool:
    """Wait until the server closes the connection, and return True. The server may send an error first."""
    try:
        while client.recv(4096):
            pass
    except OSError as error:
        assert error.errno in (errno.ECONNRESET, errno.EPIPE), error
    return True


def test_health_is_served_only_at_its_path(server: HealthServer) -> None:
    assert (read_status(server), read_status(server, "/metrics")) == (200, 404)


@pytest.mark.parametrize("sent", IDLE_CLIENTS.values(), ids=IDLE_CLIENTS)
def test_kubelet_gets_an_answer_while_idle_clients_hold_connections(server: HealthServer, sent: bytes) -> None:
    clients = [connect(server, sent) for _ in range(3 * MOST_CONNECTIONS)]
    assert read_status(server) == 200
    assert all(is_closed_by_server(client) for client in clients[:MOST_CONNECTIONS]), "the oldest connections are closed first"
    assert server.open_connections <= MOST_CONNECTIONS
    for client in clients:
        client.close()


@pytest.mark.parametrize("sent", IDLE_CLIENTS.values(), ids=IDLE_CLIENTS)
def test_a_silent_connection_is_closed_after_a_time_limit(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(health, "CONNECTION_SECONDS", 0.01)
    server = Health().serve_http(0)
    client = connect(server, sent)
    assert is_closed_by_server(client)
    client.close()
    server.shutdown()
    server.server_close()
