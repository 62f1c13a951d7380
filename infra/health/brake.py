"""The brake on taking nodes out of service: a wrong rule, or a failure of the monitoring, must not empty a cluster.

The limit is a share of the nodes per sliding window. A node counts once, however often it breaks. Clusters that are too small
for the share may lose one node: a fault of a single node must not stop its jobs for a whole window.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Final

SHARE: Final = Fraction(1, 5)
WINDOW: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Brake:
    share: Fraction = SHARE
    window: timedelta = WINDOW

    def limit(self, nodes: int) -> int:
        """Return how many of the cluster's nodes may be taken out within a window.

        >>> [Brake().limit(nodes) for nodes in (0, 1, 4, 10, 14, 15)]
        [0, 1, 1, 2, 2, 3]
        """
        return min(nodes, max(1, int(self.share * nodes)))

    def recent(self, taken_out: Mapping[str, datetime], now: datetime) -> set[str]:
        """Return the nodes that were taken out within the window. A time in the future counts: clocks differ."""
        return {name for name, when in taken_out.items() if when > now - self.window}

    def released(
        self, faulty: Sequence[str], taken_out: Mapping[str, datetime], nodes: Iterable[str], now: datetime
    ) -> list[str]:
        """Return which of the faulty nodes may be taken out now, in their order.

        `faulty`: nodes that should go, the one that broke first first. `taken_out`: when each node was last taken out, also
        of nodes that no longer exist. `nodes`: the nodes of the cluster. A node that is out is not taken out again.
        """
        present, recent = set(nodes), self.recent(taken_out, now)
        waiting = [name for name in dict.fromkeys(faulty) if name in present and name not in taken_out]
        # Nodes that are gone count as taken out, but not as nodes of the cluster: others may have replaced them.
        room = self.limit(len(present)) - len(recent)
        return waiting[: max(0, room)]
