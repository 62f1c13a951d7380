"""Rolling replacement of a managed node group's nodes, for a new launch template version.

https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
(awsdocs/amazon-eks-user-guide@0bfeeaf:latest/ug/nodes/managed-node-update-behavior.adoc)
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moto.moto_api._internal import mock_random

from localcloud.aws import durations, events
from localcloud.aws.autoscaling import capacity, launch_data
from localcloud.aws.ec2 import launch_templates
from localcloud.aws.eks.node_groups import health, nodes
from localcloud.aws.eks.state import Cluster, NodeGroup, Record

_CAUSE = "in response to an update of the EKS node group"


@dataclass(frozen=True)
class Failure:
    """Error of a failed update, as in DescribeUpdate."""

    code: str
    message: str
    resource_ids: list[str]


Finished = Callable[[Failure | None], None]
"""Function that is called at the end of a node update. The function also sets the launch template version for later
launches."""


def replace_outdated_nodes(cluster: Cluster, group: NodeGroup, update: Record, finished: Finished, *, force: bool) -> None:
    """Replace the instances launched from older template versions.

    The strategy DEFAULT first adds nodes to the Auto Scaling group, so it needs spare capacity. The strategy MINIMAL
    terminates old nodes first. If new nodes do not join, or pods cannot be evicted and `force` is not set, the update
    fails and the remaining old nodes stay.
    """
    scaling_groups = nodes.list_auto_scaling_groups(cluster, group)
    _Renewal(cluster, group, scaling_groups[0] if scaling_groups else None, update, finished, force).start()


@dataclass
class _Renewal:
    """Rolling update in steps. Each step starts once the nodes have reached the target state of the previous step."""

    cluster: Cluster
    group: NodeGroup
    scaling: Any
    update: Record
    finished: Finished
    force: bool
    before: str = ""
    """Problem of the group's nodes that existed before the update; empty if there was none."""
    sizes: tuple[int, int] = (0, 0)
    """Maximum size and desired capacity before the update."""
    surged: int = 0
    """Desired capacity during the update."""
    marked: list[Any] = field(default_factory=list)
    """Instances that the update has made unschedulable."""

    def start(self) -> None:
        if not self._list_old_members():
            problem = self._find_node_problem()
            self._schedule("eks-node-group-update", lambda: self.finished(self._build_join_failure(problem) if problem else None))
            return
        self.before = self._find_node_problem()
        self.sizes = self.scaling.max_size, self.scaling.desired_capacity
        self.surged = self.scaling.desired_capacity
        if self._strategy == "DEFAULT":
            self._scale_up()
        else:
            self._drain_next_batch()

    def _scale_up(self) -> None:
        """Add two nodes per zone, or maxUnavailable nodes if that is more. Then cordon the old nodes."""
        most, desired = self.sizes
        zones = {place.zone for place in launch_data.list_launch_places(self.scaling)}
        more = max(2 * len(zones), self._compute_batch_size(desired))
        self.surged = desired + more
        self.scaling.max_size, self.scaling.desired_capacity = most + more, self.surged
        refused = self._adjust_capacity()

        def check_surge_nodes() -> None:
            without = {_find_zone(state) for state in self._list_old_members()} - {
                _find_zone(state) for state in self._list_new_members()
            }
            missing = refused or f"no instance was launched in {', '.join(sorted(without))}"
            problem = self._find_new_node_problem() or (missing if without else "")
            if problem:
                self._fail(self._build_join_failure(problem))
                return
            self._request_node_actions(self._list_old_members(), "cordoning")
            self._drain_next_batch()

        self._schedule("eks-node-group-version-update", check_surge_nodes)

    def _drain_next_batch(self) -> None:
        old = self._list_old_members()
        if not old:
            self._scale_down()
            return
        batch = mock_random.sample(old, min(len(old), self._compute_batch_size(self.sizes[1])))
        self._request_node_actions(batch, "draining", Force=self.force)
        self._schedule(
            0.0, lambda: self._check_drained(batch), gate=lambda: all(self._get_drain_progress(state).done for state in batch)
        )

    def _check_drained(self, batch: list[Any]) -> None:
        stuck = [state for state in batch if self._get_drain_progress(state).problem]
        if stuck:
            text = f"Reached max retries while trying to evict pods from nodes in node group {self.group.name}"
            # The text and resource IDs are from aws/containers-roadmap#1282.
            self._fail(Failure("PodEvictionFailure", text, [state.instance.private_dns_name for state in stuck]))
        else:
            self._schedule("eks-node-drained", lambda: self._replace(batch))

    def _replace(self, batch: list[Any]) -> None:
        """Terminate drained nodes. The Auto Scaling group launches replacements up to its desired capacity."""
        self._terminate(batch)

        def launch_replacements() -> None:
            refused = self._adjust_capacity()

            def check_replacements() -> None:
                missing = len(capacity.list_members(self.scaling)) < self.sizes[1]
                problem = self._find_new_node_problem() or (refused if missing else "")
                if problem:
                    self._fail(self._build_join_failure(problem))
                else:
                    self._drain_next_batch()

            self._schedule("eks-node-group-version-update", check_replacements)

        self._schedule("ec2-instance-terminate", launch_replacements)

    def _scale_down(self) -> None:
        self._restore_sizes()
        capacity.adjust_instances(self.scaling, _CAUSE)
        self._schedule("eks-node-group-update", lambda: self.finished(None))

    def _restore_sizes(self) -> None:
        """Restore the sizes from before the surge, unless the autoscaler has scaled up the group in the meantime."""
        if self._strategy == "DEFAULT" and self.scaling.desired_capacity <= self.surged:
            self.scaling.max_size, self.scaling.desired_capacity = self.sizes

    def _fail(self, failure: Failure) -> None:
        """End the update with an error. Keep the old nodes, and remove surplus new nodes.

        After a failed eviction, nodes that were already replaced stay replaced: EKS's next update skips "nodes that
        have already been updated from a previous failed update". NOT VERIFIED (2026-11-23): EKS removes surplus nodes
        and uncordons the old ones.
        """
        self._request_node_actions(self.marked, "uncordoning")
        self._restore_sizes()
        new = self._list_new_members()
        remaining = (
            max(0, self.scaling.desired_capacity - len(self._list_old_members())) if failure.code == "PodEvictionFailure" else 0
        )
        self._terminate(new[remaining:])
        self.finished(failure)
        capacity.adjust_instances(self.scaling, _CAUSE)

    @property
    def _strategy(self) -> str:
        return str(self.group.record["updateConfig"]["updateStrategy"])

    def _compute_batch_size(self, members: int) -> int:
        config = self.group.record["updateConfig"]
        if "maxUnavailablePercentage" in config:
            return max(1, members * int(config["maxUnavailablePercentage"]) // 100)
        return int(config["maxUnavailable"])

    def _list_old_members(self) -> list[Any]:
        return [state for state in self._list_members() if not self._is_new(state)]

    def _list_new_members(self) -> list[Any]:
        return [state for state in self._list_members() if self._is_new(state)]

    def _list_members(self) -> list[Any]:
        return capacity.list_members(self.scaling) if self.scaling is not None else []

    def _is_new(self, state: Any) -> bool:
        """Return whether the instance was launched with the new launch data, possibly by a failed update to the same
        version."""
        current_version = self.scaling.ec2_launch_template.default_version()
        return launch_templates.to_boto_format(state.template_version.data) == launch_templates.to_boto_format(
            current_version.data
        )

    def _find_node_problem(self) -> str:
        """Return why an instance of the group is not a node, or "" if there is no such instance."""
        refused = (refusal["message"] for refusal in health.find_unjoinable_nodes(self.cluster, self.group))
        return self.cluster.get_node_group_progress(self.group).problem or next(refused, "")

    def _find_new_node_problem(self) -> str:
        problem = self._find_node_problem()
        return problem if problem != self.before else ""

    def _build_join_failure(self, problem: str) -> Failure:
        text = f"Couldn't proceed with upgrade process as new nodes are not joining node group {self.group.name}: {problem}"
        return Failure("NodeCreationFailure", text, self.group.group_names)

    def _fail_after_internal_error(self, reason: str) -> None:
        """Set the update to Failed after an internal error of the local cloud."""
        self.finished(Failure("Unknown", reason, self.group.group_names))

    def _get_drain_progress(self, state: Any) -> events.Progress:
        return nodes.get_drain_progress(self.cluster, state.instance)

    def _request_node_actions(self, states: list[Any], action: events.NodeRequest, **details: Any) -> None:
        if action == "cordoning":
            self.marked += states
        for state in states:
            if state in capacity.list_members(self.scaling):
                nodes.request_node_action(self.cluster, state.instance, action, **details)

    def _adjust_capacity(self) -> str:
        """Reconcile the group's capacity and return EC2's last error, if any."""
        done = capacity.adjust_instances(self.scaling, _CAUSE)
        return next((str(activity.message) for activity in reversed(done) if activity.error_code), "")

    def _terminate(self, batch: list[Any]) -> None:
        for state in batch:
            if state in capacity.list_members(self.scaling):
                capacity.start_termination(self.scaling, state, f"An instance was taken out of service {_CAUSE}.")

    def _schedule(self, duration: str | float, then: Callable[[], None], gate: Callable[[], bool] | None = None) -> None:
        durations.schedule(
            self.update,
            "status",
            "InProgress",
            "InProgress",
            duration,
            then=then,
            gate=gate or (lambda: self.cluster.get_node_group_progress(self.group).done),
            fail=self._fail_after_internal_error,
        )


def _find_zone(state: Any) -> str:
    return str(state.instance.placement.zone)
