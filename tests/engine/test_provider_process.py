"""The provider emulators, run as separate processes."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import psutil
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2_grpc

from localcloud.engine import peers
from localcloud.engine.aws import server as aws
from localcloud.engine.kubernetes import server as kubernetes
from localcloud.processes import ROOT
from testkit.waiting import wait_until

AWS, KUBERNETES = "localcloud.engine.aws", "localcloud.engine.kubernetes"
VERSIONS = {AWS: aws.read_plugin_version, KUBERNETES: kubernetes.plugin_version}


def build_server_command(module: str) -> list[str]:
    return [sys.executable, "-m", module, "--port", "0"]


@contextmanager
def run_server(module: str, ready: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_PROFILE": "nobody"}
    process = subprocess.Popen([*build_server_command(module), "--ready-file", str(ready)], cwd=ROOT, env=environment)
    try:
        wait_until(lambda: ready.exists() or process.poll() is not None)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("module", VERSIONS)
def test_the_provider_listens_on_loopback_and_stops_on_request(module: str, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with run_server(module, ready) as process:
        report = json.loads(ready.read_text())
        assert report["pid"] == process.pid
        listening = [
            connection.laddr
            for connection in psutil.Process(process.pid).net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert [(address.ip.removeprefix("::ffff:"), address.port) for address in listening] == [("127.0.0.1", report["port"])]
        with grpc.insecure_channel(f"127.0.0.1:{report['port']}") as channel:
            assert provider_pb2_grpc.ResourceProviderStub(channel).GetPluginInfo(empty_pb2.Empty()).version == VERSIONS[module]()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert not ready.exists()


CALL_AS_NOBODY = """
import os, sys
import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2_grpc
os.setuid(65534)
with grpc.insecure_channel(sys.argv[1]) as channel:
    try:
        print(provider_pb2_grpc.ResourceProviderStub(channel).GetPluginInfo(empty_pb2.Empty()).version)
    except grpc.RpcError as error:
        print(error.code().name, error.details())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process of another user")
@pytest.mark.parametrize("module", VERSIONS)
def test_the_provider_rejects_calls_from_another_user(module: str, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with run_server(module, ready):
        address = f"127.0.0.1:{json.loads(ready.read_text())['port']}"
        result = subprocess.run(
            [sys.executable, "-c", CALL_AS_NOBODY, address], capture_output=True, text=True, timeout=60, check=True
        )
    assert result.stdout == "PERMISSION_DENIED only the user who started this server may call it\n"


def test_a_closed_connection_has_no_owner() -> None:
    """The kernel would report root as the owner of the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        ports = client.getsockname()[1], listener.getsockname()[1]
        accepted, _ = listener.accept()
        with accepted:
            assert peers.find_connection_uid(*ports) == os.getuid()
            assert peers.find_connection_uid(ports[1], ports[0]) == os.getuid(), "the other end"
            client.shutdown(socket.SHUT_WR)
            assert peers.find_connection_uid(*ports) is None
            client.close()
            assert peers.find_connection_uid(*ports) is None


def test_the_provider_does_not_start_without_local_aws() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "AWS_ENDPOINT_URL"}
    result = subprocess.run(
        build_server_command(AWS), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 2
    assert result.stderr == "AWS_ENDPOINT_URL is not set: the local provider works only with a local AWS\n"
