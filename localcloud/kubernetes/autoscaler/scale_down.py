"""Finds unneeded nodes. Performs no I/O.

https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md#how-does-scale-down-work
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from localcloud.kubernetes.autoscaler.fitting import FilledNode
from localcloud.kubernetes.autoscaler.groups import GPU, Group
from localcloud.kubernetes.autoscaler.objects import SAFE_TO_EVICT, SCALE_DOWN_DISABLED, Node, Pod, Taint
from localcloud.kubernetes.autoscaler.scale_up import find_group

TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
"""Taint on a node that is being removed. The taint keeps new pods away from the node."""


@dataclass(frozen=True)
class Rules:
    utilization_threshold: float = 0.5
    gpu_utilization_threshold: float = 0.5
    skip_system_pods: bool = True
    skip_local_storage: bool = True
    skip_custom_controllers: bool = True


@dataclass(frozen=True)
class Verdict:
    node: Node
    group: Group
    needed: str = ""
    """Reason why the node is needed; empty if it is not needed."""
    to_move: tuple[Pod, ...] = ()
    """Pods to evict before the node can be removed."""


def judge_nodes(nodes: Sequence[Node], pods: Sequence[Pod], groups: Sequence[Group], rules: Rules) -> list[Verdict]:
    """Return a verdict for each node that belongs to a group. The nodes with the fewest pods come first.

    Pods that must move from unneeded nodes use resources of the remaining nodes.
    """
    places = {
        node.name: FilledNode(node, (pod for pod in pods if pod.node == node.name and not pod.is_finished)) for node in nodes
    }
    members = [(node, group) for node in nodes if (group := find_group(node, groups)) is not None]
    verdicts: list[Verdict] = []
    for node, group in sorted(members, key=lambda member: (len(_list_own_pods(places[member[0].name])), member[0].name)):
        gone = {verdict.node.name for verdict in verdicts if not verdict.needed}
        other_places = [place for name, place in places.items() if name != node.name and name not in gone and place.node.is_ready]
        verdicts.append(_judge_node(places[node.name], group, other_places, rules))
    return verdicts


def _judge_node(place: FilledNode, group: Group, other_places: Sequence[FilledNode], rules: Rules) -> Verdict:
    node, own = place.node, _list_own_pods(place)
    if node.annotations.get(SCALE_DOWN_DISABLED) == "true":
        return Verdict(node, group, f"it has the annotation {SCALE_DOWN_DISABLED}")
    for pod in place.pods:
        if pod.is_bound_to_node and pod.annotations.get(SAFE_TO_EVICT) == "false":
            return Verdict(node, group, f"pod {pod.full_name} is not safe to evict")
    if not own:
        return Verdict(node, group)
    threshold = rules.gpu_utilization_threshold if node.allocatable.get(GPU) else rules.utilization_threshold
    if (share := compute_utilization(place)) >= threshold:
        return Verdict(node, group, f"its utilization is {share:.0%}")
    for pod in own:
        if reason := find_eviction_obstacle(pod, rules):
            return Verdict(node, group, f"pod {pod.full_name} {reason}")
    return _plan_pod_moves(node, group, own, other_places)


def _plan_pod_moves(node: Node, group: Group, own: Sequence[Pod], other_places: Sequence[FilledNode]) -> Verdict:
    """Plan to move all of a node's pods to other nodes, or none of the pods if one does not fit."""
    trial = [(place, FilledNode(place.node, place.pods)) for place in other_places]
    moves: list[tuple[FilledNode, Pod]] = []
    for pod in own:
        moving = replace(pod, node=None)
        destination = next(((real, copy) for real, copy in trial if not copy.list_refusals(moving)), None)
        if destination is None:
            return Verdict(node, group, f"pod {pod.full_name} does not fit on another node")
        destination[1].put(moving)
        moves.append((destination[0], moving))
    for real, pod in moves:
        real.put(pod)
    return Verdict(node, group, to_move=tuple(own))


def compute_utilization(place: FilledNode) -> float:
    """Return the share of GPUs in use or, for a node without GPUs, the larger of the CPU and memory shares in use."""
    names = (GPU,) if place.node.allocatable.get(GPU) else ("cpu", "memory")
    shares = [1 - place.free[name] / place.node.allocatable[name] for name in names if place.node.allocatable.get(name)]
    return max(shares, default=0.0)


def find_eviction_obstacle(pod: Pod, rules: Rules) -> str:
    """Return why a pod must not be evicted; empty if it can be evicted."""
    annotated = pod.annotations.get(SAFE_TO_EVICT)
    if annotated == "true":
        return ""
    if annotated == "false":
        return "is not safe to evict"
    if pod.owner is None:
        return "has no controller to recreate it"
    if rules.skip_custom_controllers and pod.owner not in ("ReplicaSet", "ReplicationController", "Job", "StatefulSet"):
        return f"belongs to a {pod.owner}, which may not recreate it"
    if rules.skip_system_pods and pod.namespace == "kube-system":
        return "is a system pod"
    if rules.skip_local_storage and pod.has_local_storage:
        return "has local storage"
    return ""


def build_deletion_taint(now: float) -> Taint:
    return Taint(TO_BE_DELETED, str(int(now)), "NoSchedule")


def select_removable(verdicts: Sequence[Verdict], ending: Mapping[str, int]) -> list[Verdict]:
    """Return the unneeded nodes that can be removed without shrinking a group below its minimum size.

    `ending` is the number of nodes already being removed from each group, keyed by group name.
    """
    left = {verdict.group.name: verdict.group.desired - ending.get(verdict.group.name, 0) for verdict in verdicts}
    chosen = []
    for verdict in verdicts:
        if not verdict.needed and left[verdict.group.name] > verdict.group.minimum:
            left[verdict.group.name] -= 1
            chosen.append(verdict)
    return chosen


def _list_own_pods(place: FilledNode) -> list[Pod]:
    return [pod for pod in place.pods if not pod.is_bound_to_node]
