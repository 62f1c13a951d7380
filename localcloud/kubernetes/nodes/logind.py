"""Emulator of the parts of systemd-logind that a node's kubelet uses: inhibitors that delay a shutdown, and the
signal that announces a shutdown.

On EKS's AMIs for Kubernetes 1.34 and newer, the kubelet terminates pods gracefully before the instance shuts down.
The kubelet immediately reports its node as NotReady, and gives pods their grace period.
https://github.com/awslabs/amazon-eks-ami/pull/2390
https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/
"""

import os
import select
import socket
import threading
from array import array
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from jeepney import HeaderFields, Message, MessageType, Parser, new_error, new_method_return, new_signal
from jeepney.wrappers import DBusAddress

SOCKET: Final = Path("/run/dbus/system_bus_socket")
DELAY_SECONDS: Final = 150
"""Maximum delay of a shutdown. nodeadm requests 2 min 30 s, because EC2 gives an instance several minutes to shut
down."""
CRITICAL_SECONDS: Final = 30
"""Part of DELAY_SECONDS that is reserved for critical pods."""
POLL_SECONDS: Final = 0.2
LOGIN: Final = DBusAddress("/org/freedesktop/login1", "org.freedesktop.login1", "org.freedesktop.login1.Manager")
ANSWERS: Final = {
    b"AUTH EXTERNAL": b"DATA",
    b"DATA": b"OK 00000000000000000000000000000000",
    b"NEGOTIATE_UNIX_FD": b"AGREE_UNIX_FD",
}
"""SASL answers for godbus, the D-Bus client of the kubelet. The answers contain no real authentication, because the
socket already identifies the client."""
UNKNOWN: Final = "org.freedesktop.DBus.Error.UnknownMethod"


class Logind:
    """System bus of a node with one service: logind's inhibitors and its signal PrepareForShutdown."""

    def __init__(self, path: Path) -> None:
        """`path`: the bus's socket, as this process sees it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._clients: dict[socket.socket, list[int]] = {}
        """Maps each client connection to one pipe per inhibitor of the client. Once the client closes its end of a pipe, that
        inhibitor no longer delays the shutdown."""
        self._lock = threading.Lock()
        threading.Thread(target=self._accept_connections, name=f"logind {path}", daemon=True).start()

    def shut_down(self, is_over: Callable[[], bool], seconds: float = DELAY_SECONDS) -> None:
        """Announce the shutdown, and wait until no inhibitor delays it."""
        with self._lock:
            clients = list(self._clients)
        for client in clients:
            with suppress(OSError):
                client.sendall(new_signal(LOGIN, "PrepareForShutdown", "b", (True,)).serialise(serial=1))
        for _ in range(round(seconds / POLL_SECONDS)):
            if is_over() or not self._wait_for_release():
                return

    def stop(self) -> None:
        self._listener.close()
        with self._lock:
            clients = list(self._clients)
        for client in clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def _wait_for_release(self) -> bool:
        """Wait briefly, and return whether an inhibitor remains."""
        with self._lock:
            for inhibitors in self._clients.values():
                for file in [inhibitor for inhibitor in inhibitors if _is_released(inhibitor)]:
                    inhibitors.remove(file)
                    os.close(file)
            left = [file for inhibitors in self._clients.values() for file in inhibitors]
        if left:
            select.select(left, [], [], POLL_SECONDS)
        return bool(left)

    def _accept_connections(self) -> None:
        with suppress(OSError):  # closed by `stop`
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve_client, args=(client,), daemon=True).start()

    def _serve_client(self, client: socket.socket) -> None:
        with self._lock:
            self._clients[client] = []
        try:
            parser = Parser()
            parser.add_data(_authenticate(client))
            while True:
                while (message := parser.get_next_message()) is None:
                    data = client.recv(4096)
                    if not data:
                        return
                    parser.add_data(data)
                self._answer_message(client, message)
        except OSError:
            return
        finally:
            with self._lock:
                files = self._clients.pop(client)
            for file in files:
                os.close(file)
            client.close()

    def _answer_message(self, client: socket.socket, message: Message) -> None:
        if message.header.message_type is not MessageType.method_call:
            return
        fields = message.header.fields
        method = f"{fields.get(HeaderFields.interface)}.{fields[HeaderFields.member]}"
        if method == f"{LOGIN.interface}.Inhibit":
            self._create_inhibitor(client, message)
            return
        answers: dict[str, tuple[str, tuple[Any, ...]]] = {
            "org.freedesktop.DBus.Hello": ("s", (":1.1",)),
            "org.freedesktop.DBus.AddMatch": ("", ()),
            "org.freedesktop.DBus.RemoveMatch": ("", ()),
        }
        if method == "org.freedesktop.DBus.Properties.Get" and message.body == (LOGIN.interface, "InhibitDelayMaxUSec"):
            answer = new_method_return(message, "v", (("t", DELAY_SECONDS * 1_000_000),))
        elif method in answers:
            answer = new_method_return(message, *answers[method])
        else:
            answer = new_error(message, UNKNOWN, "s", (f"{method} is not emulated",))
        client.sendall(answer.serialise(serial=1))

    def _create_inhibitor(self, client: socket.socket, message: Message) -> None:
        """Send the client a file descriptor. The inhibitor delays the shutdown until all copies of the descriptor are
        closed."""
        read_end, theirs = os.pipe()
        with self._lock:
            self._clients[client].append(read_end)
        answer = new_method_return(message, "h", (theirs,))
        files = array("i")
        data = answer.serialise(serial=1, fds=files)
        try:
            socket.send_fds(client, [data], list(files))
        finally:
            os.close(theirs)


def _is_released(file: int) -> bool:
    """Return whether the other end of a pipe is closed: if so, a read does not block."""
    return bool(select.select([file], [], [], 0)[0])


def _authenticate(client: socket.socket) -> bytes:
    """Handle the server side of SASL authentication; return the bytes that the client has sent after it.
    https://dbus.freedesktop.org/doc/dbus-specification.html
    """
    rest = b""
    while True:
        while b"\r\n" not in rest:
            data = client.recv(4096)
            if not data:
                raise ConnectionError("closed while authenticating")
            rest += data
        line, rest = rest.split(b"\r\n", 1)
        line = line.lstrip(b"\0")
        if line == b"BEGIN":
            return rest
        client.sendall(ANSWERS.get(line, b"REJECTED EXTERNAL") + b"\r\n")
