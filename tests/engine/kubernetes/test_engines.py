"""Find the engine process at the other end of a connection, and read its environment variables."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from localcloud.engine.kubernetes.engines import read_engine_environment

SERVER = "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); sys.stdin.read()"
CLIENT = """
import socket, sys
own, *servers = map(int, sys.argv[1:])
held = []
for port in servers:
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", own))
    one.connect(("127.0.0.1", port))
    held.append(one)
print(held[0].getsockname()[1], flush=True)
sys.stdin.read()
"""


class Processes:
    """Python programs that keep connections open until the end of the test."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def start(self, program: str, *words: object, **variables: str) -> int:
        """Start a program, and return the port that the program prints."""
        command = [sys.executable, "-c", program, *map(str, words)]
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = self._stack.enter_context(subprocess.Popen(command, env=os.environ | variables, **options))
        self._stack.callback(process.kill)
        return int(process.stdout.readline())


@pytest.fixture
def processes() -> Iterator[Processes]:
    with ExitStack() as stack:
        yield Processes(stack)


def test_the_engine_is_identified_even_if_another_client_uses_the_same_port(processes: Processes) -> None:
    """On Linux, connections to different servers can share a client port, and the kernel lists connections in any
    order."""
    other_servers = [processes.start(SERVER) for _ in range(8)]
    with socket.create_server(("127.0.0.1", 0)) as provider:
        port = processes.start(CLIENT, 0, provider.getsockname()[1], WHO="engine")
        assert processes.start(CLIENT, port, *other_servers, WHO="other") == port
        assert read_engine_environment(f"ipv4:127.0.0.1:{port}")["WHO"] == "engine"


def test_an_unknown_peer_gets_the_environment_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHO", "provider")
    assert read_engine_environment("unix:/nowhere")["WHO"] == "provider"
