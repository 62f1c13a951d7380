"""Stands in for AWS's session-manager-plugin, for sessions of the document AWS-StartSSHSession: stdin and stdout to the host.

Called by `aws ssm start-session` as session-manager-plugin RESPONSE REGION StartSession PROFILE PARAMETERS ENDPOINT; RESPONSE is
JSON, or the name of a variable with it: https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager.html
"""

import json
import os
import select
import socket
import sys
from urllib.parse import urlsplit

VERSION = "1.2.764.0"
"""The first that the AWS CLI does not call outdated."""
CHUNK = 1 << 16


def main(arguments: list[str]) -> int:
    if not arguments or arguments == ["--version"]:
        print(VERSION)
        return 0
    response = json.loads(os.environ.get(arguments[0]) or arguments[0])
    document = json.loads(arguments[4])["DocumentName"] if len(arguments) > 4 else ""
    if document != "AWS-StartSSHSession":
        print(f"the local cloud's session-manager-plugin opens no sessions of the document {document!r}", file=sys.stderr)
        return 2
    address = urlsplit(response["StreamUrl"])
    with socket.create_connection((address.hostname or "", address.port or 0)) as far:
        far.sendall(response["TokenValue"].encode() + b"\n")
        _carry(far)
    return 0


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
