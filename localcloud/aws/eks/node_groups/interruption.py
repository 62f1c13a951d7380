"""Drains Spot nodes before EC2 interrupts them, as EKS does: at their interruption notice, or earlier if EC2 recommends
rebalancing, as soon as a replacement has joined.

https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html#managed-node-group-capacity-types-spot
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from moto.backends import get_backend

from localcloud.aws import durations
from localcloud.aws.autoscaling import capacity
from localcloud.aws.ec2 import notices
from localcloud.aws.eks.node_groups import nodes
from localcloud.aws.eks.state import Cluster, Eks, NodeGroup
from localcloud.aws.patching import get_state, on_reset

CAUSE: Final = "in response to an EC2 instance rebalance recommendation"


@notices.on_interruption
def drain_interrupted_node(instance: Any) -> None:
    if (move := _rebalancing.pop(instance.id, None)) is not None:
        move.end()  # the replacement takes the place of the interrupted instance
    for cluster, _ in _find_spot_groups(instance):
        nodes.request_node_action(cluster, instance, "draining", Force=True)


@notices.on_rebalance
def replace_node_at_risk(instance: Any) -> None:
    for cluster, group in _find_spot_groups(instance):
        for scaling in nodes.list_auto_scaling_groups(cluster, group):
            for state in [member for member in capacity.list_members(scaling) if member.instance_id == instance.id]:
                _Rebalancing(cluster, group, scaling, state).start()


@dataclass
class _Rebalancing:
    """Replacement of one Spot node. Auto Scaling may exceed the group's maximum size until the old node is gone."""

    cluster: Cluster
    group: NodeGroup
    scaling: Any
    state: Any
    phase: str = ""

    def start(self) -> None:
        self._launch_instances(1)
        if any(activity.error_code for activity in capacity.adjust_instances(self.scaling, CAUSE)):
            self._launch_instances(-1)  # without Spot capacity, the node stays until EC2 interrupts it
            return
        _rebalancing[self.state.instance_id] = self
        self._schedule("eks-node-group", "replacing", self._drain, lambda: self._has_joined())

    def end(self) -> None:
        durations.cancel_transitions(self)
        self._launch_instances(-1)

    def _drain(self) -> None:
        nodes.request_node_action(self.cluster, self.state.instance, "draining", Force=True)
        self._schedule(
            "eks-node-drained",
            "draining",
            self._terminate,
            lambda: nodes.get_drain_progress(self.cluster, self.state.instance).done,
        )

    def _terminate(self) -> None:
        _rebalancing.pop(self.state.instance_id, None)
        self._launch_instances(-1)
        if self.state in capacity.list_members(self.scaling):
            capacity.start_termination(self.scaling, self.state, f"An instance was taken out of service {CAUSE}.")
        capacity.adjust_instances(self.scaling, CAUSE)

    def _has_joined(self) -> bool:
        are_running = all(state.lifecycle_state == "InService" for state in capacity.list_members(self.scaling))
        return are_running and self.cluster.get_node_group_progress(self.group).done

    def _launch_instances(self, number: int) -> None:
        self.scaling.launched_first = getattr(self.scaling, "launched_first", 0) + number

    def _schedule(self, kind: str, phase: str, then: Any, gate: Any) -> None:
        failed = durations.make_failure_handler(self, "phase", "failed")
        durations.schedule(self, "phase", phase, "done", kind, then=then, gate=gate, fail=failed)


_rebalancing: dict[str, _Rebalancing] = {}
"""Maps an instance ID to its replacement in progress."""


def _find_spot_groups(instance: Any) -> Iterator[tuple[Cluster, NodeGroup]]:
    """Return the Spot node group to which the instance belongs, with its cluster."""
    backend = instance.ec2_backend
    eks = get_backend("eks")[backend.account_id][backend.region_name]
    for cluster in list(get_state(eks, Eks).clusters.values()):
        for group in cluster.node_groups.values():
            if group.record["capacityType"] == "SPOT" and instance in nodes.find_in_service(cluster, group):
                yield cluster, group


@on_reset
def _reset_rebalancing() -> None:
    _rebalancing.clear()
