"""The stand-in as a process of its own."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import psutil
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2_grpc

from localcloud.engine.kubernetes.server import plugin_version
from localcloud.processes import ROOT
from tests.engine.waiting import until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    ready = tmp_path / "ready"
    command = [sys.executable, "-m", "localcloud.engine.kubernetes", "--port", "0", "--ready-file", str(ready)]
    process = subprocess.Popen(command, cwd=ROOT)
    until(lambda: ready.exists() or process.poll() is not None)
    yield process, ready
    process.kill()
    process.wait()


def test_it_serves_on_loopback_and_ends_when_it_is_asked_to(server: tuple[subprocess.Popen[bytes], Path]) -> None:
    process, ready = server
    told = json.loads(ready.read_text())
    assert told["pid"] == process.pid
    listening = [one.laddr for one in psutil.Process(process.pid).net_connections("inet") if one.status == psutil.CONN_LISTEN]
    assert [(address.ip.removeprefix("::ffff:"), address.port) for address in listening] == [("127.0.0.1", told["port"])]
    with grpc.insecure_channel(f"127.0.0.1:{told['port']}") as channel:
        assert provider_pb2_grpc.ResourceProviderStub(channel).GetPluginInfo(empty_pb2.Empty()).version == plugin_version()
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert not ready.exists()
