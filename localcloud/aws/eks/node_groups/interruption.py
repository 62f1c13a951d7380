"""Drains Spot nodes as soon as their interruption notice arrives, as EKS does.

https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html#managed-node-group-capacity-types-spot
Rebalance recommendations, which make EKS launch a replacement earlier, are not emulated.
"""

from typing import Any

from moto.backends import get_backend

from localcloud.aws.ec2 import notices
from localcloud.aws.eks.node_groups import nodes
from localcloud.aws.eks.state import Eks
from localcloud.aws.patching import state_of


@notices.on_interruption
def drain(instance: Any) -> None:
    backend = instance.ec2_backend
    eks = get_backend("eks")[backend.account_id][backend.region_name]
    for cluster in list(state_of(eks, Eks).clusters.values()):
        for group in cluster.node_groups.values():
            if group.record["capacityType"] == "SPOT" and instance in nodes.in_service(cluster, group):
                nodes.publish(cluster, instance, "draining", Force=True)
