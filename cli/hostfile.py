"""The hostfile on the master, from which mpiexec takes its hosts: whether it has exactly the members that AWS has."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from cli.exit_codes import NO_CLUSTER
from cli.master_ssh import to_master
from cli.plain_cluster import Failed, Node, PlainCluster
from cli.remote_run import SSH_FAILED

HOSTFILE: Final = "/etc/gpumpi/hostfile"
"""amis/join/gpumpi_join/service.py writes it."""

Slots = Mapping[str, int]
"""Ranks by address."""
Look = Callable[[PlainCluster, Sequence[Node]], str]
"""What the hostfile lacks or has too much of, of these members; empty where it is right. Raises Unseen."""


class Unseen(Exception):
    """We may not look into it; the text says why, and that is all there is to do: the cluster may well be ready."""


def look(cluster: PlainCluster, nodes: Sequence[Node], *, identity: Path | None) -> str:
    """`Look`, through SSH. A master that does not answer at the moment is a difference: it may answer later."""
    expected, silent = wanted(cluster, nodes)
    if silent:
        return f"{', '.join(silent)} told no keys yet"
    try:
        with to_master(cluster, identity) as master:
            done = subprocess.run(master.command("cat", HOSTFILE), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except Failed as error:
        if error.code == NO_CLUSTER:
            raise Unseen(str(error)) from None
        raise
    if "Permission denied" in done.stderr:
        raise Unseen(f"no key that ssh found lets you in as {cluster.user}; --identity names another")
    if done.returncode == SSH_FAILED:
        return f"the master cannot be reached: {done.stderr.strip()}"
    return difference(expected, parsed(done.stdout))


def wanted(cluster: PlainCluster, nodes: Sequence[Node]) -> tuple[Slots, list[str]]:
    """What the hostfile should say, as `ssh_files.hostfile` of the join service says it, and who has not told its slots."""
    told = {node: cluster.notice(node) for node in nodes}
    known = {node: notice for node, notice in told.items() if notice is not None}
    alone = not any(notice["slots"] for notice in known.values())
    slots = {
        node.address: int(notice["idle_slots"] if alone and node.is_master else notice["slots"]) for node, notice in known.items()
    }
    return {address: count for address, count in slots.items() if count}, [node.id for node in nodes if told[node] is None]


def parsed(text: str) -> Slots:
    """`address slots=N` a line; what is not like that counts as no rank."""
    found = {}
    for words in filter(None, map(str.split, text.splitlines())):
        slots = next((word.removeprefix("slots=") for word in words[1:] if word.startswith("slots=")), "")
        found[words[0]] = int(slots) if slots.isdecimal() else 0
    return found


def difference(expected: Slots, found: Slots) -> str:
    parts = [f"lacks {address}" for address in expected if address not in found]
    parts += [f"still has {address}" for address in found if address not in expected]
    both = [address for address in expected if address in found and expected[address] != found[address]]
    parts += [f"has {found[address]} slots of {address} instead of {expected[address]}" for address in both]
    return f"the master's hostfile {', '.join(parts)}" if parts else ""
