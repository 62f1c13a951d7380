"""The critical path: the longest chain of waits that AWS imposes on any program."""

from localcloud.aws.durations import DURATIONS

NECESSARY = (
    ("KMS key for the cluster's secrets; the cluster role is ready sooner", "kms-key"),
    ("control plane", "eks-cluster"),
    ("vpc-cni, without which no node becomes ready", "eks-addon"),
    ("system node group", "eks-node-group"),
    ("add-ons that need a node", "eks-addon"),
)
"""Each step waits for the previous one: EKS user guide, "Amazon EKS add-ons" and "Managed node groups"."""


def necessary_seconds() -> float:
    """Return the AWS time that a new cluster with nodes and add-ons takes at least."""
    return sum(DURATIONS[kind].seconds for _, kind in NECESSARY)


def control_plane_seconds() -> float:
    return DURATIONS["eks-cluster"].seconds
