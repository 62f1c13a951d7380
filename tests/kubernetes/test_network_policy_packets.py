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
from localcloud.kubernetes.network_policy.resolve import World, resolve_isolations
from localcloud.machine import network
from localcloud.tools import debian
from localcloud.tools.build import BuildError

pytestmark = [pytest.mark.xdist_group("packets"), pytest.mark.usefixtures("skip_if_unsupported")]

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
def nft_program() -> Path:
    try:
        program = debian.ensure_package(debian.NFTABLES, print) / "nft"
    except BuildError as error:
        pytest.skip(f"network policies are not enforced here: {error}")
    if reason := nft.find_obstacle(program):
        pytest.skip(f"network policies are not enforced here: {reason}")
    return program


@pytest.fixture(scope="module")
def router(nft_program: Path) -> Iterator[str]:
    """Network namespaces of a node and of three pods. The pods listen on TCP ports 80, 2222 and 8080."""
    with ExitStack() as stack:
        for name in (ROUTER, *map(get_namespace_name, (WORKER, OTHER, FOREIGN))):
            network.create_namespace(name)
            stack.callback(network.remove_namespace, name)
        network.run_in_namespace(ROUTER, lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("1"))
        for address in (WORKER, OTHER, FOREIGN):
            connect_pod(address)
            for port in (80, 2222, 8080):
                stack.callback(network.listen(get_namespace_name(address), address, port).close)
        nft.apply_rules(nft_program, ROUTER, KUBE_PROXY)
        yield ROUTER


@pytest.fixture
def enforce(nft_program: Path, router: str) -> Iterator[Callable[..., None]]:
    def apply_policies(*policies: Json) -> None:
        nft.apply_rules(
            nft_program,
            router,
            rules.render_rules(resolve_isolations(World(policies, PODS, SERVICES, {"jobs": {}, "foreign": {}}))),
        )

    yield apply_policies
    nft.apply_rules(nft_program, router, rules.render_removal())


def get_namespace_name(address: str) -> str:
    return f"{ROUTER}-{address.split('.')[2]}"


def connect_pod(address: str) -> None:
    """Connect a pod to the router like the CNI plugin ptp."""
    name, gateway = f"pod{address.split('.')[2]}", address.removesuffix("2") + "1"
    descriptor = os.open(network.build_namespace_path(get_namespace_name(address)), os.O_RDONLY)

    def configure_node_side() -> None:
        with IPRoute() as route:
            route.link("add", ifname=name, kind="veth", peer={"ifname": "eth0", "net_ns_fd": descriptor})
            configure_interface(route, name, gateway)

    def configure_pod_side() -> None:
        with IPRoute() as route:
            configure_interface(route, "eth0", address)
            route.route("add", dst="default", gateway=gateway)

    try:
        network.run_in_namespace(ROUTER, configure_node_side)
        network.run_in_namespace(get_namespace_name(address), configure_pod_side)
    finally:
        os.close(descriptor)


def configure_interface(route: Any, name: str, address: str) -> None:
    (index,) = route.link_lookup(ifname=name)
    interface = IPv4Interface(f"{address}/24")
    route.addr("add", index=index, address=str(interface.ip), prefixlen=24)
    route.link("set", index=index, state="up")


def build_policy(*, pods: Json | None = None, **directions: Any) -> Json:
    kinds = [name.capitalize() for name in directions]
    return {"namespace": "jobs", "spec": {"podSelector": pods or {}, "policyTypes": kinds, **directions}}


def can_connect(source: str, target: str, port: int) -> bool:
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


def test_every_pod_reaches_every_other_pod_without_a_policy(enforce: Callable[..., None]) -> None:
    enforce()
    assert can_connect(get_namespace_name(FOREIGN), WORKER, 80) and can_connect(get_namespace_name(WORKER), FOREIGN, 80)


def test_an_isolated_pod_accepts_only_allowed_peers_and_ports_and_its_own_node(enforce: Callable[..., None]) -> None:
    enforce(build_policy(pods={"matchLabels": {"app": "worker"}}, ingress=[{"from": [APP["other"]], "ports": [{"port": 2222}]}]))
    assert can_connect(get_namespace_name(OTHER), WORKER, 2222)
    assert is_dropped(get_namespace_name(FOREIGN), WORKER, 2222)
    assert is_dropped(get_namespace_name(OTHER), WORKER, 80)
    assert can_connect(ROUTER, WORKER, 80), "kubelet probes"
    assert can_connect(get_namespace_name(WORKER), FOREIGN, 80), "replies to the pod's own connections"


def test_an_egress_exception_blocks_only_its_address(enforce: Callable[..., None]) -> None:
    enforce(build_policy(egress=[{"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": [f"{FOREIGN}/32"]}}]}]))
    assert can_connect(get_namespace_name(WORKER), OTHER, 80)
    assert is_dropped(get_namespace_name(WORKER), FOREIGN, 80)
    assert can_connect(get_namespace_name(FOREIGN), WORKER, 80), "replies pass, and ingress is not isolated"


def test_egress_to_a_service_is_evaluated_before_kube_proxy_selects_a_pod(enforce: Callable[..., None]) -> None:
    enforce(build_policy(egress=[{"to": [APP["other"]], "ports": [{"port": 8080}]}]))
    assert can_connect(get_namespace_name(WORKER), SERVICE, 80)
    enforce(build_policy(egress=[{"to": [{"ipBlock": {"cidr": f"{OTHER}/32"}}]}]))
    assert can_connect(get_namespace_name(WORKER), OTHER, 8080)
    assert is_dropped(get_namespace_name(WORKER), SERVICE, 80), "as on EKS, an ipBlock does not allow access through a service"


def test_a_pod_can_reach_itself_through_its_service(enforce: Callable[..., None], nft_program: Path) -> None:
    rule = f"ip saddr {OTHER} ip daddr {OTHER} masquerade"
    nft.apply_rules(
        nft_program, ROUTER, f"table ip kube-proxy {{ chain post {{ type nat hook postrouting priority srcnat; {rule}; }}; }}"
    )
    enforce(build_policy(ingress=[]))
    assert can_connect(get_namespace_name(OTHER), SERVICE, 80)
    assert is_dropped(get_namespace_name(WORKER), SERVICE, 80)


def test_udp_datagrams_match_only_udp_rules(enforce: Callable[..., None]) -> None:
    enforce(
        build_policy(
            pods={"matchLabels": {"app": "worker"}}, ingress=[{"ports": [{"protocol": "UDP", "port": 53, "endPort": 60}]}]
        )
    )
    assert exchange_datagram(OTHER, 55) == b"answer"
    assert exchange_datagram(OTHER, 61) is None
    assert is_dropped(get_namespace_name(OTHER), WORKER, 80)


def exchange_datagram(source: str, port: int) -> bytes | None:
    """Send a datagram to the worker and return the worker's reply, or None if the datagram does not arrive."""
    with open_udp_socket(WORKER, port) as server, open_udp_socket(source, 0) as client:
        client.sendto(b"question", (WORKER, port))
        server.settimeout(LONG_SECONDS if port < 60 else SHORT_SECONDS)
        try:
            _, sender = server.recvfrom(100)
        except TimeoutError:
            return None
        server.sendto(b"answer", sender)
        client.settimeout(LONG_SECONDS)
        return client.recv(100)


def open_udp_socket(address: str, port: int) -> socket.socket:
    def bind() -> socket.socket:
        udp_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp_socket.bind((address, port))
        return udp_socket

    return network.run_in_namespace(get_namespace_name(address), bind)
