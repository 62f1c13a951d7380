"""Stands in for AWS's session-manager-plugin, for sessions of two documents.

AWS-StartSSHSession              stdin and stdout to the host
AWS-StartPortForwardingSession   connections to a port of this machine to the host, until it is ended

Called by `aws ssm start-session` as session-manager-plugin RESPONSE REGION StartSession PROFILE PARAMETERS ENDPOINT; RESPONSE is
JSON, or the name of a variable with it: https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager.html
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
"""The first that the AWS CLI does not call outdated."""
CHUNK = 1 << 16


def main(arguments: list[str]) -> int:
    if not arguments or arguments == ["--version"]:
        print(VERSION)
        return 0
    response = json.loads(os.environ.get(arguments[0]) or arguments[0])
    asked = json.loads(arguments[4]) if len(arguments) > 4 else {}
    if asked.get("DocumentName") == "AWS-StartSSHSession":
        with _connect(response) as far:
            _carry(far)
    elif asked.get("DocumentName") == "AWS-StartPortForwardingSession":
        _forward(response, int(asked["Parameters"]["localPortNumber"][0]))
    else:
        print(f"the local cloud's session-manager-plugin opens no sessions like {asked!r}", file=sys.stderr)
        return 2
    return 0


def _connect(response: dict[str, str]) -> socket.socket:
    """A new connection of the session."""
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
    """Until the host says that it is over; our end of input is told to it."""
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
