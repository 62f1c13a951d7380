"""TCP sockets on which the processes of a local cloud listen, in all of its network namespaces."""

import http.client
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from localcloud.instance import LocalCloud
from localcloud.machine import network
from testkit.raw_http import Answer, Headers, send_request

_LISTENING = "0A"
_ANY = {"0.0.0.0", "::"}
SECONDS = 3.0
"""How long a probe waits for a server that does not speak HTTP."""


@dataclass(frozen=True)
class Listening:
    """A listening socket. `pid` is any process in the socket's network namespace."""

    program: str
    address: str
    port: int
    pid: int = field(compare=False)

    @property
    def authority(self) -> str:
        return f"{self.address}:{self.port}"

    def send_request(self, method: str, target: str, headers: Headers, body: bytes, *, tls: bool) -> Answer | None:
        """Send a request; return None if the server gives no HTTP response."""

        def connect() -> socket.socket:
            where = (self.address, self.port)
            # an absolute path replaces the folder of named namespaces
            return network.run_in_namespace(f"/proc/{self.pid}/ns/net", lambda: socket.create_connection(where, SECONDS))

        try:
            return send_request(connect, method, target, headers, body, tls=tls, seconds=SECONDS)
        except (OSError, http.client.HTTPException):
            return None


def find_listening_sockets(cloud: LocalCloud) -> list[Listening]:
    """Return the listening sockets of all processes that the local cloud's servers have started."""
    roots = [psutil.Process(server.pid) for server in cloud.servers()]
    processes = [*roots, *(child for root in roots for child in root.children(recursive=True))]
    owners: dict[str, str] = {}
    namespaces: dict[Path, int] = {}
    for process in processes:
        with suppress(OSError, psutil.NoSuchProcess):  # it has exited
            owners |= dict.fromkeys(_list_socket_inodes(process.pid), process.name())
            namespaces.setdefault(Path(f"/proc/{process.pid}/ns/net").readlink(), process.pid)
    listening = {
        Listening(owners[inode], address, port, pid)
        for pid in namespaces.values()
        for inode, address, port in _list_listening_sockets(pid)
        if inode in owners
    }
    return sorted(listening, key=lambda listener: (listener.program, listener.address, listener.port))


def _list_socket_inodes(pid: int) -> Iterator[str]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it has been closed
            kind, _, inode = str(descriptor.readlink()).partition(":")
            if kind == "socket":
                yield inode.strip("[]")


def _list_listening_sockets(pid: int) -> Iterator[tuple[str, str, int]]:
    """Yield the inode, IPv4 address and port of each listening socket in the process's network namespace."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            text, port = fields[1].split(":")
            raw = bytes.fromhex(text)
            words = b"".join(raw[start : start + 4][::-1] for start in range(0, len(raw), 4))
            address = socket.inet_ntop(socket.AF_INET if len(words) == 4 else socket.AF_INET6, words)
            if fields[3] == _LISTENING:
                plain = address.removeprefix("::ffff:")
                yield fields[9], "127.0.0.1" if plain in _ANY else plain, int(port, 16)
