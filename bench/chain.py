"""Critical path of creating a cluster: the longest sequence of AWS operations that cannot run in parallel."""

from localcloud.aws.durations import DURATIONS

NECESSARY = (
    ("KMS key for the cluster's secrets (the cluster role is ready earlier)", "kms-key"),
    ("control plane", "eks-cluster"),
    ("vpc-cni, required before any node becomes ready", "eks-addon"),
    ("system node group", "eks-node-group"),
    ("add-ons that need a node", "eks-addon"),
)
"""Pairs of a step and its key in DURATIONS. Each step waits for the previous one. Source: EKS user guide, "Amazon EKS
add-ons" and "Managed node groups".
"""


def compute_minimum_creation_seconds() -> float:
    """Return the minimum time, in seconds, that AWS needs to create a cluster with nodes and add-ons."""
    return sum(DURATIONS[kind].seconds for _, kind in NECESSARY)


def compute_control_plane_creation_seconds() -> float:
    return DURATIONS["eks-cluster"].seconds
