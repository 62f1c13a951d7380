"""Check that the Kubernetes API can be reached from here, and report it in one sentence if not.

The Kubernetes provider would fail every object with an error of its own.
"""

import base64
import socket
import ssl
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import pulumi
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

PATIENCE_SECONDS: Final = 60.0
"""DNS takes a while to know the name of a new endpoint."""
TIMEOUT_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 2.0
HTTPS: Final = 443

Check = Callable[[str, str, str], None]
"""Takes endpoint, name and certificate authority (base64) of the cluster; raises pulumi.RunError."""


def assume_reachable(endpoint: str, cluster: str, authority: str) -> None:
    """For tests, which have no API server."""


def must_be_reachable(endpoint: str, cluster: str, authority: str) -> None:
    """Open a connection and close it. Only the certificate proves that it is the cluster: proxies accept any address."""
    patience = TIMEOUT_SECONDS if pulumi.runtime.is_dry_run() else PATIENCE_SECONDS
    waiting = Retrying(wait=wait_fixed(PAUSE_SECONDS), stop=stop_after_delay(patience), retry=retry_if_result(bool))
    try:
        waiting(_refused, endpoint, authority)
    except RetryError as error:
        _report(endpoint, cluster, error.last_attempt.result())


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


def _report(endpoint: str, cluster: str, reason: str) -> None:
    fix = (
        "run `pulumi up` from inside its network, or from an address in target.endpointAccess.publicCidrs; "
        "or write `platform: {install: false}` to leave the platform out"
    )
    sentence = f"the Kubernetes API of {cluster} at {endpoint} cannot be reached from here ({reason}): {fix}"
    if pulumi.runtime.is_dry_run():  # `up` itself may open the endpoint to this machine
        pulumi.log.warn(sentence)
    else:
        raise pulumi.RunError(sentence)
