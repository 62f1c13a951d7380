"""Check whether pods fit on nodes, as the scheduler's filters do:
https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins"""

from collections.abc import Iterable, Mapping
from typing import Any

from localcloud.kubernetes.autoscaler.objects import Node, Pod, Taint

Json = Mapping[str, Any]
_ALWAYS = ("cpu", "memory", "ephemeral-storage", "pods")
"""Resources that are not checked if the node does not declare them. For example, group templates declare no disk."""


class FilledNode:
    """A node with the pods placed on it so far."""

    def __init__(self, node: Node, pods: Iterable[Pod] = ()) -> None:
        self.node = node
        self.pods = list(pods)
        self.free = dict(node.allocatable)
        for pod in self.pods:
            self._subtract_requests(pod)

    def put(self, pod: Pod) -> None:
        self.pods.append(pod)
        self._subtract_requests(pod)

    def _subtract_requests(self, pod: Pod) -> None:
        for name, amount in pod.requests.items():
            if name in self.free:
                self.free[name] -= amount

    def list_refusals(self, pod: Pod) -> list[str]:
        """Return the reasons why the pod does not fit on the node; empty if it fits."""
        return [
            *([f"{self.node.name} is cordoned"] if self.node.is_cordoned else []),
            *self._find_resource_refusals(pod),
            *find_selector_refusals(pod, self.node),
            *find_taint_refusals(pod, self.node.taints),
            *self._find_affinity_refusals(pod),
        ]

    def _find_resource_refusals(self, pod: Pod) -> Iterable[str]:
        for name, amount in pod.requests.items():
            if amount == 0 or (name in _ALWAYS and name not in self.node.allocatable):
                continue
            if self.node.allocatable.get(name, 0) == 0:
                yield f"no {name}"
            elif amount > self.free[name]:
                yield f"insufficient {name}"

    def _find_affinity_refusals(self, pod: Pod) -> Iterable[str]:
        if any(has_mutual_anti_affinity(pod, other) for other in self.pods):
            yield "anti-affinity with a pod on the node"


def has_mutual_anti_affinity(pod: Pod, other: Pod) -> bool:
    """True if either pod's anti-affinity selects the other pod. Selectors match only pods in the same namespace."""
    return pod.namespace == other.namespace and (
        any(matches_selector(selector, other.labels) for selector in pod.apart)
        or any(matches_selector(selector, pod.labels) for selector in other.apart)
    )


def find_selector_refusals(pod: Pod, node: Node) -> Iterable[str]:
    for key, value in pod.node_selector.items():
        if node.labels.get(key) != value:
            yield f"no label {key}={value}"
    if pod.node_terms is not None and not any(_matches_term(term, node) for term in pod.node_terms):
        yield "node labels do not match the pod's node affinity"


def find_taint_refusals(pod: Pod, taints: Iterable[Taint]) -> Iterable[str]:
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not any(_tolerates(toleration, taint) for toleration in pod.tolerations):
            yield f"untolerated taint {taint}"


def matches_selector(selector: Json, labels: Mapping[str, str]) -> bool:
    """True if the label selector matches. An empty selector matches everything."""
    match_labels = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in match_labels.items()) and all(
        _matches_expression(expression, labels) for expression in expressions
    )


def _matches_term(term: Json, node: Node) -> bool:
    """True if the node affinity term matches the node. An empty term matches nothing.

    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity
    """
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    return bool(expressions or fields) and (
        all(_matches_expression(expression, node.labels) for expression in expressions)
        and all(_matches_expression(expression, {"metadata.name": node.name}) for expression in fields)
    )


def _matches_expression(expression: Json, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), list(expression.get("values") or ())
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdigit() and int(value) > int(values[0])
        case "Lt":
            return value is not None and value.isdigit() and int(value) < int(values[0])
        case other:
            raise ValueError(f"unknown operator {other}")


def _tolerates(toleration: Json, taint: Taint) -> bool:
    """https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"""
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    key, operator = toleration.get("key"), toleration.get("operator") or "Equal"
    if not key:
        return bool(operator == "Exists")
    return bool(key == taint.key and (operator == "Exists" or (toleration.get("value") or "") == taint.value))
