"""Nodes of a cluster: instances of its node groups that have joined."""

from typing import Any

from localcloud.aws import events
from localcloud.aws.call import backend_of
from localcloud.aws.ec2.instance_view import describe_instance
from localcloud.aws.eks.state import Cluster, NodeGroup

JOINED = ("ACTIVE", "DEGRADED", "UPDATING")
"""Statuses of node groups whose instances count as nodes."""


def list_auto_scaling_groups(cluster: Cluster, group: NodeGroup) -> list[Any]:
    """Return moto's objects for the node group's Auto Scaling groups that still exist."""
    groups_by_name = backend_of("autoscaling", cluster.account, cluster.region).autoscaling_groups
    return [groups_by_name[name] for name in group.group_names if name in groups_by_name]


def find_in_service(cluster: Cluster, group: NodeGroup) -> list[Any]:
    """Return the instances in service in the node group's Auto Scaling groups."""
    return [
        state.instance for scaling_group in list_auto_scaling_groups(cluster, group) for state in scaling_group.active_instances()
    ]


def request_node_action(cluster: Cluster, instance: Any, request: events.NodeRequest, **details: Any) -> None:
    """Request that the realizer cordon, drain or uncordon a node. `get_drain_progress` returns the result of a drain."""
    described = {**describe_instance(instance), **details}
    events.publish_event(events.Event("instance", request, instance.id, cluster.region, cluster.account, described))


def get_drain_progress(cluster: Cluster, instance: Any) -> events.Progress:
    """Return the progress of a drain. The result's `problem` lists the pods that could not be evicted."""
    return events.query_progress("instance", instance.id, cluster.region, cluster.account)


def can_run_deployments(cluster: Cluster) -> bool:
    """Return whether any node can run EKS's own Deployments. The pods of these Deployments do not tolerate the taints
    of node groups."""
    return any(
        group.record["status"] in JOINED
        and not any(taint["effect"] in ("NO_SCHEDULE", "NO_EXECUTE") for taint in group.record.get("taints", []))
        and find_in_service(cluster, group)
        for group in cluster.node_groups.values()
    )
