"""Check that the Kubernetes API is reachable from this machine, and report one error if it is not.

Without this check, the Kubernetes provider would report a separate error for every object.
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
"""Time limit for retries: the name of a new endpoint takes a while to resolve."""
TIMEOUT_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 2.0
HTTPS: Final = 443

Check = Callable[[str, str, str], None]
"""Takes the endpoint, name and certificate authority (base64) of a cluster. Raises pulumi.RunError."""


def assume_reachable(endpoint: str, cluster: str, authority: str) -> None:
    """Check nothing. For tests, which have no API server."""


def must_be_reachable(endpoint: str, cluster: str, authority: str) -> None:
    """Open and close a connection, and check the certificate: only it identifies the cluster, because proxies accept
    any address."""
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
    except OSError as error:  # includes ssl.SSLError
        return str(error)


def _report(endpoint: str, cluster: str, reason: str) -> None:
    fix = (
        "run `pulumi up` from inside its network, or from an address in target.endpointAccess.publicCidrs; "
        "or set `platform: {install: false}` to skip the platform"
    )
    sentence = f"the Kubernetes API of {cluster} at {endpoint} cannot be reached from here ({reason}): {fix}"
    if pulumi.runtime.is_dry_run():  # `up` itself may open the endpoint to this machine
        pulumi.log.warn(sentence)
    else:
        raise pulumi.RunError(sentence)
