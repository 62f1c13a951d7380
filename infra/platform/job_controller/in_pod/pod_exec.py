"""Runs a command in a container, as `kubectl exec` does: over a WebSocket through the API server.

The first byte of each message is its channel: https://www.rfc-editor.org/rfc/rfc6455 and
https://github.com/kubernetes/kubernetes/blob/v1.35.0/staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from .api import Api, Unreachable, build_resource_path

PROTOCOL = "v4.channel.k8s.io"
STDOUT, STDERR = 1, 2
CLOSE, PING, PONG = 8, 9, 10
LAST, OPCODE, LENGTH = 0x80, 0x0F, 0x7F
LENGTHS = {126: 2, 127: 8}
"""Maps the length code in the second byte to the number of bytes that contain the actual length."""
OUTPUT_BYTES = 1 << 17
"""Limit of the output, and of one message."""


def run_in_pod(api: Api, namespace: str, pod: str, container: str, command: Sequence[str], seconds: float) -> str:
    """Return the output of a command until it ends or the time is up. Raises ApiError and Unreachable."""
    path = build_resource_path("api/v1/namespaces/{}/pods/{}/exec", namespace, pod)
    query = [("container", container), ("stdout", "true"), ("stderr", "true"), *(("command", word) for word in command)]
    end, output = time.monotonic() + seconds, b""
    try:
        for message in read_messages(api.open_upgraded_stream(path, query, PROTOCOL, max(1, round(seconds)))):
            if message[:1] in (bytes([STDOUT]), bytes([STDERR])):
                output += message[1:]
            if time.monotonic() > end or len(output) > OUTPUT_BYTES:
                break
    except OSError as error:
        if not output:
            raise Unreachable(str(error)) from error
    finally:
        api.close()
    return output[:OUTPUT_BYTES].decode(errors="replace")


def read_messages(stream: Any) -> Iterator[bytes]:
    """Yield the messages of a WebSocket until it is closed. Servers do not mask their messages."""
    message = b""
    while len(head := stream.read(2)) == 2:
        opcode, length = head[0] & OPCODE, head[1] & LENGTH
        if length in LENGTHS:
            length = int.from_bytes(stream.read(LENGTHS[length]), "big")
        if length + len(message) > OUTPUT_BYTES:
            return  # a kubelet sends at most 32 KiB per message
        content = stream.read(length)
        if opcode == CLOSE:
            return
        if opcode in (PING, PONG):
            continue
        message += content
        if head[0] & LAST:
            yield message
            message = b""
