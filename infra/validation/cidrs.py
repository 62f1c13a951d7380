"""CIDRs in a user's text."""

from ipaddress import IPv4Address, IPv4Network

from infra.config.messages import shown


def parsed(text: str, example: str) -> IPv4Network | str:
    """The network, or what is wrong with the text."""
    try:
        return IPv4Network(text)
    except ValueError:
        pass
    address, slash, bits = text.partition("/")
    try:
        wide = IPv4Network(text, strict=False)
        single = IPv4Address(address)
    except ValueError:
        return f"{shown(text)} is not a range of IPv4 addresses; write one like {example}"
    return f"{shown(text)} is not the beginning of a /{bits}; write {wide}" + (f" or {single}/32" if slash else "")
