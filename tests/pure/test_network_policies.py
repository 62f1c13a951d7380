"""Network policies: the nftables rules derived from policies and pods."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localcloud.kubernetes.network_policy import rules
from localcloud.kubernetes.network_policy.objects import Json, Pod, Service, create_pod_parser, parse_service
from localcloud.kubernetes.network_policy.resolve import World, resolve_isolations

# --- rendered rules


def make_policy(namespace: str = "jobs", *, pods: Json | None = None, **directions: Any) -> Json:
    kinds = [name.capitalize() for name in directions]
    return {"namespace": namespace, "spec": {"podSelector": pods or {}, "policyTypes": kinds, **directions}}


def test_job_namespace_policy_renders_expected_nftables_rules() -> None:
    jobs = make_policy(
        ingress=[{"from": [{"podSelector": {}}]}],
        egress=[{"to": [{"podSelector": {}}]}, {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]}}]}],
    )
    pods = [Pod("jobs", {}, "100.64.1.2"), Pod("jobs", {}, "100.64.1.10"), Pod("other", {}, "100.64.1.3")]
    assert rules.render_rules(resolve_isolations(World([jobs], pods))) == (
        """\
add table ip network-policy
delete table ip network-policy
table ip network-policy {
  chain egress-0 {
    ct original ip daddr { 0.0.0.0/0 } ct original ip daddr != { 169.254.169.254/32 } return
    ct original ip daddr { 100.64.1.2/32, 100.64.1.10/32 } return
    drop
  }
  map egress {
    type ipv4_addr : verdict
    elements = { 100.64.1.2 : jump egress-0, 100.64.1.10 : jump egress-0 }
  }
  chain ingress-0 {
    ip saddr { 100.64.1.2/32, 100.64.1.10/32 } return
    drop
  }
  map ingress {
    type ipv4_addr : verdict
    elements = { 100.64.1.2 : jump ingress-0, 100.64.1.10 : jump ingress-0 }
  }
  chain forward {
    type filter hook forward priority filter - 10; policy accept;
    ct state related accept
    ct direction reply accept
    ip saddr vmap @egress
    ip saddr . ip daddr { 100.64.1.2 . 100.64.1.2, 100.64.1.10 . 100.64.1.10 } accept
    ip daddr vmap @ingress
  }
}
"""
    )


def test_node_without_isolated_pods_has_no_nftables_table() -> None:
    assert rules.render_rules({}) == rules.render_removal() == "add table ip network-policy\ndelete table ip network-policy\n"


# --- a small interpreter of the rules, and a reference implementation


@dataclass(frozen=True)
class Packet:
    """First packet of a connection."""

    source: str
    target: str
    protocol: str
    port: int


class Rules:
    """Interpreter of the rendered nftables rules."""

    def __init__(self, text: str) -> None:
        blocks = re.findall(r"^  (\S+ \S+) {\n(.*?)^  }$", text, re.DOTALL | re.MULTILINE)
        self._blocks = {name: body.splitlines() for name, body in blocks}
        maps = {direction: "\n".join(self._blocks.get(f"map {direction}", ())) for direction in ("egress", "ingress")}
        self._jumps = {direction: dict(re.findall(r"(\S+) : jump ([\w-]+)", body)) for direction, body in maps.items()}

    def can_pass(self, packet: Packet) -> bool:
        """Return whether the packet passes the egress chain of its source and the ingress chain of its target."""
        chains = self._jumps["egress"].get(packet.source), self._jumps["ingress"].get(packet.target)
        return all(has_return_verdict(self._blocks[f"chain {name}"], packet) for name in chains if name is not None)


def build_rules(world: World) -> Rules:
    return Rules(rules.render_rules(resolve_isolations(world)))


def has_return_verdict(lines: Sequence[str], packet: Packet) -> bool:
    return next(line.split()[-1] for line in lines if matches_packet(line.strip(), packet)) == "return"


def matches_packet(line: str, packet: Packet) -> bool:
    for side, negated, elements in re.findall(r"(daddr|saddr) (!= )?{ (.*?) }", line):
        address = IPv4Address(packet.target if side == "daddr" else packet.source)
        if any(address in IPv4Network(element) for element in elements.split(", ")) == bool(negated):
            return False
    protocol = re.search(r"l4proto (\w+)", line)
    ports = re.search(r"(?:proto-dst|dport) (\d+)-(\d+)", line)
    return (protocol is None or protocol[1] == packet.protocol.lower()) and (
        ports is None or int(ports[1]) <= packet.port <= int(ports[2])
    )


def is_permitted(world: World, source: Pod, target: Pod, packet: Packet) -> bool:
    """Reference: https://kubernetes.io/docs/concepts/services-networking/network-policies/"""
    sides = [(source, target, "egress", "to"), (target, source, "ingress", "from")]
    return all(is_permitted_on_side(world, pod, other, direction, key, target, packet) for pod, other, direction, key in sides)


