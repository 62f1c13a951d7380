"""Plans how many nodes each group adds for unschedulable pods, and explains why a pod stays pending. Performs no I/O."""

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from localcloud.kubernetes.autoscaler.fitting import FilledNode, find_selector_refusals, find_taint_refusals
from localcloud.kubernetes.autoscaler.groups import Group, has_all_device_resources
from localcloud.kubernetes.autoscaler.objects import Node, Pod


@dataclass(frozen=True)
class Plan:
    increases: Mapping[str, int] = field(default_factory=dict)
    """Number of nodes to add to each group, keyed by group name."""
    helped: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    """Pods that trigger the scale-up of each group, keyed by group name."""
    hopeless: Sequence[tuple[Pod, str]] = ()
    """Pods that no scale-up can make schedulable at the moment, each with the reason."""
    expected: Mapping[str, str] = field(default_factory=dict)
    """Maps the name of each pod to the name of the existing or future node on which the pod fits. The scheduler should
    place the pod there soon."""
    is_held: bool = False
    """Whether the scale-up waits for more pods, because the unschedulable pods are very new."""


@dataclass(frozen=True)
class Option:
    """A possible scale-up: a group, its new nodes and the pods that fit on them."""

    group: Group
    places: tuple[FilledNode, ...]
    pods: tuple[Pod, ...]

    @property
    def waste(self) -> float:
        """Unused share of the new nodes' CPUs and memory."""
        shares = [
            place.free[name] / place.node.allocatable[name]
            for place in self.places
            for name in ("cpu", "memory")
            if place.node.allocatable.get(name)
        ]
        return sum(shares) / len(shares) if shares else 0.0


Expander = Callable[[Sequence[Option]], Option]

EXPANDERS: Mapping[str, Expander] = {
    "random": lambda options: random.choice(list(options)),
    "most-pods": lambda options: max(options, key=lambda option: len(option.pods)),
    "least-waste": lambda options: min(options, key=lambda option: option.waste),
}
"""https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md#what-are-expanders"""


def plan_scale_up(
    pods: Iterable[Pod],
    nodes: Iterable[Node],
    groups: Sequence[Group],
    daemons: Sequence[Pod] = (),
    *,
    paused: Mapping[str, str] | None = None,
    lost: Collection[str] = (),
    expander: str = "least-waste",
) -> Plan:
    """Plan a scale-up.

    `paused` contains the groups in backoff, each with the reason. `lost` contains nodes that have been unready for too
    long: these nodes count toward their group's size but can run no pods.
    """
    everything = list(pods)
    places = list_available_nodes(nodes, everything, groups, daemons, lost)
    waiting: list[Pod] = []
    expected: dict[str, str] = {}
    for pod in _sort_by_size(pod for pod in everything if pod.is_unschedulable):
        if (place := _place_pod(pod, places)) is None:
            waiting.append(pod)
        else:
            expected[pod.full_name] = place.node.name
    increases: dict[str, int] = {}
    helped: dict[str, tuple[Pod, ...]] = {}
    can_grow = {group.name: group.free_node_count for group in groups if group.name not in (paused or {})}
    while options := [
        option for group in groups if (option := _build_option(group, waiting, daemons, can_grow.get(group.name, 0))) is not None
    ]:
        chosen = EXPANDERS[expander](options)
        name, count = chosen.group.name, len(chosen.places)
        increases[name] = increases.get(name, 0) + count
        helped[name] = (*helped.get(name, ()), *chosen.pods)
        can_grow[name] -= count
        taken = {pod.full_name for pod in chosen.pods}
        waiting = [pod for pod in waiting if pod.full_name not in taken]
    hopeless = [(pod, explain_pending_pod(pod, groups, daemons, paused or {})) for pod in waiting]
    return Plan(increases, helped, hopeless, expected)


def list_available_nodes(
    nodes: Iterable[Node],
    pods: Sequence[Pod],
    groups: Sequence[Group],
    daemons: Sequence[Pod] = (),
    lost: Collection[str] = (),
) -> list[FilledNode]:
    """Return the nodes that accept pods, plus the future nodes that each group needs to reach its desired size."""
    places, here = [], {group.name: 0 for group in groups}
    for node in nodes:
        group = find_group(node, groups)
        if group is not None and node.name in lost:
            here[group.name] += 1
            continue
        if not node.is_ready or (group is not None and not has_all_device_resources(node, group)):
            continue
        places.append(FilledNode(node, (pod for pod in pods if pod.node == node.name and not pod.is_finished)))
        if group is not None:
            here[group.name] += 1
    for group in groups:
        places += [build_future_node(group, daemons) for _ in range(group.desired - here[group.name])]
    return places


def find_group(node: Node, groups: Iterable[Group]) -> Group | None:
    return next((group for group in groups if node.instance_id in group.instances), None)


def build_future_node(group: Group, daemons: Iterable[Pod]) -> FilledNode:
    """Return a future node with the DaemonSet pods that will run on it."""
    template = group.template
    return FilledNode(template, (pod for pod in daemons if not _is_refused_by(pod, template)))


def explain_pending_pod(pod: Pod, groups: Sequence[Group], daemons: Sequence[Pod], paused: Mapping[str, str]) -> str:
    """Return a one-sentence reason why a pod stays pending."""
    if not groups:
        return "no Auto Scaling group has the tags given in --node-group-auto-discovery"
    templates = [group.template for group in groups]
    missing = [
        name
        for name, amount in pod.requests.items()
        if amount and name not in ("cpu", "memory", "ephemeral-storage", "pods")
        if not any(template.allocatable.get(name) for template in templates)
    ]
    if missing:
        return f"no group has {' and '.join(missing)}"
    reasons = []
    for group in groups:
        refusals = build_future_node(group, daemons).list_refusals(pod)
        if not refusals:
            refusals = [paused.get(group.name) or f"already at its maximum size of {group.maximum}"]
        reasons.append(f"{group.name}: {', '.join(refusals)}")
    return "; ".join(reasons)


def _build_option(group: Group, pods: Sequence[Pod], daemons: Sequence[Pod], room: int) -> Option | None:
    places: list[FilledNode] = []
    helped: list[Pod] = []
    for pod in pods:
        if _place_pod(pod, places):
            helped.append(pod)
        elif len(places) < room:
            fresh = build_future_node(group, daemons)
            if not fresh.list_refusals(pod):
                fresh.put(pod)
                places.append(fresh)
                helped.append(pod)
    return Option(group, tuple(places), tuple(helped)) if helped else None


def _place_pod(pod: Pod, places: Iterable[FilledNode]) -> FilledNode | None:
    """Place the pod on the first node with room for it and return that node; None if no node has room."""
    for place in places:
        if not place.list_refusals(pod):
            place.put(pod)
            return place
    return None


def _is_refused_by(pod: Pod, node: Node) -> bool:
    return any(find_selector_refusals(pod, node)) or any(find_taint_refusals(pod, node.taints))


def _sort_by_size(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: (-pod.requests.get("cpu", 0), -pod.requests.get("memory", 0), pod.full_name))
