"""Nodes whose kubelet is silent: it does not renew its lease, and its port cannot be reached.

Kubernetes reports such a node only about 50 seconds after the last renewal, and EKS does not let users change that. Until
then, a job that has lost ranks keeps the GPUs of all its nodes. The lease alone is not sufficient evidence: a kubelet on
a busy machine may renew it late.
"""

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from .api import Api, Object
from .cluster import read_leases

STALE_SECONDS = 20.0
"""A kubelet renews its lease every 10 seconds: https://kubernetes.io/docs/concepts/architecture/leases/#node-heart-beats"""
LOOK_SECONDS = 5.0
CONNECT_SECONDS = 2.0
MOST_PROBED, THREADS, WITNESSES = 64, 16, 3

Probe = Callable[[Object], bool]


class Silence:
    """Finds silent nodes. The program measures how long each lease stays unchanged, so clocks of nodes do not matter."""

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic, answers: Probe | None = None) -> None:
        self._api, self._clock, self._answers = api, clock, answers or is_kubelet_reachable
        self._renewed: dict[str, tuple[str, float]] = {}
        """Maps a node to the last renewal of its lease, and to the time when this program first saw that renewal."""
        self._silent: dict[str, str] = {}
        self._looked = float("-inf")

    def find_silent_nodes(self, nodes: Sequence[Object]) -> Mapping[str, str]:
        """Return the silent nodes, each with the time of its last renewal."""
        now = self._clock()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._silent = self._probe_stale_nodes(nodes, read_leases(self._api), now)
        return self._silent

    def _probe_stale_nodes(self, nodes: Sequence[Object], renewals: Mapping[str, str], now: float) -> dict[str, str]:
        former = self._renewed
        self._renewed = {name: former[name] if former.get(name, ("",))[0] == at else (at, now) for name, at in renewals.items()}
        with_lease = [node for node in nodes if _read_name(node) in renewals]
        stale = [node for node in with_lease if now - self._renewed[_read_name(node)][1] > STALE_SECONDS]
        if not stale:
            return {}
        witnesses = [node for node in with_lease if node not in stale][:WITNESSES]
        probed = [*witnesses, *stale[:MOST_PROBED]]
        with ThreadPoolExecutor(THREADS) as threads:
            answers = list(threads.map(self._answers, probed))
        if not any(answers[: len(witnesses)]):
            return {}  # this program's own network may be the cause
        return {
            _read_name(node): renewals[_read_name(node)] for node, is_alive in zip(probed, answers, strict=True) if not is_alive
        }


def is_kubelet_reachable(node: Object) -> bool:
    """Return whether the kubelet's port accepts a connection. The port of a hanging kubelet still does; Kubernetes
    reports such a kubelet."""
    status = node["status"]
    addresses = [address["address"] for address in status.get("addresses", ()) if address["type"] == "InternalIP"]
    port = status.get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port")
    if not addresses or not port:
        return True
    try:
        socket.create_connection((addresses[0], port), CONNECT_SECONDS).close()
    except OSError:
        return False
    except (ValueError, OverflowError):  # no address or port: nodes write these values themselves
        return True
    return True


def _read_name(node: Object) -> str:
    return str(node["metadata"]["name"])
