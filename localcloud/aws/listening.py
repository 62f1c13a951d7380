"""Addresses that this process listens on: the hosts that clients may have signed their requests for."""

_addresses: set[str] = set()


def add(host: str, port: int) -> None:
    _addresses.add(f"{host}:{port}" if port != 80 else host)


def remove(host: str, port: int) -> None:
    _addresses.discard(f"{host}:{port}" if port != 80 else host)


def is_ours(host: str) -> bool:
    """`host` as in a Host header: with the port, unless it is 80."""
    return host in _addresses


def url() -> str:
    """URL for clients in this process."""
    return next(f"http://{address}" for address in sorted(_addresses) if address.startswith("127.0.0.1"))
