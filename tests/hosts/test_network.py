"""The network of a VPC with hosts."""

import os
from ipaddress import IPv4Interface

from localcloud.machine import network


def test_the_bridge_keeps_its_mac_address_when_hosts_join_and_leave(able: None) -> None:
    """If the MAC address changed, other hosts could not reach the local AWS until their ARP entries expired."""
    name = f"gpumpi-test-{os.getpid()}"
    seen: list[str] = []

    def join_and_leave() -> None:
        from pyroute2 import IPRoute

        with IPRoute() as route:
            bridge = route.link_lookup(ifname=network.BRIDGE)[0]

            def look() -> None:
                seen.append(route.get_links(bridge)[0].get("address"))

            look()
            peer = {"ifname": "peer", "address": "02:00:00:00:00:02"}
            route.link("add", ifname="link", kind="veth", address="02:00:00:00:00:01", peer=peer)
            (link,) = route.link_lookup(ifname="link")
            route.link("set", index=link, master=bridge, state="up")
            look()
            route.link("del", index=link)
            look()

    network.create(name)
    try:
        network.make_bridge(name, [IPv4Interface("10.0.0.1/24")])
        network.inside(name, join_and_leave)
    finally:
        network.remove(name)
    assert len(set(seen)) == 1 and not (network.RUN / name).exists()
