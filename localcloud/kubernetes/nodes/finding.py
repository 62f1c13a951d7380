"""Finds the real nodes of a local cloud from another process."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunningNode:
    """A real node, found by its folder."""

    name: str
    instance: str
    cluster: str
    own: Path
    """Folder with the node's /etc and /var."""


class NoSuchNode(Exception):
    """The local cloud has no such node. The message lists the existing nodes."""


def find(clusters: Path, node: str) -> RunningNode:
    """Return the real node with this name or instance ID. Raises NoSuchNode.

    `clusters`: folder of the local cloud's clusters."""
    found = []
    for file in sorted(clusters.glob("*/nodes/*/own/etc/hostname")):
        own = file.parents[1]
        cluster = own.parents[2].name.partition("-")[2]
        found.append(RunningNode(file.read_text().strip(), own.parent.name, cluster, own))
    for one in found:
        if node in (one.name, one.instance):
            return one
    names = ", ".join(sorted(one.name for one in found))
    raise NoSuchNode(f"{node}: no such node. {f'Choose one of: {names}' if names else 'No node is running.'}")
