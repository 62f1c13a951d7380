"""AWS services that nodes and their pods call, by the names of their VPC endpoints."""

from typing import Final

FOR_EKS: Final = (
    "autoscaling",  # cluster autoscaler
    "ec2",  # vpc-cni, kubelet
    "ec2messages",  # Session Manager
    "ecr.api",  # images
    "ecr.dkr",
    "eks",  # nodeadm, cluster autoscaler
    "eks-auth",  # Pod Identity
    "elasticfilesystem",  # EFS CSI driver
    "logs",  # container logs
    "ssm",  # Session Manager
    "ssmmessages",
    "sts",  # aws eks get-token inside the VPC
)
"""https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html"""

FOR_EC2: Final = (
    "autoscaling",  # join service: cluster members
    "ec2",
    "ec2messages",  # Session Manager
    "elasticfilesystem",  # EFS mount helper
    "ssm",  # Session Manager
    "ssmmessages",
    "sts",  # join service: own identity
)
"""For EC2 clusters without Kubernetes. S3 has a gateway endpoint."""

NOT_ESSENTIAL: Final = frozenset({"ec2messages", "logs", "ssm", "ssmmessages"})
"""Endpoints of Session Manager and container logs. Nodes join and run jobs without them."""
