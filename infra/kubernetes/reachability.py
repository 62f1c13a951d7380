"""Whether the Kubernetes API can be reached from here: told at once and in one sentence, where the Kubernetes provider would
end each of its objects with an error of its own."""

import base64
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import pulumi

PATIENCE_SECONDS: Final = 60.0
"""The name of a new endpoint takes a while to be known everywhere."""
TIMEOUT_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 2.0
HTTPS: Final = 443

Check = Callable[[str, str, str], None]
"""Takes endpoint, name and certificate authority (base64) of the cluster; raises pulumi.RunError."""


def assume_reachable(endpoint: str, cluster: str, authority: str) -> None:
    """For runs in which nothing is reached, like tests."""


def must_be_reachable(endpoint: str, cluster: str, authority: str) -> None:
    """Open a connection and close it. It is the cluster's own only if its certificate is: proxies accept any address."""
    patience = TIMEOUT_SECONDS if pulumi.runtime.is_dry_run() else PATIENCE_SECONDS
    deadline = time.monotonic() + patience
    while reason := _refused(endpoint, authority):
        if time.monotonic() > deadline:
            _tell(endpoint, cluster, reason)
            return
        time.sleep(PAUSE_SECONDS)


def _refused(endpoint: str, authority: str) -> str | None:
    address = urlsplit(endpoint)
    host = address.hostname or ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=base64.b64decode(authority).decode())
    try:
        with (
            socket.create_connection((host, address.port or HTTPS), TIMEOUT_SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return None
    except OSError as error:  # ssl.SSLError is one
        return str(error)


def _tell(endpoint: str, cluster: str, reason: str) -> None:
    way_out = (
        "run `pulumi up` from inside its network, or from an address in target.endpointAccess.publicCidrs; "
        "or write `platform: {install: false}` to leave the platform out"
    )
    sentence = f"the Kubernetes API of {cluster} at {endpoint} cannot be reached from here ({reason}): {way_out}"
    if pulumi.runtime.is_dry_run():  # the run itself may open the endpoint to this machine
        pulumi.log.warn(sentence)
    else:
        raise pulumi.RunError(sentence)
