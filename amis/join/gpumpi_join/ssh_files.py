"""The files that SSH and mpiexec read: rendered as text and written atomically."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gpumpi_join.notice import Notice


class Node(NamedTuple):
    """A member with a trusted notice."""

    instance_id: str
    is_master: bool
    notice: Notice
    addresses: tuple[str, ...]
    """Addresses from which the member may connect, as EC2 reports them."""


def render_authorized_keys(nodes: Iterable[Node]) -> str:
    """The nodes' user keys, which may run commands on other nodes but not forward connections out of the cluster. A
    key cannot be used from other addresses."""
    return "".join(
        f'from="{",".join(node.addresses)}",'
        f"no-agent-forwarding,no-port-forwarding,no-X11-forwarding {node.notice.user_key} {node.instance_id}\n"
        for node in _sort_nodes(nodes)
    )


def render_known_hosts(nodes: Iterable[Node]) -> str:
    """Host keys of each node under its name and address, so that StrictHostKeyChecking can stay on."""
    lines: list[str] = []
    for node in _sort_nodes(nodes):
        names = f"{node.notice.hostname},{node.notice.address}" + (",master" if node.is_master else "")
        lines += [f"{names} {key}\n" for key in node.notice.host_keys]
    return "".join(lines)


def render_hosts(nodes: Iterable[Node]) -> str:
    """Lines for /etc/hosts, so that names resolve without a DNS server."""
    return "".join(
        f"{node.notice.address} {node.notice.hostname}{' master' if node.is_master else ''}\n" for node in _sort_nodes(nodes)
    )


def render_hostfile(nodes: Iterable[Node]) -> str:
    """Open MPI's hostfile, head node first. A head node without slots runs ranks only while there are no workers."""
    ordered = _sort_nodes(nodes)
    alone = not any(node.notice.slots for node in ordered)
    lines = []
    for node in ordered:
        slots = node.notice.idle_slots if alone and node.is_master else node.notice.slots
        if slots:
            lines.append(f"{node.notice.address} slots={slots}\n")
    return "".join(lines)


def _sort_nodes(nodes: Iterable[Node]) -> list[Node]:
    """The head node, then the workers by address: the order is the same on all nodes."""
    return sorted(nodes, key=lambda node: (not node.is_master, [int(part) for part in node.notice.address.split(".")]))


def write_atomically(file: Path, text: str, mode: int = 0o644) -> bool:
    """Replace a file atomically, so readers see either the old or the new content. Returns False if nothing changed."""
    if file.exists() and file.read_text() == text:
        return False
    part = file.with_name(f".{file.name}.new")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as output:
        output.write(text)
    part.chmod(mode)
    part.replace(file)
    return True


BEGIN, END = "# gpumpi: nodes of this cluster\n", "# gpumpi: end\n"


def insert_block(text: str, block: str) -> str:
    """Insert our lines into another program's file between two marker lines. No other line changes."""
    before, begin, rest = text.partition(BEGIN)
    after = rest.partition(END)[2] if begin else ""
    if begin == "" and before and not before.endswith("\n"):
        before += "\n"
    return f"{before}{BEGIN}{block}{END}{after}" if block else before + after
