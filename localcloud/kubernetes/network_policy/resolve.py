"""Resolves network policies into the connections that each isolated pod may open or accept. Performs no I/O.

Peers are resolved as EKS's controller does it:
https://github.com/aws/amazon-network-policy-controller-k8s/blob/03e22b5/pkg/resolvers/endpoints.go
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from localcloud.kubernetes.network_policy.objects import Json, Labels, Pod, Port, Service, matches_selector

Direction = Literal["Ingress", "Egress"]
ANYWHERE = "0.0.0.0/0"
LAST_PORT = 65535


@dataclass(frozen=True, order=True)
class Ports:
    """Port range of one protocol, including the first and the last port."""

    protocol: str
    first: int = 0
    last: int = LAST_PORT


@dataclass(frozen=True, order=True)
class Allow:
    """Allows connections between the pod and the addresses of a network. For egress, `ports` are the ports to which
    the pod connects; for ingress, `ports` are the pod's own ports."""

    network: str
    excluded: tuple[str, ...] = ()
    ports: Ports | None = None
    """None allows all ports and protocols."""


@dataclass(frozen=True)
class Isolation:
    """Connections that an isolated pod may have in each direction. None means that the pod is not isolated in this
    direction.
    """

    ingress: frozenset[Allow] | None
    egress: frozenset[Allow] | None


@dataclass(frozen=True)
class World:
    """Network policies of a cluster, and the objects to which they refer."""

    policies: Sequence[Json]
    pods: Sequence[Pod]
    services: Sequence[Service] = ()
    namespaces: Mapping[str, Labels] = field(default_factory=dict)
    """Labels of each namespace."""


def resolve_isolations(world: World) -> dict[str, Isolation]:
    """Return the isolation of each isolated pod, keyed by pod address."""
    allowed: dict[str, dict[str, set[Allow]]] = {}
    for policy in world.policies:
        selector = policy["spec"].get("podSelector") or {}
        for pod in world.pods:
            if pod.on_host_network or pod.namespace != policy["namespace"] or not matches_selector(selector, pod.labels):
                continue
            own = allowed.setdefault(pod.address, {})
            for direction in get_directions(policy["spec"]):
                own.setdefault(direction, set()).update(_find_allowed(world, policy, pod, direction))
    return {
        address: Isolation(*(frozenset(own[name]) if name in own else None for name in ("Ingress", "Egress")))
        for address, own in allowed.items()
    }


def get_directions(spec: Json) -> Sequence[Direction]:
    """Return the directions in which a policy isolates pods. The API server sets `policyTypes` if a user does not."""
    policy_types: Sequence[Direction] | None = spec.get("policyTypes")
    return policy_types if policy_types is not None else ("Ingress", "Egress") if spec.get("egress") else ("Ingress",)


def _find_allowed(world: World, policy: Json, pod: Pod, direction: Direction) -> Iterator[Allow]:
    for rule in policy["spec"].get(direction.lower()) or ():
        peers, ports = rule.get("from" if direction == "Ingress" else "to") or (), rule.get("ports") or ()
        if not peers:
            yield from _allow_network(ANYWHERE, (), ports)
        for peer in peers:
            if (block := peer.get("ipBlock")) is not None:
                yield from _allow_network(block["cidr"], tuple(sorted(block.get("except") or ())), ports)
            elif direction == "Ingress":
                for other in _select_pods(world, policy["namespace"], peer):
                    yield from _allow_address(other.address, ports, pod)
            else:
                for other in _select_pods(world, policy["namespace"], peer):
                    yield from _allow_address(other.address, ports, other)
                yield from _allow_services(world, policy["namespace"], peer, ports)


def _allow_network(network: str, excluded: tuple[str, ...], ports: Sequence[Json]) -> Iterator[Allow]:
    """Allow a network. Named ports are skipped, because only a pod maps port names to numbers."""
    if ":" in network:  # rules for IPv6 have no effect in an IPv4 cluster
        return
    if not ports:
        yield Allow(network, excluded)
    for port in ports:
        if not isinstance(port.get("port"), str):
            yield Allow(network, excluded, _build_ports(port, port.get("port")))


def _allow_address(address: str, ports: Sequence[Json], owner: Pod) -> Iterator[Allow]:
    """Allow one address. Named ports are resolved in the pod `owner`."""
    if not ports:
        yield Allow(f"{address}/32")
    for port in ports:
        protocol, port_name = port.get("protocol", "TCP"), port.get("port")
        number = owner.port(protocol, port_name) if port_name is not None else None
        if port_name is None or number is not None:
            yield Allow(f"{address}/32", (), _build_ports(port, number))


def _build_ports(port: Json, number: int | None) -> Ports:
    protocol = port.get("protocol", "TCP")
    return Ports(protocol) if number is None else Ports(protocol, number, max(port.get("endPort", number), number))


def _select_namespaces(world: World, own: str, peer: Json) -> set[str]:
    if peer.get("namespaceSelector") is None:
        return {own}
    return {name for name, labels in world.namespaces.items() if matches_selector(peer["namespaceSelector"], labels)}


def _select_pods(world: World, own: str, peer: Json) -> Iterator[Pod]:
    namespaces, selector = _select_namespaces(world, own, peer), peer.get("podSelector") or {}
    return (pod for pod in world.pods if pod.namespace in namespaces and matches_selector(selector, pod.labels))


def _allow_services(world: World, own: str, peer: Json, ports: Sequence[Json]) -> Iterator[Allow]:
    """Allow the addresses of services whose selector has labels that match the peer, because egress rules apply before
    kube-proxy chooses a pod. The policy specifies target ports; the rules allow the matching service ports.
    """
    namespaces, selector = _select_namespaces(world, own, peer), peer.get("podSelector") or {}
    for service in world.services:
        if service.namespace not in namespaces or not matches_selector(selector, service.selector):
            continue
        if not ports:
            yield Allow(f"{service.address}/32")
        for port in ports:
            protocol, target_port = port.get("protocol", "TCP"), port.get("port")
            number = _find_service_port(world, service, protocol, target_port) if target_port is not None else None
            if target_port is None or number is not None:
                yield Allow(f"{service.address}/32", (), _build_ports(port, number))


def _find_service_port(world: World, service: Service, protocol: str, target_port: Port) -> int | None:
    """Return the first service port that targets the given pod port, directly or through a port name in a pod of the
    service."""
    offered = [(number, target) for port_protocol, number, target in service.ports if port_protocol == protocol]
    direct = next((number for number, target in offered if target == target_port), None)
    if direct is not None:
        return direct
    selector = {"matchLabels": service.selector}
    for pod in world.pods:
        if pod.namespace == service.namespace and matches_selector(selector, pod.labels):
            asked = pod.port(protocol, target_port)
            for number, target in offered:
                if asked is not None and pod.port(protocol, target) == asked:
                    return number
    return None
