"""Run commands in containers and connect to ports of pods, over the API server's WebSockets.

Each message starts with the number of its channel:
https://github.com/kubernetes/kubernetes/blob/v1.35.0/staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go
"""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from subprocess import CompletedProcess
from typing import IO, Any, Final

from cli.clusters.kubernetes_access import Cluster
from cli.errors import CommandError
from cli.exit_codes import UNREACHABLE

STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
CHUNK: Final = 1 << 18
_HALF_CLOSE: Final = "v5.channel.k8s.io"
"""Subprotocol that lets clients close stdin."""


@dataclass(frozen=True)
class Container:
    """A container of a pod."""

    pod: str
    namespace: str
    name: str


class Command:
    """A command that runs in a container."""

    def __init__(self, cluster: Cluster, where: Container, words: Sequence[str], *, stdin: bool, tty: bool = False) -> None:
        flags = {"stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty}
        query = [("container", where.name), *((name, str(value).lower()) for name, value in flags.items())]
        doing = f"run a command in pod {where.pod}"
        self._where = where
        self._socket = cluster.websocket(
            where.pod, where.namespace, "exec", [*query, *(("command", word) for word in words)], doing=doing
        )

    def send(self, data: bytes) -> None:
        self._send_to_channel(STDIN, data)

    def end_input(self) -> None:
        """Close the command's stdin, if the cluster supports it."""
        if self._socket.subprotocol == _HALF_CLOSE:
            self._send_to_channel(CLOSE, bytes([STDIN]))

    def resize(self, columns: int, rows: int) -> None:
        self._send_to_channel(RESIZE, json.dumps({"Width": columns, "Height": rows}).encode())

    def _send_to_channel(self, channel: int, data: bytes) -> None:
        self._socket.send_binary(bytes([channel]) + data)

    def close(self) -> None:
        self._socket.close()

    def wait(self, on_output: Callable[[int, bytes], object]) -> int:
        """Pass the command's output to `on_output(channel, data)` until it exits; return the exit code.

        Raises CommandError if the command could not be started or the connection was lost.
        """
        status = b""
        try:
            while (message := _receive_message(self._socket)) is not None:
                channel, data = message
                if channel == STATUS:
                    status += data
                elif channel in (STDOUT, STDERR) and data:
                    on_output(channel, data)
        finally:
            self.close()
        return _parse_exit_code(status, self._where)


def _receive_message(socket: Any) -> tuple[int, bytes] | None:
    """Return the channel number and the data of the next message, or None at the end of the connection."""
    import websocket

    while True:
        try:
            code, frame = socket.recv_data_frame(True)
        except (OSError, websocket.WebSocketException):
            return None
        if code == websocket.ABNF.OPCODE_CLOSE:
            return None
        if code in (websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT) and frame.data:
            return frame.data[0], bytes(frame.data[1:])


def _parse_exit_code(status: bytes, where: Container) -> int:
    """Return the exit code that a `Status` object reports.

    >>> _parse_exit_code(b'{"status": "Success"}', Container("a", "b", "c"))
    0
    """
    if not status:
        raise CommandError(f"the connection to pod {where.pod} was lost before the command ended", UNREACHABLE)
    reported = json.loads(status)
    if reported.get("status") == "Success":
        return 0
    causes = reported.get("details", {}).get("causes", [])
    code = next((cause["message"] for cause in causes if cause.get("reason") == "ExitCode"), "")
    if code.isdigit():
        return int(code)
    raise CommandError(f"cannot run the command in pod {where.pod}: {reported.get('message', 'no reason given')}", UNREACHABLE)


def run_command(
    cluster: Cluster, where: Container, words: Sequence[str], stdin: IO[bytes] | None = None
) -> "CompletedProcess[bytes]":
    """Run a command until it exits.

    The command must know the length of its input, because old Kubernetes versions cannot close its stdin.
    """
    output: dict[int, bytearray] = {STDOUT: bytearray(), STDERR: bytearray()}
    command = Command(cluster, where, words, stdin=stdin is not None)
    # Send in another thread. Otherwise, both sides would block if the command writes output while it reads its input.
    threading.Thread(target=_send_input, args=(command, stdin), daemon=True).start()
    code = command.wait(lambda channel, data: output[channel].extend(data))
    return CompletedProcess(words, code, bytes(output[STDOUT]), bytes(output[STDERR]))


def _send_input(command: Command, stdin: IO[bytes] | None) -> None:
    import websocket

    try:
        while chunk := stdin.read(CHUNK) if stdin else b"":
            command.send(chunk)
    except (OSError, websocket.WebSocketException):
        return  # `wait` reports why the command ended


class PortConnection:
    """A TCP connection to a port of a pod.

    containerd 1.6 does not report that the pod has closed its side of the connection (2026-11-23), so HTTP responses
    need a Content-Length header or chunked encoding.
    """

    def __init__(self, cluster: Cluster, pod: str, namespace: str, port: int) -> None:
        doing = f"connect to port {port} of pod {pod}"
        self._socket = cluster.websocket(pod, namespace, "portforward", [("ports", str(port))], doing=doing)
        self._opened: set[int] = set()

    def send(self, data: bytes) -> None:
        self._socket.send_binary(b"\0" + data)

    def receive(self) -> bytes | None:
        """Return received data, or None at the end of the connection.

        Raises CommandError if nothing listens on the port.
        """
        while (message := _receive_message(self._socket)) is not None:
            channel, data = message
            if channel not in self._opened:
                self._opened.add(channel)  # the first message of each channel repeats the port number
            elif channel == 1:
                raise CommandError(" ".join(data.decode(errors="replace").split()), UNREACHABLE)
            elif data:
                return data
        return None

    def close(self) -> None:
        self._socket.close()
