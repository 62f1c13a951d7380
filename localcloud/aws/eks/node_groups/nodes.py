"""The nodes of a cluster: the instances of its node groups that have joined."""

from typing import Any

from localcloud.aws.call import backend_of
from localcloud.aws.eks.state import Cluster, NodeGroup

JOINED = ("ACTIVE", "DEGRADED", "UPDATING")
"""Status of node groups whose instances are nodes."""


def auto_scaling_groups(cluster: Cluster, group: NodeGroup) -> list[Any]:
    """moto's groups behind a node group, as far as they still exist."""
    known = backend_of("autoscaling", cluster.account, cluster.region).autoscaling_groups
    return [known[name] for name in group.group_names if name in known]


def in_service(cluster: Cluster, group: NodeGroup) -> list[Any]:
    """The instances that the node group's auto scaling groups have in service."""
    return [state.instance for found in auto_scaling_groups(cluster, group) for state in found.active_instances()]


def can_run_deployments(cluster: Cluster) -> bool:
    """Whether a node takes the pods of EKS's own deployments, which tolerate no taint of a node group."""
    return any(
        group.record["status"] in JOINED
        and not any(taint["effect"] in ("NO_SCHEDULE", "NO_EXECUTE") for taint in group.record.get("taints", []))
        and in_service(cluster, group)
        for group in cluster.node_groups.values()
    )