def is_permitted_on_side(world: World, pod: Pod, other: Pod, direction: str, key: str, target: Pod, packet: Packet) -> bool:
    if pod.on_host_network:
        return True
    specs = [policy["spec"] for policy in world.policies if policy["namespace"] == pod.namespace]
    specs = [
        spec
        for spec in specs
        if direction.capitalize() in spec["policyTypes"] and matches_selector(spec["podSelector"], pod.labels)
    ]
    rules = [rule for spec in specs for rule in spec.get(direction, ())]
    return not specs or any(is_permitted_by_rule(world, rule, pod, other, key, target, packet) for rule in rules)


def is_permitted_by_rule(world: World, rule: Json, pod: Pod, other: Pod, key: str, target: Pod, packet: Packet) -> bool:
    peers: Sequence[Json] = rule.get(key) or [{"ipBlock": {"cidr": "0.0.0.0/0"}}]
    return any(
        is_matching_peer(world, peer, pod, other)
        and (
            not rule.get("ports") or any(is_matching_port(port, target, packet, "ipBlock" not in peer) for port in rule["ports"])
        )
        for peer in peers
    )


def is_matching_peer(world: World, peer: Json, pod: Pod, other: Pod) -> bool:
    address = IPv4Address(other.address)
    if "ipBlock" in peer:
        block = peer["ipBlock"]
        return address in IPv4Network(block["cidr"]) and not any(address in IPv4Network(cidr) for cidr in block.get("except", ()))
    there = (
        matches_selector(peer["namespaceSelector"], world.namespaces[other.namespace]) if "namespaceSelector" in peer else None
    )
    return (other.namespace == pod.namespace if there is None else there) and matches_selector(
        peer.get("podSelector", {}), other.labels
    )


def is_matching_port(port: Json, target: Pod, packet: Packet, named: bool) -> bool:
    """Return whether a rule's port matches the packet. As in EKS's controller, a port name matches only if `named` is
    true, which means that the peer has a selector.
    """
    if port["protocol"] != packet.protocol:
        return False
    number = port.get("port")
    if isinstance(number, str):
        return named and (packet.protocol, number, packet.port) in target.ports
    return number is None or number <= packet.port <= port.get("endPort", number)


def matches_selector(selector: Json, labels: Mapping[str, str]) -> bool:
    checks = {
        "In": lambda value, values: value in values,
        "NotIn": lambda value, values: value not in values,
        "Exists": lambda value, values: value is not None,
        "DoesNotExist": lambda value, values: value is None,
    }
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        checks[term["operator"]](labels.get(term["key"]), term.get("values")) for term in selector.get("matchExpressions", ())
    )


PROTOCOLS, NUMBERS, NAMES = ("TCP", "UDP"), (80, 81, 2222), ("web", "ssh")
NAMESPACES = {"one": {"team": "red"}, "two": {"team": "blue"}}
ADDRESSES = [f"10.0.{third}.{fourth}" for third in (0, 1) for fourth in (2, 3, 4)]
LABELS = st.dictionaries(st.sampled_from(["app", "team"]), st.sampled_from(["red", "blue"]), max_size=2)
EXPRESSIONS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["app", "team"]),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.lists(st.sampled_from(["red", "blue"]), min_size=1, max_size=2),
    }
) | st.fixed_dictionaries({"key": st.sampled_from(["app", "team"]), "operator": st.sampled_from(["Exists", "DoesNotExist"])})
SELECTORS = st.fixed_dictionaries({}, optional={"matchLabels": LABELS, "matchExpressions": st.lists(EXPRESSIONS, max_size=1)})
BLOCKS = st.fixed_dictionaries(
    {"cidr": st.sampled_from(["0.0.0.0/0", "10.0.0.0/24", "10.0.0.2/32"])},
    optional={"except": st.lists(st.sampled_from(["10.0.1.0/24", "10.0.0.3/32"]), max_size=2)},
)
PEERS = st.fixed_dictionaries({"ipBlock": BLOCKS}) | st.fixed_dictionaries(
    {"podSelector": SELECTORS}, optional={"namespaceSelector": SELECTORS}
)
RANGES = st.sampled_from([(80, 81), (81, 2222)]).map(lambda ends: {"port": ends[0], "endPort": ends[1]})
SINGLE = st.fixed_dictionaries({}, optional={"port": st.sampled_from([*NUMBERS, *NAMES])})
PORTS = st.tuples(st.sampled_from(PROTOCOLS), SINGLE | RANGES).map(lambda pair: {"protocol": pair[0], **pair[1]})


