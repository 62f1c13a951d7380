"""CIDRs that a user writes."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, collapse_addresses

from infra.config.messages import shown
from infra.config.problems import Problem, warning

DOCUMENTATION = tuple(IPv4Network(text) for text in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"))
"""https://www.rfc-editor.org/rfc/rfc5737"""


def parsed(text: str, example: str) -> IPv4Network | str:
    """The network, or what is wrong with the text."""
    address, slash, bits = text.partition("/")
    try:
        wide = IPv4Network(text, strict=False)
        single = IPv4Address(address)
    except ValueError:
        return f"{shown(text)} is not an IPv4 CIDR block; write one like {example}"
    if not slash:
        return f"{shown(text)} is a single address, not a CIDR block; write {single}/32"
    if not bits.isdecimal():
        return f"{shown(text)} has no prefix length; write {wide}"
    if wide.network_address != single:
        return f"{shown(text)} has host bits set; write {wide} or {single}/32"
    return wide


def open_to_everyone(path: str, texts: Sequence[str], fix: str) -> Iterator[Problem]:
    """CIDR blocks that cover all of IPv4, one alone or several together."""
    blocks = {index: block for index, text in enumerate(texts) if isinstance(block := parsed(text, ""), IPv4Network)}
    single = [index for index, block in blocks.items() if block.prefixlen == 0]
    for index in single:
        yield Problem(f"{path}[{index}]", f"{shown(texts[index])} is the whole internet; {fix}")
    if not single and any(block.prefixlen == 0 for block in collapse_addresses(blocks.values())):
        yield Problem(path, f"together cover the whole internet; {fix}")


def documentation(path: str, texts: Sequence[str]) -> Iterator[Problem]:
    """Example addresses that were left in: nobody has one, so nobody gets in."""
    for index, text in enumerate(texts):
        block = parsed(text, "")
        if isinstance(block, IPv4Network) and any(block.subnet_of(example) for example in DOCUMENTATION):
            fix = "write your own, https://checkip.amazonaws.com shows it"
            yield warning(f"{path}[{index}]", f"{shown(text)} is an example address that nobody has (RFC 5737); {fix}")
