"""The public IPv4 address of this machine, as a web service sees it."""

import http.client
import ipaddress
import os
import urllib.error
import urllib.request
from typing import Final

from cli.within import within
from infra.config.messages import shown

CHECKIP: Final = "https://checkip.amazonaws.com"
"""AWS's own service; it answers with the caller's address as text."""
URL_VARIABLE: Final = "GPUMPI_CHECKIP_URL"
"""Another service that answers the same way, for tests and for networks that do not reach AWS's."""
LIMIT_SECONDS: Final = 2.0
MAX_BYTES: Final = 64


class Undetected(Exception):
    """The address is not known; the message says why."""


def url() -> str:
    return os.environ.get(URL_VARIABLE) or CHECKIP


def detect() -> ipaddress.IPv4Address:
    """Ask the service. Raises Undetected, at the latest after two seconds."""
    try:
        answer = within(LIMIT_SECONDS, _answer)
    except urllib.error.HTTPError as error:
        raise Undetected(f"{url()} answered HTTP {error.code}") from None
    except (OSError, ValueError) as error:  # URLError and TimeoutError are OSErrors
        reason = getattr(error, "reason", None) or error
        raise Undetected(f"{url()}: {getattr(reason, 'strerror', None) or reason}") from None
    except http.client.HTTPException as error:
        raise Undetected(f"{url()}: {type(error).__name__}") from None
    return _public(answer)


def _answer() -> str:
    with urllib.request.urlopen(url(), timeout=LIMIT_SECONDS) as response:
        return str(response.read(MAX_BYTES).decode("ascii", errors="replace")).strip()


def _public(answer: str) -> ipaddress.IPv4Address:
    try:
        address = ipaddress.IPv4Address(answer)
    except ValueError:
        raise Undetected(f"{url()} answered {shown(answer)}, which is not an IPv4 address") from None
    if not address.is_global or address.is_multicast:
        raise Undetected(f"{url()} answered {address}, which is not a public address")
    return address