def rule_list_strategy(key: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    parts = {key: st.lists(PEERS, max_size=2), "ports": st.lists(PORTS, max_size=2)}
    return st.lists(st.fixed_dictionaries({}, optional=parts), max_size=2)


POLICIES = st.tuples(
    st.sampled_from(sorted(NAMESPACES)),
    st.fixed_dictionaries(
        {
            "podSelector": SELECTORS,
            "policyTypes": st.lists(st.sampled_from(["Ingress", "Egress"]), min_size=1, unique=True),
            "ingress": rule_list_strategy("from"),
            "egress": rule_list_strategy("to"),
        }
    ),
).map(lambda pair: {"namespace": pair[0], "spec": pair[1]})


@st.composite
def world_strategy(draw: st.DrawFn) -> World:
    named = st.lists(st.tuples(st.sampled_from(PROTOCOLS), st.sampled_from(NAMES), st.sampled_from(NUMBERS)), max_size=2)
    unique = named.map(lambda ports: tuple({port[:2]: port for port in ports}.values()))
    pods = [
        Pod(draw(st.sampled_from(sorted(NAMESPACES))), draw(LABELS), address, draw(unique), draw(st.integers(0, 9)) == 0)
        for address in ADDRESSES
    ]
    return World(draw(st.lists(POLICIES, min_size=1, max_size=3)), pods, (), NAMESPACES)


@given(world_strategy(), st.sampled_from(PROTOCOLS), st.sampled_from(NUMBERS))
@settings(max_examples=150, deadline=None)
def test_rules_pass_exactly_the_connections_permitted_by_policies(world: World, protocol: str, port: int) -> None:
    rules = build_rules(world)
    for source, target in permutations(world.pods, 2):
        packet = Packet(source.address, target.address, protocol, port)
        assert rules.can_pass(packet) == is_permitted(world, source, target, packet), packet


BLUE = {"matchLabels": {"team": "blue"}}
NOT_BLUE = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["blue"]}]}
CROWD = [
    Pod("one", {"app": "blue"}, "10.0.0.2", (("TCP", "web", 80),)),
    Pod("one", {"app": "red"}, "10.0.0.3", (("TCP", "web", 81),)),
    Pod("two", {"app": "blue"}, "10.0.0.4"),
    Pod("two", {}, "10.0.0.5"),
]


@pytest.mark.parametrize(
    ("peer", "ports", "last_parts"),
    [
        ({"podSelector": {}}, [], [3]),
        ({"podSelector": NOT_BLUE}, [], [3]),
        ({"namespaceSelector": BLUE}, [], [4, 5]),
        ({"namespaceSelector": BLUE, "podSelector": NOT_BLUE}, [], [5]),
        ({"namespaceSelector": {}}, [], [3, 4, 5]),
        ({"namespaceSelector": {}}, [{"port": "web"}], [3]),
        ({"ipBlock": {"cidr": "0.0.0.0/0"}}, [{"port": "web"}], []),
        ({"ipBlock": {"cidr": "10.0.0.0/29", "except": ["10.0.0.4/31"]}}, [{"port": 81}], [3]),
        ({"ipBlock": {"cidr": "0.0.0.0/0"}}, [{"protocol": "SCTP"}], []),
    ],
    ids=["own namespace", "NotIn", "namespace", "both", "all", "named port", "named port in a block", "except", "protocol"],
)
def test_egress_peer_selects_expected_pods(peer: Json, ports: list[Json], last_parts: list[int]) -> None:
    source, *peers = CROWD
    world = World([make_policy("one", egress=[{"to": [peer], "ports": ports}])], CROWD, (), NAMESPACES)
    reached = [other for other in peers if build_rules(world).can_pass(Packet(source.address, other.address, "TCP", 81))]
    assert [int(peer.address[-1]) for peer in reached] == last_parts


