"""Clusters, keyed by connection. Each provider instance of a Pulumi operation has its own connection.

If the engine reconnects from another address, the stack in the resource's URN identifies the cluster. This fallback
fails if the stack uses several clusters.
"""

import threading
from collections import OrderedDict

from localcloud.engine.kubernetes.cluster import Cluster

REMEMBERED = 512
"""Maximum number of connections, and of stacks, to remember; the oldest are dropped."""


class NotConfigured(Exception):
    """A request arrived before the provider was configured."""


class Clusters:
    """Provider instances of all running Pulumi operations."""

    def __init__(self) -> None:
        self._by_peer: OrderedDict[str, Cluster] = OrderedDict()
        self._by_stack: OrderedDict[str, dict[str, Cluster]] = OrderedDict()
        self._lock = threading.Lock()

    def forget(self, peer: str) -> None:
        """Forget the cluster of an earlier connection from this address."""
        with self._lock:
            self._by_peer.pop(peer, None)

    def remember(self, peer: str, provider_urn: str, cluster: Cluster) -> None:
        with self._lock:
            self._by_peer[peer] = cluster
            self._by_stack.setdefault(_parse_stack(provider_urn), {})[provider_urn] = cluster
            self._by_stack.move_to_end(_parse_stack(provider_urn))
            for clusters in (self._by_peer, self._by_stack):
                while len(clusters) > REMEMBERED:
                    clusters.popitem(last=False)

    def find(self, peer: str, urn: str) -> Cluster:
        """Return the cluster that belongs to a connection, or else the cluster that the URN's stack uses. Raises
        NotConfigured."""
        with self._lock:
            cluster = self._by_peer.get(peer)
            candidates = list(self._by_stack.get(_parse_stack(urn), {}).values())
        if cluster is not None:
            return cluster
        if len({(candidate.server, candidate.default_namespace) for candidate in candidates}) != 1:
            raise NotConfigured("the local Kubernetes provider has no configuration for this Pulumi operation; was it restarted?")
        return candidates[-1]

    def cancel(self, peer: str) -> None:
        with self._lock:
            if cluster := self._by_peer.get(peer):
                cluster.cancellation.request()


def _parse_stack(urn: str) -> str:
    return "::".join(urn.split("::")[:2])
