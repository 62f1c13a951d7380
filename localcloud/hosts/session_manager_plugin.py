"""Emulator of AWS's session-manager-plugin. The plugin supports two SSM documents.

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

from localcloud.hosts.proxy import relay_streams

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
        with _open_connection(response) as far:
            _relay_stdio(far)
    elif session.get("DocumentName") == "AWS-StartPortForwardingSession":
        _forward_port(response, int(session["Parameters"]["localPortNumber"][0]))
    else:
        print(f"the local session-manager-plugin does not support this session: {session!r}", file=sys.stderr)
        return 2
    return 0


def _open_connection(response: dict[str, str]) -> socket.socket:
    """Open a new connection for the session."""
    address = urlsplit(response["StreamUrl"])
    far = socket.create_connection((address.hostname or "", address.port or 0))
    far.sendall(response["TokenValue"].encode() + b"\n")
    return far


def _forward_port(response: dict[str, str], port: int) -> None:
    with socket.create_server(("127.0.0.1", port)) as listener:
        print(f"Port {port} opened for sessionId {response['SessionId']}.\nWaiting for connections...", flush=True)
        while True:
            near, _ = listener.accept()
            threading.Thread(target=_relay_connection, args=(near, response), daemon=True).start()


def _relay_connection(near: socket.socket, response: dict[str, str]) -> None:
    with near, _open_connection(response) as far:
        relay_streams(near, far, idle_seconds=None)


def _relay_stdio(far: socket.socket) -> None:
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
                _write_to_stdout(data)


def _write_to_stdout(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
