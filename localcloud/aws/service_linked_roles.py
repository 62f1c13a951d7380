"""Service-linked roles: AWS creates service-linked roles when an account first uses a service, if the caller has permission.

https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_create-service-linked-role.html. An established account
already has these roles; a new account does not.
"""

import json
from typing import Any

from localcloud.aws.call import backend_of

NAMES = {
    "autoscaling.amazonaws.com": "AWSServiceRoleForAutoScaling",
    "eks.amazonaws.com": "AWSServiceRoleForAmazonEKS",
    "eks-nodegroup.amazonaws.com": "AWSServiceRoleForAmazonEKSNodegroup",
    "fsx.amazonaws.com": "AWSServiceRoleForAmazonFSx",
    "elasticfilesystem.amazonaws.com": "AWSServiceRoleForAmazonElasticFileSystem",
    "spot.amazonaws.com": "AWSServiceRoleForEC2Spot",
}
"""Maps a service to the name of its service-linked role."""
SPOT = "spot.amazonaws.com"


def build_role_path(service: str) -> str:
    return f"/aws-service-role/{service}/"


def role_exists(iam: Any, service: str) -> bool:
    return any(role.name == NAMES[service] for role in iam.roles.values())


def ensure_role_exists(account: str, service: str) -> None:
    """Create the role of a service if it does not exist, as AWS does on first use."""
    iam = backend_of("iam", account, "us-east-1")
    if not role_exists(iam, service):
        create_role(iam, service)


def create_role(iam: Any, service: str) -> None:
    trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    iam.create_role(NAMES[service], document, build_role_path(service), None, "", [], "3600", None)
