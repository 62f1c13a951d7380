"""Rolling replacement of a managed node group's nodes in batches, for a new launch template version.

https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from localcloud.aws import durations
from localcloud.aws.autoscaling import capacity
from localcloud.aws.eks.node_groups import nodes
from localcloud.aws.eks.state import Cluster, NodeGroup, Record

_CAUSE = "in response to an update of the EKS node group"

Finished = Callable[[str], None]
"""Function called at the end of a node update, with the reason for the failure, or "" on success.

It also sets the launch template version for later launches.
"""


def renew(cluster: Cluster, group: NodeGroup, update: Record, finished: Finished) -> None:
    """Replace the instances launched from older template versions.

    DEFAULT launches new instances before it removes old ones, so it needs spare capacity. MINIMAL removes old ones
    first. If EC2 refuses new instances, or they do not become nodes, the remaining old instances stay.
    """
    found = nodes.auto_scaling_groups(cluster, group)
    _Renewal(cluster, group, found[0] if found else None, update, finished).next_batch()


@dataclass
class _Renewal:
    """Rolling update in steps. Each step starts once the nodes have reached the target state of the previous step."""

    cluster: Cluster
    group: NodeGroup
    scaling: Any
    update: Record
    finished: Finished

    def next_batch(self) -> None:
        members = capacity.members(self.scaling) if self.scaling is not None else []
        old = [state for state in members if not self._is_new(state)]
        if not old:
            self._after("eks-node-group-update", lambda: self.finished(self._problem()))
            return
        batch = old[: self._at_once(len(members))]
        if self.group.record["updateConfig"]["updateStrategy"] == "DEFAULT":
            self._surge(batch)
        else:
            self._minimal(batch)

    def _surge(self, batch: list[Any]) -> None:
        scaling, before = self.scaling, self._problem()
        most, desired = scaling.max_size, scaling.desired_capacity
        scaling.max_size, scaling.desired_capacity = max(most, desired + len(batch)), desired + len(batch)
        refused = self._launch()

        def check_new() -> None:
            scaling.max_size, scaling.desired_capacity = most, desired
            problem = refused or self._problem()
            if problem and problem != before:
                self._give_up(problem)
                return
            self._terminate(batch)
            self._after("ec2-instance-terminate", self.next_batch)

        self._after("eks-node-group-version-update", check_new)

    def _minimal(self, batch: list[Any]) -> None:
        before = self._problem()
        self._terminate(batch)

        def launch_new() -> None:
            refused = self._launch()

            def check_new() -> None:
                problem = refused or self._problem()
                if problem and problem != before:
                    self._give_up(problem)
                else:
                    self.next_batch()

            self._after("eks-node-group-version-update", check_new)

        self._after("ec2-instance-terminate", launch_new)

    def _give_up(self, problem: str) -> None:
        """Roll back: terminate the new instances and launch replacements from the previous template version."""
        self._terminate([state for state in capacity.members(self.scaling) if self._is_new(state)])
        self.finished(problem)
        capacity.reconcile(self.scaling, _CAUSE)

    def _is_new(self, state: Any) -> bool:
        return bool(state.template_version.number == self.scaling.ec2_launch_template.default_version_number)

    def _problem(self) -> str:
        """Return the problem that the realizer reports for the existing nodes."""
        return self.cluster.progress_of(self.group).problem

    def _at_once(self, members: int) -> int:
        config = self.group.record["updateConfig"]
        if "maxUnavailablePercentage" in config:
            return max(1, members * int(config["maxUnavailablePercentage"]) // 100)
        return int(config["maxUnavailable"])

    def _launch(self) -> str:
        """Reconcile the group's capacity and return EC2's error, if any."""
        done = capacity.reconcile(self.scaling, _CAUSE)
        if not any(activity.error_code for activity in done):
            return ""
        return next((refusal.message for refusal in capacity.refusals(self.scaling)), "")

    def _terminate(self, batch: list[Any]) -> None:
        for state in batch:
            if state in capacity.members(self.scaling):
                capacity.start_termination(self.scaling, state, f"An instance was taken out of service {_CAUSE}.")

    def _after(self, duration: str, then: Callable[[], None]) -> None:
        durations.schedule(
            self.update,
            "status",
            "InProgress",
            "InProgress",
            duration,
            then=then,
            gate=lambda: self.cluster.progress_of(self.group).done,
        )
