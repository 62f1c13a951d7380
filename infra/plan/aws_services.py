"""AWS services that nodes and their pods call, by the names of their VPC endpoints."""

from collections.abc import Iterable
from typing import Final

from infra.facts.model import Facts
from infra.settings.stack import Settings

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
    "sts",  # pods with IAM roles for service accounts
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
"""For EC2 clusters without Kubernetes. S3 is missing because it has a gateway endpoint."""

NOT_ESSENTIAL: Final = frozenset({"ec2messages", "logs", "ssm", "ssmmessages"})
"""Endpoints of Session Manager and container logs. Nodes join and run jobs without them."""

GUESSED_NAMES: Final = frozenset({"aws", "aws-us-gov"})
"""Partitions in which every endpoint service is named `com.amazonaws.<Region>.<service>`. China is not one of them:
there, ECR is `cn.com.amazonaws.cn-north-1.ecr.api`, but Systems Manager is `com.amazonaws.cn-north-1.ssm`:
https://github.com/aws/aws-cdk/pull/16139"""


def select_essential_services(settings: Settings, services: Iterable[str]) -> list[str]:
    """Return the given services whose endpoints are essential: nodes need the endpoints to join, or jobs need them to
    run or to keep their logs."""
    logs = {"logs"} if settings.is_eks and settings.platform.keeps_logs_in_cloudwatch else set()
    return [service for service in services if service not in NOT_ESSENTIAL - logs]


def list_called_services(settings: Settings) -> tuple[str, ...]:
    return FOR_EKS if settings.is_eks else FOR_EC2


def list_required_endpoints(settings: Settings) -> tuple[str, ...]:
    """Return the services that get an interface endpoint in the stack's VPC. The stack creates no endpoints in an
    existing VPC."""
    if settings.network.is_existing or not settings.network.has_interface_endpoints:
        return ()
    return list_called_services(settings)


def find_endpoint_names(settings: Settings, facts: Facts) -> dict[str, str]:
    """Return the full name of the endpoint service for each requested service that the Region offers."""
    services = list_required_endpoints(settings)
    if facts.endpoint_services is None:
        return {service: f"com.amazonaws.{facts.region}.{service}" for service in services}
    return {service: facts.endpoint_services[service].name for service in services if service in facts.endpoint_services}
