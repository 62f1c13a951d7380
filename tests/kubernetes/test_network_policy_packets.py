"""Rules of network policies, on a router between network namespaces that represent pods. The tests need no cluster.

Dropped packets are visible only as timeouts, so connections that must fail use a short timeout.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

from localcloud.kubernetes.network_policy import nft, rules
from localcloud.kubernetes.network_policy.objects import Json, Pod, Service
from localcloud.kubernetes.network_policy.resolve import World, resolve
from localcloud.machine import network
from localcloud.tools import debian
from localcloud.tools.build import BuildError

pytestmark = [pytest.mark.xdist_group("packets"), pytest.mark.usefixtures("able")]

WORKER, OTHER, FOREIGN, SERVICE = "10.77.1.2", "10.77.2.2", "10.77.3.2", "10.77.99.1"
PODS = [Pod("jobs", {"app": "worker"}, WORKER), Pod("jobs", {"app": "other"}, OTHER), Pod("foreign", {}, FOREIGN)]
SERVICES = [Service("jobs", {"app": "other"}, SERVICE, (("TCP", 80, 8080),))]
ROUTER = f"gpumpi-packets-{os.getpid()}"
LONG_SECONDS, SHORT_SECONDS = 60.0, 0.5
KUBE_PROXY = f"""
table ip kube-proxy {{
  chain prerouting {{
    type nat hook prerouting priority dstnat;
    ip daddr {SERVICE} tcp dport 80 dnat to {OTHER}:8080
  }}
}}
"""


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        found = debian.ensure(debian.NFTABLES, print) / "nft"
    except BuildError as error:
        pytest.skip(f"network policies are not enforced here: {error}")
    if reason := nft.obstacle(found):
        pytest.skip(f"network policies are not enforced here: {reason}")
    return found


@pytest.fixture(scope="module")
def router(program: Path) -> Iterator[str]:
    """Network namespaces of a node and of three pods. The pods listen on TCP ports 80, 2222 and 8080."""
    with ExitStack() as stack:
        for name in (ROUTER, *map(space, (WORKER, OTHER, FOREIGN))):
            network.create(name)
            stack.callback(network.remove, name)
        network.inside(ROUTER, lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("1"))
        for address in (WORKER, OTHER, FOREIGN):
            plug_in(address)
            for port in (80, 2222, 8080):
                stack.callback(network.listen(space(address), address, port).close)
        nft.apply(program, ROUTER, KUBE_PROXY)
        yield ROUTER


@pytest.fixture
def enforce(program: Path, router: str) -> Iterator[Callable[..., None]]:
    def enforce(*policies: Json) -> None:
        nft.apply(program, router, rules.render(resolve(World(policies, PODS, SERVICES, {"jobs": {}, "foreign": {}}))))

    yield enforce
    nft.apply(program, router, rules.remove())


def space(address: str) -> str:
    return f"{ROUTER}-{address.split('.')[2]}"


def plug_in(address: str) -> None:
    """Connect a pod to the router like the CNI plugin ptp."""
    name, gateway = f"pod{address.split('.')[2]}", address.removesuffix("2") + "1"
    descriptor = os.open(network.path_of(space(address)), os.O_RDONLY)

    def near() -> None:
        with IPRoute() as route:
            route.link("add", ifname=name, kind="veth", peer={"ifname": "eth0", "net_ns_fd": descriptor})
            configure(route, name, gateway)

    def far() -> None:
        with IPRoute() as route:
            configure(route, "eth0", address)
            route.route("add", dst="default", gateway=gateway)

    try:
        network.inside(ROUTER, near)
        network.inside(space(address), far)
    finally:
        os.close(descriptor)


def configure(route: Any, name: str, address: str) -> None:
    (index,) = route.link_lookup(ifname=name)
    interface = IPv4Interface(f"{address}/24")
    route.addr("add", index=index, address=str(interface.ip), prefixlen=24)
    route.link("set", index=index, state="up")


def policy(*, pods: Json | None = None, **directions: Any) -> Json:
    kinds = [name.capitalize() for name in directions]
    return {"namespace": "jobs", "spec": {"podSelector": pods or {}, "policyTypes": kinds, **directions}}


def connects(source: str, target: str, port: int) -> bool:
    """Open a connection. Return True, or raise an error if the connection fails."""
    network.connect(source, target, port, LONG_SECONDS).close()
    return True


def is_dropped(source: str, target: str, port: int) -> bool:
    try:
        network.connect(source, target, port, SHORT_SECONDS).close()
    except TimeoutError:
        return True
    return False


APP = {app: {"podSelector": {"matchLabels": {"app": app}}} for app in ("worker", "other")}


def test_without_a_policy_every_pod_reaches_every_other(enforce: Callable[..., None]) -> None:
    enforce()
    assert connects(space(FOREIGN), WORKER, 80) and connects(space(WORKER), FOREIGN, 80)


def test_an_isolated_pod_accepts_only_allowed_peers_and_ports_and_its_own_node(enforce: Callable[..., None]) -> None:
    enforce(policy(pods={"matchLabels": {"app": "worker"}}, ingress=[{"from": [APP["other"]], "ports": [{"port": 2222}]}]))
    assert connects(space(OTHER), WORKER, 2222)
    assert is_dropped(space(FOREIGN), WORKER, 2222)
    assert is_dropped(space(OTHER), WORKER, 80)
    assert connects(ROUTER, WORKER, 80), "kubelet probes"
    assert connects(space(WORKER), FOREIGN, 80), "replies to the pod's own connections"


def test_egress_except_stops_only_that_address(enforce: Callable[..., None]) -> None:
    enforce(policy(egress=[{"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": [f"{FOREIGN}/32"]}}]}]))
    assert connects(space(WORKER), OTHER, 80)
    assert is_dropped(space(WORKER), FOREIGN, 80)
    assert connects(space(FOREIGN), WORKER, 80), "replies pass, and ingress is not isolated"


def test_egress_to_a_service_is_judged_before_kube_proxy_chooses_a_pod(enforce: Callable[..., None]) -> None:
    enforce(policy(egress=[{"to": [APP["other"]], "ports": [{"port": 8080}]}]))
    assert connects(space(WORKER), SERVICE, 80)
    enforce(policy(egress=[{"to": [{"ipBlock": {"cidr": f"{OTHER}/32"}}]}]))
    assert connects(space(WORKER), OTHER, 8080)
    assert is_dropped(space(WORKER), SERVICE, 80), "as on EKS, an ipBlock of pods does not allow their service"


def test_a_pod_reaches_itself_through_its_service(enforce: Callable[..., None], program: Path) -> None:
    rule = f"ip saddr {OTHER} ip daddr {OTHER} masquerade"
    nft.apply(program, ROUTER, f"table ip kube-proxy {{ chain post {{ type nat hook postrouting priority srcnat; {rule}; }}; }}")
    enforce(policy(ingress=[]))
    assert connects(space(OTHER), SERVICE, 80)
    assert is_dropped(space(WORKER), SERVICE, 80)


def test_datagrams_are_judged_by_their_own_protocol(enforce: Callable[..., None]) -> None:
    enforce(
        policy(pods={"matchLabels": {"app": "worker"}}, ingress=[{"ports": [{"protocol": "UDP", "port": 53, "endPort": 60}]}])
    )
    assert exchange(OTHER, 55) == b"answer"
    assert exchange(OTHER, 61) is None
    assert is_dropped(space(OTHER), WORKER, 80)


def exchange(source: str, port: int) -> bytes | None:
    """Send a datagram to the worker and return the worker's reply, or None if the datagram does not arrive."""
    with udp(WORKER, port) as server, udp(source, 0) as client:
        client.sendto(b"question", (WORKER, port))
        server.settimeout(LONG_SECONDS if port < 60 else SHORT_SECONDS)
        try:
            _, sender = server.recvfrom(100)
        except TimeoutError:
            return None
        server.sendto(b"answer", sender)
        client.settimeout(LONG_SECONDS)
        return client.recv(100)


def udp(address: str, port: int) -> socket.socket:
    def bind() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((address, port))
        return made

    return network.inside(space(address), bind)
