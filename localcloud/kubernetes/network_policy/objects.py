"""The objects to which network policies refer, reduced to the fields that the agent needs. Performs no I/O."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

Json = Mapping[str, Any]
Labels = Mapping[str, str]
Port = int | str
"""Number or name of a port."""
ENDED = ("Succeeded", "Failed")
"""Phases of pods that have released their address."""


@dataclass(frozen=True)
class Pod:
    namespace: str
    labels: Labels
    address: str
    ports: tuple[tuple[str, str, int], ...] = ()
    """Protocol, name and number of each named port."""
    on_host_network: bool = False

    def port(self, protocol: str, port: Port) -> int | None:
        """Return the number of a port; None if the pod has no port with this name."""
        if isinstance(port, int):
            return port
        return next((number for port_protocol, name, number in self.ports if (port_protocol, name) == (protocol, port)), None)


@dataclass(frozen=True)
class Service:
    namespace: str
    selector: Labels
    address: str
    ports: tuple[tuple[str, int, Port], ...]
    """Protocol, number and target port."""


def create_pod_parser(networks: tuple[IPv4Network, ...]) -> Callable[[Json], Pod | None]:
    """Return a function that parses a pod. The function returns None unless the pod has an address in one of the
    networks.

    Addresses of simulated pods are outside the cluster's networks.
    """

    def parse_pod(item: Json) -> Pod | None:
        status, spec = item.get("status", {}), item["spec"]
        address = status.get("podIP")
        if not address or status.get("phase") in ENDED or not any(IPv4Address(address) in network for network in networks):
            return None
        containers = (*spec.get("initContainers", ()), *spec["containers"])
        ports = [port for container in containers for port in container.get("ports", ()) if "name" in port]
        return Pod(
            namespace=item["metadata"]["namespace"],
            labels=item["metadata"].get("labels", {}),
            address=address,
            ports=tuple((port.get("protocol", "TCP"), port["name"], port["containerPort"]) for port in ports),
            on_host_network=bool(spec.get("hostNetwork")),
        )

    return parse_pod


def parse_service(item: Json) -> Service | None:
    """Return the service; None if it is headless or selects no pods."""
    spec = item["spec"]
    address = spec.get("clusterIP", "None")
    if address in ("", "None") or not spec.get("selector"):
        return None
    ports = tuple((port["protocol"], port["port"], port.get("targetPort", port["port"])) for port in spec.get("ports", ()))
    return Service(item["metadata"]["namespace"], spec["selector"], address, ports)


def parse_labels(item: Json) -> Labels:
    labels: Labels = item["metadata"].get("labels", {})
    return labels


def parse_policy(item: Json) -> Json:
    """Return only the namespace and spec of the policy, because its other metadata changes more often."""
    return {"namespace": item["metadata"]["namespace"], "spec": item.get("spec", {})}


def matches_selector(selector: Json, labels: Labels) -> bool:
    """Evaluate a label selector: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/"""
    match_labels = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in match_labels.items()):
        return False
    return all(_matches_expression(expression, labels) for expression in selector.get("matchExpressions") or ())


def _matches_expression(expression: Json, labels: Labels) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise ValueError(f"unknown label selector operator: {expression['operator']}")
