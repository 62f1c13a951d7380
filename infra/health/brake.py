"""Limits how many nodes are taken out of service: a wrong rule, or a monitoring failure, must not take a whole
cluster out of service.

The limit is a share of the nodes per sliding window. A node that breaks repeatedly counts only once. The limit is at least
one node, even in a small cluster: otherwise a single fault would stop the cluster's jobs for a whole window.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Final

SHARE: Final = Fraction(1, 5)
WINDOW: Final = timedelta(hours=1)


def compute_cordon_limit(nodes: int) -> int:
    """Return how many of the cluster's nodes may be taken out of service within a window.

    >>> [compute_cordon_limit(nodes) for nodes in (0, 1, 4, 10, 14, 15)]
    [0, 1, 1, 2, 2, 3]
    """
    return min(nodes, max(1, int(SHARE * nodes)))


def find_recently_taken_out(taken_out: Mapping[str, datetime], now: datetime) -> set[str]:
    """Return the nodes that were taken out of service within the window. Times in the future also count, because clocks
    may differ."""
    return {name for name, when in taken_out.items() if when > now - WINDOW}


def select_nodes_to_take_out(
    faulty: Sequence[str], taken_out: Mapping[str, datetime], nodes: Iterable[str], now: datetime
) -> list[str]:
    """Return the faulty nodes that may be taken out of service now, in the given order.

    `faulty`: nodes to take out of service, in the order in which they broke. `taken_out`: when each node was last taken
    out of service, including nodes that no longer exist. `nodes`: the nodes of the cluster. Nodes that are already out
    of service are skipped.
    """
    present = set(nodes)
    waiting = [name for name in dict.fromkeys(faulty) if name in present and name not in taken_out]
    # Deleted nodes count as taken out, but not as nodes of the cluster: new nodes may have replaced them.
    room = compute_cordon_limit(len(present)) - len(find_recently_taken_out(taken_out, now))
    return waiting[: max(0, room)]
