"""Addresses on which this process listens. Clients sign their requests for these hosts."""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Offer:
    """Part of the control API that a listening socket offers."""

    paths: tuple[str, ...]
    """Prefixes of the paths."""
    token: str = field(repr=False)
    """Bearer token that clients must send."""


NOTHING = Offer((), "")
Serve = Callable[[socket.socket, Offer], Callable[[], None]]
"""Makes the local AWS listen on another socket, which exposes only this part of the control API. Returns a function
that closes the socket."""

_addresses: set[str] = set()


def add_address(host: str, port: int) -> None:
    _addresses.add(f"{host}:{port}" if port != 80 else host)


def remove_address(host: str, port: int) -> None:
    _addresses.discard(f"{host}:{port}" if port != 80 else host)


def is_own_address(host: str) -> bool:
    """Return whether this process listens on `host`. As in a Host header, `host` omits port 80."""
    return host in _addresses


def get_url() -> str:
    """Return the URL for clients in this process."""
    return next(f"http://{address}" for address in sorted(_addresses) if address.startswith("127.0.0.1"))
