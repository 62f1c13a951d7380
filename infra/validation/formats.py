"""Formats of IDs and CIDR blocks in the settings."""

import re
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, collapse_addresses

from infra.config.messages import format_value
from infra.config.problems import Problem, create_warning

_RESOURCES = {
    "vpc": "a VPC",
    "subnet": "a subnet",
    "ami": "an AMI",
    "cr": "a capacity reservation",
}
DOCUMENTATION = tuple(IPv4Network(text) for text in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"))
"""https://www.rfc-editor.org/rfc/rfc5737"""


def check_id_format(path: str, prefix: str, text: str, resource: str | None = None) -> Iterator[Problem]:
    """Check the format of an ID, so that AWS can be queried for it."""
    if not re.fullmatch(rf"{prefix}-([0-9a-f]{{8}}|[0-9a-f]{{17}})", text):
        fix = f"Use one such as {prefix}-0123456789abcdef0."
        yield Problem(path, f"{format_value(text)} is not the ID of {resource or _RESOURCES[prefix]}. {fix}")


def parse_cidr(text: str, example: str) -> IPv4Network | str:
    """Return the parsed network, or an error message if the text is invalid."""
    address, slash, bits = text.partition("/")
    try:
        wide = IPv4Network(text, strict=False)
        single = IPv4Address(address)
    except ValueError:
        return f"{format_value(text)} is not an IPv4 CIDR block. Use one such as {example}."
    if not slash:
        return f"{format_value(text)} is a single address, not a CIDR block. Use {single}/32."
    if not bits.isdecimal():
        return f"{format_value(text)} has no prefix length. Use {wide}."
    if bits != str(wide.prefixlen):
        return f"{format_value(text)} has a prefix length with leading zeros. Use {wide}."
    if wide.network_address != single:
        return f"{format_value(text)} has host bits set. Use {wide} or {single}/32."
    return wide


def check_not_open_to_internet(path: str, texts: Sequence[str], fix: str) -> Iterator[Problem]:
    """Report CIDR blocks that cover all of IPv4, alone or together."""
    blocks = {index: block for index, text in enumerate(texts) if isinstance(block := parse_cidr(text, ""), IPv4Network)}
    single = [index for index, block in blocks.items() if block.prefixlen == 0]
    for index in single:
        yield Problem(f"{path}[{index}]", f"{format_value(texts[index])} covers the whole internet. {fix}")
    if not single and any(block.prefixlen == 0 for block in collapse_addresses(blocks.values())):
        yield Problem(path, f"the entries together cover the whole internet. {fix}")


def check_no_example_addresses(
    path: str, texts: Sequence[str], effect: str = "no machine has such an address"
) -> Iterator[Problem]:
    """Warn about example addresses left in the settings. This is not an error, because the examples in stacks/ have such
    addresses, and the local cloud accepts them."""
    for index, text in enumerate(texts):
        block = parse_cidr(text, "")
        if isinstance(block, IPv4Network) and any(block.subnet_of(example) for example in DOCUMENTATION):
            fix = "Use your own (shown by https://checkip.amazonaws.com)."
            yield create_warning(
                f"{path}[{index}]", f"{format_value(text)} is reserved for documentation (RFC 5737): {effect}. {fix}"
            )
