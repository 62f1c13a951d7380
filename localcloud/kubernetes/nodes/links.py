"""A node's network: its namespace linked to the cluster's bridge, with routes to the other nodes' pods."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from localcloud.kubernetes import network
from localcloud.kubernetes.addresses import Addresses

INTERFACE = "eth0"


@dataclass(frozen=True)
class Place:
    """Where a node is in its cluster's network."""

    namespace: str
    address: IPv4Address
    pods: IPv4Network


def connect(cluster: str, addresses: Addresses, place: Place, link: str) -> None:
    """Link the node's namespace to the bridge in the cluster's; `link` is the name of the bridge's end."""

    def on_bridge() -> None:
        from pyroute2 import IPRoute

        target = os.open(network.path_of(place.namespace), os.O_RDONLY)
        try:
            with IPRoute() as route:
                route.link("add", ifname=link, kind="veth", peer={"ifname": INTERFACE, "net_ns_fd": target})
                index = route.link_lookup(ifname=link)[0]
                route.link("set", index=index, master=route.link_lookup(ifname=network.BRIDGE)[0], state="up")
        finally:
            os.close(target)

    def on_node() -> None:
        from pyroute2 import IPRoute

        with IPRoute() as route:
            index = route.link_lookup(ifname=INTERFACE)[0]
            route.addr("add", index=index, address=str(place.address), prefixlen=addresses.vpc.prefixlen)
            route.link("set", index=index, state="up")
            route.route("add", dst="default", gateway=str(addresses.router))
        # Of this namespace: /proc/sys/net is the reader's.
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    network.inside(cluster, on_bridge)
    network.inside(place.namespace, on_node)


def add_routes(namespace: str, places: Iterable[Place]) -> None:
    """Let what is in the namespace reach the pods of other nodes; a route that is there is replaced."""
    wanted = list(places)

    def add() -> None:
        from pyroute2 import IPRoute

        with IPRoute() as route:
            for place in wanted:
                route.route("replace", dst=str(place.pods), gateway=str(place.address))

    if wanted:
        network.inside(namespace, add)


def remove_route(namespace: str, place: Place) -> None:
    """No way to the pods of a node that is gone."""

    def remove() -> None:
        from pyroute2 import IPRoute
        from pyroute2.netlink.exceptions import NetlinkError

        with IPRoute() as route:
            try:
                route.route("del", dst=str(place.pods), gateway=str(place.address))
            except NetlinkError:  # never made, or gone with its link
                return

    try:
        network.inside(namespace, remove)
    except FileNotFoundError:  # the other node leaves as well
        return
