"""The auto scaling group behind a node group: made, resized, renewed and removed through Auto Scaling.

https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html
https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
"""

from collections.abc import Callable
from typing import Any

from localcloud.aws import durations
from localcloud.aws.autoscaling import capacity, group_calls
from localcloud.aws.call import backend_of
from localcloud.aws.eks import node_launch, nodes
from localcloud.aws.eks.state import Cluster, NodeGroup, Record
from localcloud.aws.errors import AwsError

TERMINATION_POLICIES = ["AllocationStrategy", "OldestLaunchTemplate", "OldestInstance"]
GRACE_SECONDS = 15
_CAUSE = "in response to an update of the EKS node group"

Ready = Callable[[], bool]
"""Whether the nodes are as they should be by now."""
Finished = Callable[[AwsError | None], None]
"""Told when an update of the nodes is over, with what EC2 refused if it failed."""


def create(cluster: Cluster, group: NodeGroup, name: str) -> None:
    """The group, with as many instances as wanted (or as EC2 gives)."""
    record, sizes = group.record, group.record["scalingConfig"]
    owned = {
        "k8s.io/cluster-autoscaler/enabled": "true",
        f"k8s.io/cluster-autoscaler/{cluster.name}": "owned",
        f"kubernetes.io/cluster/{cluster.name}": "owned",
        **node_launch.tags_of(cluster, group.name),
    }
    params: Record = {
        "AutoScalingGroupName": name,
        "MinSize": sizes["minSize"],
        "MaxSize": sizes["maxSize"],
        "DesiredCapacity": sizes["desiredSize"],
        "VPCZoneIdentifier": ",".join(record["subnets"]),
        "HealthCheckType": "EC2",
        "HealthCheckGracePeriod": GRACE_SECONDS,
        "TerminationPolicies": TERMINATION_POLICIES,
        "CapacityRebalance": record["capacityType"] == "SPOT",
        "Tags": [{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in owned.items()],
        **_launch_source(cluster, group, group.types),
    }
    group_calls.create(backend_of("autoscaling", cluster.account, cluster.region), params)


def resize(cluster: Cluster, group: NodeGroup, sizes: Record) -> None:
    for found in nodes.auto_scaling_groups(cluster, group):
        group_calls.update(
            found, {"MinSize": sizes["minSize"], "MaxSize": sizes["maxSize"], "DesiredCapacity": sizes["desiredSize"]}
        )


def use_new_template(cluster: Cluster, group: NodeGroup, types: list[str]) -> None:
    """New instances get the default version of EKS's template; those that run stay as they are."""
    for found in nodes.auto_scaling_groups(cluster, group):
        group_calls.update(found, _launch_source(cluster, group, types))


def empty(cluster: Cluster, group: NodeGroup) -> None:
    for found in nodes.auto_scaling_groups(cluster, group):
        group_calls.update(found, {"MinSize": 0, "MaxSize": 0, "DesiredCapacity": 0})


def delete(cluster: Cluster, group: NodeGroup) -> None:
    for found in nodes.auto_scaling_groups(cluster, group):
        group_calls.delete(found, force=True)


def _launch_source(cluster: Cluster, group: NodeGroup, types: list[str]) -> Record:
    """EKS's template; its types as overrides, which a capacity block cannot have."""
    template = backend_of("ec2", cluster.account, cluster.region).launch_templates[group.template_id]
    specification = {"LaunchTemplateId": template.id, "Version": str(template.default_version_number)}
    if group.record["capacityType"] == "CAPACITY_BLOCK":
        return {"LaunchTemplate": specification}
    spot = group.record["capacityType"] == "SPOT"
    return {
        "MixedInstancesPolicy": {
            "LaunchTemplate": {
                "LaunchTemplateSpecification": specification,
                "Overrides": [{"InstanceType": name} for name in types],
            },
            "InstancesDistribution": {
                "OnDemandAllocationStrategy": "prioritized",
                "OnDemandBaseCapacity": 0,
                "OnDemandPercentageAboveBaseCapacity": 0 if spot else 100,
                "SpotAllocationStrategy": "price-capacity-optimized",
            },
        }
    }


def renew(cluster: Cluster, group: NodeGroup, update: Record, finished: Finished) -> None:
    """Replace the instances of older template versions, as many at a time as the node group allows.

    DEFAULT starts the new ones before the old ones go, and so needs spare capacity; MINIMAL lets the old ones go first.
    """

    def ready() -> bool:
        return cluster.progress_of(group).done

    found = nodes.auto_scaling_groups(cluster, group)
    if not found:
        _after(ready, update, "eks-node-group-update", lambda: finished(None))
        return
    _renew_batch(ready, group, found[0], update, finished)


def _renew_batch(ready: Ready, group: NodeGroup, scaling: Any, update: Record, finished: Finished) -> None:
    template = scaling.ec2_launch_template
    members = capacity.members(scaling)
    old = [state for state in members if state.template_version.number != template.default_version_number]
    if not old:
        _after(ready, update, "eks-node-group-update", lambda: finished(None))
        return
    batch = old[: _at_once(group, len(members))]
    replace = _surge if group.record["updateConfig"]["updateStrategy"] == "DEFAULT" else _minimal
    replace(ready, scaling, batch, update, lambda: _renew_batch(ready, group, scaling, update, finished), finished)


def _at_once(group: NodeGroup, members: int) -> int:
    config = group.record["updateConfig"]
    if "maxUnavailablePercentage" in config:
        return max(1, members * int(config["maxUnavailablePercentage"]) // 100)
    return int(config["maxUnavailable"])


def _surge(
    ready: Ready, scaling: Any, batch: list[Any], update: Record, next_batch: Callable[[], None], finished: Finished
) -> None:
    most, desired = scaling.max_size, scaling.desired_capacity
    scaling.max_size, scaling.desired_capacity = max(most, desired + len(batch)), desired + len(batch)
    refused = _launched(scaling)
    if refused is not None:
        scaling.max_size, scaling.desired_capacity = most, desired
        capacity.reconcile(scaling, _CAUSE)
        _after(ready, update, "eks-node-group-version-update", lambda: finished(refused))
        return

    def old_ones_go() -> None:
        scaling.max_size, scaling.desired_capacity = most, desired
        _let_go(scaling, batch)
        _after(ready, update, "ec2-instance-terminate", next_batch)

    _after(ready, update, "eks-node-group-version-update", old_ones_go)


def _minimal(
    ready: Ready, scaling: Any, batch: list[Any], update: Record, next_batch: Callable[[], None], finished: Finished
) -> None:
    _let_go(scaling, batch)

    def new_ones_come() -> None:
        refused = _launched(scaling)
        over = next_batch if refused is None else lambda: finished(refused)
        _after(ready, update, "eks-node-group-version-update", over)

    _after(ready, update, "ec2-instance-terminate", new_ones_come)


def _let_go(scaling: Any, batch: list[Any]) -> None:
    for state in batch:
        if state in capacity.members(scaling):
            capacity.let_go(scaling, state, f"An instance was taken out of service {_CAUSE}.")


def _launched(scaling: Any) -> AwsError | None:
    """Let the group reach its capacity; what EC2 refused, if it did."""
    done = capacity.reconcile(scaling, _CAUSE)
    return next(iter(capacity.refusals(scaling)), None) if any(activity.error_code for activity in done) else None


def _after(ready: Ready, update: Record, duration: str, then: Callable[[], None]) -> None:
    durations.schedule(update, "status", "InProgress", "InProgress", duration, then=then, gate=ready)
