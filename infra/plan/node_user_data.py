"""User data of a pool's nodes, from the pool's spec. Pure."""

from infra.boot import eks_node
from infra.boot.eks_node import ClusterAccess
from infra.plan.specs import NodePoolSpec


def encoded_user_data(spec: NodePoolSpec, cluster: ClusterAccess | None) -> str:
    """Return user data in base64. Only custom AMIs need `cluster`."""
    config = eks_node.node_config(
        raid0=spec.raid0,
        pinned_memory=spec.pinned_memory,
        cluster=cluster,
        labels=spec.labels,
        taints=spec.taints,
        max_pods=spec.max_pods,
    )
    return eks_node.encoded(eks_node.user_data(config, huge_pages=spec.huge_pages))