# --- services, and differences between EKS and the specification

WEB = Pod("jobs", {"app": "web"}, "10.0.0.2", (("TCP", "http", 8080),))
CLIENT = Pod("jobs", {"app": "client"}, "10.0.0.3")
ADDRESS = "172.20.0.9"


@pytest.mark.parametrize(
    ("port", "target", "asked", "reached"),
    [
        (80, 8080, {"port": 8080}, 80),
        (80, "http", {"port": "http"}, 80),
        (80, "http", {"port": 8080}, 80),
        (8080, 8080, {"port": 8080, "endPort": 8090}, 8085),
        (80, 8080, {}, 80),
    ],
    ids=["number", "name", "number of a name", "range", "every port"],
)
def test_egress_to_pods_allows_the_ports_of_their_service(
    port: int, target: int | str, asked: dict[str, Any], reached: int
) -> None:
    service = Service("jobs", {"app": "web"}, ADDRESS, (("TCP", port, target),))
    egress = make_policy(pods={"matchLabels": {"app": "client"}}, egress=[{"to": [{"podSelector": {}}], "ports": [asked]}])
    rules = build_rules(World([egress], [WEB, CLIENT], [service]))
    assert rules.can_pass(Packet(CLIENT.address, ADDRESS, "TCP", reached))
    assert not rules.can_pass(Packet(CLIENT.address, ADDRESS, "UDP", reached))
    assert not rules.can_pass(Packet(CLIENT.address, "172.20.0.8", "TCP", reached))


def test_egress_to_pod_addresses_does_not_allow_their_service() -> None:
    service = Service("jobs", {"app": "web"}, ADDRESS, (("TCP", 80, 8080),))
    egress = make_policy(egress=[{"to": [{"ipBlock": {"cidr": f"{WEB.address}/32"}}]}])
    rules = build_rules(World([egress], [WEB, CLIENT], [service]))
    assert rules.can_pass(Packet(CLIENT.address, WEB.address, "TCP", 8080))
    assert not rules.can_pass(Packet(CLIENT.address, ADDRESS, "TCP", 80))


def test_ipv6_rules_allow_nothing() -> None:
    egress = make_policy(egress=[{"to": [{"ipBlock": {"cidr": "::/0"}}]}])
    rules = build_rules(World([egress], [WEB, CLIENT]))
    assert not rules.can_pass(Packet(CLIENT.address, WEB.address, "TCP", 80))


# --- objects


def make_pod_object(**status: Any) -> Json:
    return {
        "metadata": {"namespace": "jobs", "name": "a", "labels": {"app": "a"}},
        "spec": {"containers": [{"ports": [{"name": "ssh", "containerPort": 2222, "protocol": "TCP"}, {"containerPort": 1}]}]},
        "status": {"phase": "Running", "podIP": "10.0.0.2", **status},
    }


def test_ended_or_simulated_pods_have_no_address() -> None:
    parse = create_pod_parser((IPv4Network("10.0.0.0/16"),))
    assert parse(make_pod_object()) == Pod("jobs", {"app": "a"}, "10.0.0.2", (("TCP", "ssh", 2222),))
    gone = [{"phase": "Succeeded"}, {"phase": "Failed"}, {"podIP": None}, {"podIP": "198.19.0.5"}]
    assert [parse(make_pod_object(**status)) for status in gone] == [None] * 4


def test_headless_services_and_services_without_a_selector_have_no_address() -> None:
    spec = {"selector": {"app": "a"}, "clusterIP": ADDRESS, "ports": [{"port": 80, "protocol": "TCP"}]}
    manifest = {"metadata": {"namespace": "jobs"}, "spec": spec}
    assert parse_service(manifest) == Service("jobs", {"app": "a"}, ADDRESS, (("TCP", 80, 80),))
    assert parse_service({**manifest, "spec": spec | {"clusterIP": "None"}}) is None
    assert parse_service({**manifest, "spec": spec | {"selector": None}}) is None
