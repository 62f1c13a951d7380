"""Check that this program can use the Kubernetes API from this machine, and report one error if it cannot.

Without this check, the Kubernetes provider would report a separate error for every object.
"""

import base64
import http.client
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import pulumi
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from infra.config.stopping import stop_with_error
from infra.kubernetes.eks_credentials import create_token

CONNECT_SECONDS: Final = 60.0
"""Time limit for a connection: the DNS name of a new endpoint may not resolve at first."""
ACCESS_SECONDS: Final = 180.0
"""Time limit until the API server accepts this program's credentials. Access entries are eventually consistent:
https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html"""
TIMEOUT_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 2.0
HTTPS: Final = 443
QUESTION: Final = "/api/v1/namespaces?limit=1"
"""A request that only authenticated callers with cluster-wide permissions may make. `/version` and `/healthz` also answer
anonymous callers."""


@dataclass(frozen=True)
class ApiServer:
    """API server of an EKS cluster."""

    cluster: str
    region: str
    endpoint: str
    authority: str
    """Certificate authority, in base64."""


Check = Callable[[ApiServer], None]
"""Raises Stopped if this program cannot use the API server."""


def skip_connection_check(server: ApiServer) -> None:
    """Check nothing. For tests, which have no API server."""


def wait_until_usable(server: ApiServer) -> None:
    """Wait until the API server accepts connections, then until it accepts this program's credentials."""
    where = f"the Kubernetes API of {server.cluster} at {server.endpoint}"
    if reason := _retry_until_success(_check_connection, server, CONNECT_SECONDS):
        fix = (
            "run `pulumi up` from an address in target.endpointAccess.publicCidrs, or from a network that is connected to "
            "the VPC and in privateCidrs; or set `platform: {install: false}` to skip the platform"
        )
        _report_problem(f"{where} cannot be reached from here ({reason}): {fix}")
    elif reason := _retry_until_success(_check_credentials, server, ACCESS_SECONDS):
        fix = (
            "new access entries take up to a few minutes; run `pulumi up` again. If this persists, check with "
            "`aws sts get-caller-identity` that the credentials are those of a principal in target.admins"
        )
        _report_problem(f"{where} does not accept the AWS credentials of this run ({reason}): {fix}")


def _retry_until_success(check: Callable[[ApiServer], str | None], server: ApiServer, patience: float) -> str | None:
    """Repeat the check until it returns None, or return its last result when the time is up."""
    limit = TIMEOUT_SECONDS if pulumi.runtime.is_dry_run() else patience
    try:
        Retrying(wait=wait_fixed(PAUSE_SECONDS), stop=stop_after_delay(limit), retry=retry_if_result(bool))(check, server)
    except RetryError as error:
        reason: str = error.last_attempt.result()
        return reason
    return None


def _check_connection(server: ApiServer) -> str | None:
    """Open and close a connection, and check the certificate. Only the certificate identifies the cluster, because
    proxies accept connections to any address."""
    connection = _create_connection(server)
    try:
        connection.connect()
    except OSError as error:  # includes ssl.SSLError
        return str(error)
    finally:
        connection.close()
    return None


def _check_credentials(server: ApiServer) -> str | None:
    connection = _create_connection(server)
    try:
        connection.request("GET", QUESTION, headers={"Authorization": f"Bearer {create_token(server.cluster, server.region)}"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return str(error)
    finally:
        connection.close()
    return None if status == http.client.OK else f"status {status}"


def _create_connection(server: ApiServer) -> http.client.HTTPSConnection:
    address = urlsplit(server.endpoint)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=base64.b64decode(server.authority).decode())
    return http.client.HTTPSConnection(address.hostname or "", address.port or HTTPS, timeout=TIMEOUT_SECONDS, context=context)


def _report_problem(sentence: str) -> None:
    if pulumi.runtime.is_dry_run():  # `up` itself may open the endpoint to this machine or grant access to it
        pulumi.log.warn(sentence)
    else:
        stop_with_error(sentence)
