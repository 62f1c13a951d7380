"""The longest chain of waits that AWS makes necessary, whatever the program."""

from localcloud.aws.durations import DURATIONS

NECESSARY = (
    ("key for the secrets of the cluster; its role is ready sooner", "kms-key"),
    ("control plane", "eks-cluster"),
    ("vpc-cni, without which no node becomes ready", "eks-addon"),
    ("system node group", "eks-node-group"),
    ("add-ons that need a node", "eks-addon"),
)
"""Each waits for the one before: EKS user guide, "Amazon EKS add-ons" and "Managed node groups"."""


def necessary_seconds() -> float:
    """Of AWS time, for a new cluster with its nodes and add-ons."""
    return sum(DURATIONS[kind].seconds for _, kind in NECESSARY)


def control_plane_seconds() -> float:
    return DURATIONS["eks-cluster"].seconds
