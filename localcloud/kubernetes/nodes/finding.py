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


def find_real_node(clusters: Path, node: str) -> RunningNode:
    """Return the real node with this name or instance ID. Raises NoSuchNode.

    `clusters`: folder of the local cloud's clusters."""
    running_nodes = []
    for file in sorted(clusters.glob("*/nodes/*/own/etc/hostname")):
        own = file.parents[1]
        cluster = own.parents[2].name.partition("-")[2]
        running_nodes.append(RunningNode(file.read_text().strip(), own.parent.name, cluster, own))
    for running_node in running_nodes:
        if node in (running_node.name, running_node.instance):
            return running_node
    names = ", ".join(sorted(running_node.name for running_node in running_nodes))
    raise NoSuchNode(f"{node}: no such node. {f'Choose one of: {names}' if names else 'No node is running.'}")
