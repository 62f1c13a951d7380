"""Detect this machine's public IPv4 address by querying a web service."""

import http.client
import ipaddress
import os
import urllib.error
import urllib.request
from typing import Final

from cli.within import run_with_timeout
from infra.config.messages import format_value

CHECKIP: Final = "https://checkip.amazonaws.com"
"""AWS service that returns the caller's address as plain text."""
URL_VARIABLE: Final = "GPUMPI_CHECKIP_URL"
"""Environment variable with the URL of a compatible service, for tests and networks that cannot reach AWS."""
LIMIT_SECONDS: Final = 2.0
MAX_BYTES: Final = 64


class Undetected(Exception):
    """The public address could not be detected; the message gives the reason."""


def read_ip_service_url() -> str:
    return os.environ.get(URL_VARIABLE) or CHECKIP


def detect_address() -> ipaddress.IPv4Address:
    """Query the service and return the address. Raises Undetected on failure, at the latest after two seconds."""
    try:
        answer = run_with_timeout(LIMIT_SECONDS, query_ip_service)
    except urllib.error.HTTPError as error:
        raise Undetected(f"{read_ip_service_url()} returned HTTP {error.code}") from None
    except (OSError, ValueError) as error:  # URLError and TimeoutError are OSErrors
        reason = getattr(error, "reason", None) or error
        raise Undetected(f"{read_ip_service_url()}: {getattr(reason, 'strerror', None) or reason}") from None
    except http.client.HTTPException as error:
        raise Undetected(f"{read_ip_service_url()}: {type(error).__name__}") from None
    return parse_public_address(answer)


def query_ip_service() -> str:
    # `within` enforces the time limit; this timeout only ends the thread that `within` abandons
    with urllib.request.urlopen(read_ip_service_url(), timeout=2 * LIMIT_SECONDS) as response:
        return str(response.read(MAX_BYTES).decode("ascii", errors="replace")).strip()


def parse_public_address(answer: str) -> ipaddress.IPv4Address:
    try:
        address = ipaddress.IPv4Address(answer)
    except ValueError:
        raise Undetected(f"{read_ip_service_url()} returned {format_value(answer)}, which is not an IPv4 address") from None
    if not address.is_global or address.is_multicast:
        raise Undetected(f"{read_ip_service_url()} returned {address}, which is not a public address")
    return address
