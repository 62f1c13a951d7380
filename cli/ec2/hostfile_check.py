"""Compare the hostfile that mpiexec uses on the head node with the nodes that AWS reports."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cli.ec2.ec2_instances import DeployedEc2Cluster, Ec2Node
from cli.ec2.head_node_ssh import connect_to_head_node
from cli.ec2.remote_restarts import HOSTFILE
from cli.ec2.remote_run import SSH_FAILED
from cli.errors import CommandError
from cli.exit_codes import FAILED, UNREACHABLE

Slots = Mapping[str, int]
"""Maps a node's address to its number of slots."""
Look = Callable[[DeployedEc2Cluster, Sequence[Ec2Node]], str]
"""Function that returns how the hostfile differs from the given nodes, or an empty string if it matches them. Raises
Unseen.
"""


class Unseen(Exception):
    """The hostfile cannot be read from this machine; the message gives the reason. The cluster may be ready anyway."""


def compare_hostfile(cluster: DeployedEc2Cluster, nodes: Sequence[Ec2Node], *, identity: Path | None) -> str:
    """Implement `Look` over SSH. An unreachable head node counts as a difference, because it may become reachable
    later.
    """
    expected, silent = read_expected_slots(cluster, nodes)
    if silent:
        return f"these nodes have not published their keys yet: {', '.join(silent)}"
    try:
        with connect_to_head_node(cluster, identity) as head_node:
            done = subprocess.run(head_node.command("cat", HOSTFILE), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except CommandError as error:
        if error.code in (FAILED, UNREACHABLE):
            raise Unseen(str(error)) from None
        raise
    if "Permission denied" in done.stderr:
        raise Unseen(f"the head node rejected the SSH keys for {cluster.user}; pass another key with --identity")
    if done.returncode == SSH_FAILED:
        return f"the head node cannot be reached: {done.stderr.strip()}"
    return describe_difference(expected, parse_hostfile(done.stdout))


def read_expected_slots(cluster: DeployedEc2Cluster, nodes: Sequence[Ec2Node]) -> tuple[Slots, list[str]]:
    """Return the expected hostfile and the IDs of nodes that have not published their slots.

    The hostfile follows the rules of `ssh_files.hostfile` in the join service.
    """
    notices = {node: cluster.read_notice(node) for node in nodes}
    joined = {node: notice for node, notice in notices.items() if notice is not None}
    alone = not any(notice["slots"] for notice in joined.values())
    slots = {
        node.address: int(notice["idle_slots"] if alone and node.is_head_node else notice["slots"])
        for node, notice in joined.items()
    }
    return {address: count for address, count in slots.items() if count}, [node.id for node in nodes if notices[node] is None]


def parse_hostfile(text: str) -> Slots:
    """Parse lines of the form `address slots=N`. A missing or invalid count means zero slots."""
    listed = {}
    for words in filter(None, map(str.split, text.splitlines())):
        slots = next((word.removeprefix("slots=") for word in words[1:] if word.startswith("slots=")), "")
        listed[words[0]] = int(slots) if slots.isdecimal() else 0
    return listed


def describe_difference(expected: Slots, actual: Slots) -> str:
    parts = [f"lacks {address}" for address in expected if address not in actual]
    parts += [f"still has {address}" for address in actual if address not in expected]
    both = [address for address in expected if address in actual and expected[address] != actual[address]]
    parts += [f"has {actual[address]} slots of {address} instead of {expected[address]}" for address in both]
    return f"the head node's hostfile {', '.join(parts)}" if parts else ""
