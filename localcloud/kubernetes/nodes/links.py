"""A node's network: a namespace with a link to the cluster's bridge and routes to the other nodes' pods."""

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
class NodeNetwork:
    """Network namespace and addresses of a node."""

    namespace: str
    address: IPv4Address
    pods: IPv4Network


def build_node_namespace_name(cluster_namespace: str, number: int | str) -> str:
    """Return the name of a node's network namespace. For the number `*`, return a pattern that matches the namespaces
    of all nodes."""
    return f"{cluster_namespace}-n{number}"


class Wiring:
    """Links a cluster's nodes to the cluster's bridge, and adds routes between all nodes."""

    def __init__(self, cluster_namespace: str, addresses: Addresses) -> None:
        self._cluster, self._addresses = cluster_namespace, addresses
        self._places: list[NodeNetwork] = []
        self._lock = threading.Lock()

    def connect(self, place: NodeNetwork) -> None:
        """Create the node's namespace and link it to the bridge."""
        with self._lock:
            network.create_namespace(place.namespace)
            self._places.append(place)
            network.run_in_namespace(self._cluster, lambda: _make_link(place))
            network.run_in_namespace(place.namespace, lambda: _configure_interface(place, self._addresses))
            other_places = [other for other in self._places if other is not place]
            _add_routes(place.namespace, other_places)
            for namespace in (self._cluster, *(other.namespace for other in other_places)):
                _add_routes(namespace, [place])

    def set_link(self, place: NodeNetwork, *, up: bool) -> None:
        """Set the bridge's end of the node's link up or down. The node's own end keeps its address and routes."""
        with self._lock:
            network.run_in_namespace(self._cluster, lambda: _set_link(place, "up" if up else "down"))

    def disconnect(self, place: NodeNetwork) -> None:
        """Remove the node's namespace, its link and the routes to it, if they exist."""
        with self._lock:
            if place in self._places:
                self._places.remove(place)
            for namespace in (self._cluster, *(other.namespace for other in self._places)):
                _remove_route(namespace, place)
            # The kernel removes a namespace's links only some time later, but a new link may need the same name immediately.
            network.run_in_namespace(self._cluster, lambda: _remove_link(place))
            network.remove_namespace(place.namespace)


def _set_link(place: NodeNetwork, state: str) -> None:
    from pyroute2 import IPRoute  # slow to import

    with IPRoute() as route:
        for index in route.link_lookup(ifname=_build_link_name(place)):
            route.link("set", index=index, state=state)


def _make_link(place: NodeNetwork) -> None:
    """Create the veth pair and attach its outer end to the bridge."""
    from pyroute2 import IPRoute

    name = _build_link_name(place)
    target = os.open(network.build_namespace_path(place.namespace), os.O_RDONLY)
    try:
        with IPRoute() as route:
            route.link("add", ifname=name, kind="veth", peer={"ifname": INTERFACE, "net_ns_fd": target})
            index = route.link_lookup(ifname=name)[0]
            route.link("set", index=index, master=route.link_lookup(ifname=network.BRIDGE)[0], state="up")
    finally:
        os.close(target)


def _remove_link(place: NodeNetwork) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as route:
        for index in route.link_lookup(ifname=_build_link_name(place)):
            route.link("del", index=index)


def _build_link_name(place: NodeNetwork) -> str:
    """Return the name of the veth end on the bridge. Interface names are limited to 15 characters."""
    return "n" + hashlib.sha256(str(place.address).encode()).hexdigest()[:12]


def _configure_interface(place: NodeNetwork, addresses: Addresses) -> None:
    """Configure the veth end inside the node's namespace."""
    from pyroute2 import IPRoute

    with IPRoute() as route:
        index = route.link_lookup(ifname=INTERFACE)[0]
        route.addr("add", index=index, address=str(place.address), prefixlen=addresses.vpc.prefixlen)
        route.link("set", index=index, state="up")
        route.route("add", dst="default", gateway=str(addresses.router))
    # /proc/sys/net belongs to the network namespace of the process that opens it
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _add_routes(namespace: str, places: Iterable[NodeNetwork]) -> None:
    """Add routes from the namespace to the pods of the given nodes."""
    targets = list(places)

    def add_in_namespace() -> None:
        from pyroute2 import IPRoute

        with IPRoute() as route:
            for place in targets:
                route.route("replace", dst=str(place.pods), gateway=str(place.address))

    if targets:
        network.run_in_namespace(namespace, add_in_namespace)


def _remove_route(namespace: str, place: NodeNetwork) -> None:
    def remove_in_namespace() -> None:
        from pyroute2 import IPRoute
        from pyroute2.netlink.exceptions import NetlinkError

        with IPRoute() as route:
            try:
                route.route("del", dst=str(place.pods), gateway=str(place.address))
            except NetlinkError:  # never created
                return

    network.run_in_namespace(namespace, remove_in_namespace)
