"""Emulator of AWS's session-manager-plugin. It supports two SSM documents.

`AWS-StartSSHSession` connects stdin and stdout to the host.
`AWS-StartPortForwardingSession` forwards connections from a local port to the host, until the plugin is stopped.

`aws ssm start-session` runs session-manager-plugin RESPONSE REGION StartSession PROFILE PARAMETERS ENDPOINT. RESPONSE
is JSON, or the name of an environment variable that contains the JSON:
https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager.html
"""

import json
import os
import select
import socket
import sys
import threading
from urllib.parse import urlsplit

from localcloud.hosts.proxy import pump

VERSION = "1.2.764.0"
"""Version that the emulator reports: the oldest version that the AWS CLI does not consider outdated."""
CHUNK = 1 << 16


def main(arguments: list[str]) -> int:
    if not arguments or arguments == ["--version"]:
        print(VERSION)
        return 0
    response = json.loads(os.environ.get(arguments[0]) or arguments[0])
    session = json.loads(arguments[4]) if len(arguments) > 4 else {}
    if session.get("DocumentName") == "AWS-StartSSHSession":
        with _connect(response) as far:
            _carry(far)
    elif session.get("DocumentName") == "AWS-StartPortForwardingSession":
        _forward(response, int(session["Parameters"]["localPortNumber"][0]))
    else:
        print(f"the local session-manager-plugin does not support this session: {session!r}", file=sys.stderr)
        return 2
    return 0


def _connect(response: dict[str, str]) -> socket.socket:
    """Open a new connection for the session."""
    address = urlsplit(response["StreamUrl"])
    far = socket.create_connection((address.hostname or "", address.port or 0))
    far.sendall(response["TokenValue"].encode() + b"\n")
    return far


def _forward(response: dict[str, str], port: int) -> None:
    with socket.create_server(("127.0.0.1", port)) as listener:
        print(f"Port {port} opened for sessionId {response['SessionId']}.\nWaiting for connections...", flush=True)
        while True:
            near, _ = listener.accept()
            threading.Thread(target=_join, args=(near, response), daemon=True).start()


def _join(near: socket.socket, response: dict[str, str]) -> None:
    with near, _connect(response) as far:
        pump(near, far, idle_seconds=None)


def _carry(far: socket.socket) -> None:
    """Copy data between stdin/stdout and the host until the host closes the connection. Forward end-of-file on stdin to
    the host."""
    ends: list[int] = [0, far.fileno()]
    while far.fileno() in ends:
        for end in select.select(ends, [], [])[0]:
            data = os.read(end, CHUNK)
            if end == 0:
                if data:
                    far.sendall(data)
                else:
                    ends.remove(0)
                    far.shutdown(socket.SHUT_WR)
            elif not data:
                return
            else:
                _write(data)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
