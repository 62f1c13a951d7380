"""Restrict gRPC servers on loopback to the user who started them.

Any user of the machine can connect to a loopback port. The emulated providers call the local AWS with its administrator's
key, and the language host runs programs.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS

_CONNECTIONS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = "01"
_LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F")
"""127.0.0.1 in the kernel's tables of IPv4 and IPv6 connections:
https://www.kernel.org/doc/html/latest/networking/proc_net_tcp.html"""
REFUSED = "only the user who started this server may call it"


def create_server(threads: ThreadPoolExecutor, port: int = 0) -> tuple[grpc.Server, int]:
    """Return a server that has not started, and its port on 127.0.0.1. Port 0 selects a free port."""
    same_user = SameUser()
    new = grpc.server(threads, options=_GRPC_CHANNEL_OPTIONS, interceptors=[same_user])
    same_user.port = new.add_insecure_port(f"127.0.0.1:{port}")
    return new, same_user.port


class SameUser(grpc.ServerInterceptor):  # type: ignore[misc]
    """Interceptor that rejects calls from other users' processes."""

    port = 0
    """Port of the server. Set it before the server starts."""

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        if handler is None:
            return None
        return handler._replace(
            **{kind: self._restrict_to_user(getattr(handler, kind)) for kind in _KINDS if getattr(handler, kind)}
        )

    def _restrict_to_user(
        self, behavior: Callable[[Any, grpc.ServicerContext], Any]
    ) -> Callable[[Any, grpc.ServicerContext], Any]:
        def call_if_same_user(request: Any, context: grpc.ServicerContext) -> Any:
            if find_connection_uid(int(context.peer().rpartition(":")[2]), self.port) != os.getuid():
                context.abort(grpc.StatusCode.PERMISSION_DENIED, REFUSED)
            return behavior(request, context)

        return call_if_same_user


_KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


def find_connection_uid(client_port: int, server_port: int) -> int | None:
    """Return the uid of the process that has this connection between two loopback ports, or None if the process has
    closed the connection.

    Only an open connection counts: the kernel reports uid 0 for connections that their process has closed.
    """
    ours = {f"{address}:{client_port:04X} {address}:{server_port:04X} {_ESTABLISHED}" for address in _LOOPBACK}
    for table in _CONNECTIONS:
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            if " ".join(fields[1:4]) in ours and fields[9] != "0":
                return int(fields[7])
    return None
