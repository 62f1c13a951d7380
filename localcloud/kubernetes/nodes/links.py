"""A node's network: its namespace, linked to the cluster's bridge, with routes to the other nodes' pods."""

import hashlib
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from localcloud.kubernetes.addresses import Addresses
from localcloud.machine import network

INTERFACE = "eth0"


@dataclass(frozen=True)
class Place:
    """Addresses of a node in its cluster's network."""

    namespace: str
    address: IPv4Address
    pods: IPv4Network


class Wiring:
    """The nodes linked to one cluster's bridge. A node has routes from and to all others, or is not linked at all."""

    def __init__(self, cluster_namespace: str, addresses: Addresses) -> None:
        self._cluster, self._addresses = cluster_namespace, addresses
        self._places: list[Place] = []
        self._lock = threading.Lock()

    def connect(self, place: Place) -> None:
        """Create the node's namespace and link it."""
        with self._lock:
            network.create(place.namespace)
            self._places.append(place)
            network.inside(self._cluster, lambda: _make_link(place))
            network.inside(place.namespace, lambda: _make_interface(place, self._addresses))
            others = [other for other in self._places if other is not place]
            _add_routes(place.namespace, others)
            for namespace in (self._cluster, *(other.namespace for other in others)):
                _add_routes(namespace, [place])

    def disconnect(self, place: Place) -> None:
        """Remove the node's namespace, its link and the routes to it. Does nothing for those that do not exist."""
        with self._lock:
            if place in self._places:
                self._places.remove(place)
            for namespace in (self._cluster, *(other.namespace for other in self._places)):
                _remove_route(namespace, place)
            # The kernel removes a namespace's links too, but later; the name may be needed at once.
            network.inside(self._cluster, lambda: _remove_link(place))
            network.remove(place.namespace)


def _make_link(place: Place) -> None:
    """Set up the link on the bridge's side."""
    from pyroute2 import IPRoute

    name = _link_name(place)
    target = os.open(network.path_of(place.namespace), os.O_RDONLY)
    try:
        with IPRoute() as route:
            route.link("add", ifname=name, kind="veth", peer={"ifname": INTERFACE, "net_ns_fd": target})
            index = route.link_lookup(ifname=name)[0]
            route.link("set", index=index, master=route.link_lookup(ifname=network.BRIDGE)[0], state="up")
    finally:
        os.close(target)


def _remove_link(place: Place) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as route:
        for index in route.link_lookup(ifname=_link_name(place)):
            route.link("del", index=index)


def _link_name(place: Place) -> str:
    """Name of the veth end on the bridge; interface names have at most 15 characters."""
    return "n" + hashlib.sha256(str(place.address).encode()).hexdigest()[:12]


def _make_interface(place: Place, addresses: Addresses) -> None:
    """Set up the link on the node's side."""
    from pyroute2 import IPRoute

    with IPRoute() as route:
        index = route.link_lookup(ifname=INTERFACE)[0]
        route.addr("add", index=index, address=str(place.address), prefixlen=addresses.vpc.prefixlen)
        route.link("set", index=index, state="up")
        route.route("add", dst="default", gateway=str(addresses.router))
    # in the reader's network namespace.
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _add_routes(namespace: str, places: Iterable[Place]) -> None:
    """Add routes from the namespace to other nodes' pods."""
    wanted = list(places)

    def add() -> None:
        from pyroute2 import IPRoute

        with IPRoute() as route:
            for place in wanted:
                route.route("replace", dst=str(place.pods), gateway=str(place.address))

    if wanted:
        network.inside(namespace, add)


def _remove_route(namespace: str, place: Place) -> None:
    def remove() -> None:
        from pyroute2 import IPRoute
        from pyroute2.netlink.exceptions import NetlinkError

        with IPRoute() as route:
            try:
                route.route("del", dst=str(place.pods), gateway=str(place.address))
            except NetlinkError:  # never created
                return

    network.inside(namespace, remove)
