"""Connected Pulumi engines: their environment variables, as a plugin started by the engine would inherit them, and
their log services."""

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import grpc
import psutil
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

log = logging.getLogger(__name__)
REMEMBERED = 512
PATIENCE_SECONDS = 5.0


def read_engine_environment(peer: str) -> Mapping[str, str]:
    """Return the environment of the engine at the other end of a connection. If that environment cannot be read, return
    the environment of this process."""
    process = _find_engine_process(peer)
    try:
        return dict(os.environ) if process is None else process.environ()
    except (psutil.Error, OSError):
        return dict(os.environ)


def _find_engine_process(peer: str) -> psutil.Process | None:
    """Return the process at the other end of a connection to this process. `peer` is the address of the connection's
    other end, such as `ipv4:127.0.0.1:51234` or `ipv6:%5B::1%5D:51234`.

    The client port alone does not identify the process: Linux lets connections to different servers share a client
    port."""
    port, own = unquote(peer).rpartition(":")[2], os.getpid()
    if not port.isdigit():
        return None
    try:
        connections = psutil.net_connections("tcp")
        served = {conn.laddr.port for conn in connections if conn.pid == own and conn.laddr and conn.status == psutil.CONN_LISTEN}
        for conn in connections:
            if conn.pid in (None, own) or not (conn.laddr and conn.raddr):
                continue
            if conn.laddr.port == int(port) and conn.raddr.port in served:
                return psutil.Process(conn.pid)
    except (psutil.Error, OSError):
        log.debug("cannot find the engine process of %s", peer, exc_info=True)
    return None


class EngineLogs:
    """gRPC log services of the engines, keyed by connection."""

    def __init__(self) -> None:
        self._stubs: OrderedDict[str, engine_pb2_grpc.EngineStub] = OrderedDict()
        self._addresses: dict[str, str] = {}
        self._lock = threading.Lock()

    def attach(self, peer: str, address: str) -> None:
        """Record the address of the engine's log service."""
        if not address:
            return
        with self._lock:
            if self._addresses.get(peer) == address:
                return
            self._addresses[peer] = address
            self._stubs[peer] = engine_pb2_grpc.EngineStub(grpc.insecure_channel(address))
            while len(self._stubs) > REMEMBERED:
                gone, _ = self._stubs.popitem(last=False)
                self._addresses.pop(gone, None)

    def open_resource_log(self, peer: str, urn: str) -> "ResourceLog":
        with self._lock:
            return ResourceLog(self._stubs.get(peer), urn)


class ResourceLog:
    """Sends log messages about one resource to the engine, which shows them to the user."""

    def __init__(self, stub: engine_pb2_grpc.EngineStub | None, urn: str) -> None:
        self._stub = stub
        self._urn = urn
        self._last = ""

    def warning(self, text: str) -> None:
        self._log(engine_pb2.WARNING, text, ephemeral=False)

    def info(self, text: str) -> None:
        self._log(engine_pb2.INFO, text, ephemeral=False)

    def status(self, text: str) -> None:
        """Show a status next to the resource during the operation. An empty text removes the status."""
        if text != self._last:
            self._last = text
            self._log(engine_pb2.INFO, text, ephemeral=True)

    def _log(self, severity: Any, text: str, *, ephemeral: bool) -> None:
        if self._stub is None:
            return
        request = engine_pb2.LogRequest(severity=severity, message=text, urn=self._urn, streamId=0, ephemeral=ephemeral)
        try:
            self._stub.Log(request, timeout=PATIENCE_SECONDS)
        except grpc.RpcError:
            log.debug("cannot send a log message to the engine of %s", self._urn, exc_info=True)
