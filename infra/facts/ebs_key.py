"""Queries about the KMS key that encrypts the nodes' volumes.

The launch templates request encrypted volumes and specify no key, so EBS uses the account's default key for the
Region, whether or not the account encrypts all volumes by default.
"""

import json

from infra.facts.clients import Clients, read_pages
from infra.facts.model import EbsKey

OF_AWS = "alias/aws/ebs"
SERVICE_ROLE = "role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"


def read_default_key(clients: Clients, partition: str, account: str) -> EbsKey | None:
    """Return the account's default key for EBS if it is customer managed. Return None for the AWS managed key, which
    always works.
    """
    key_id: str = clients.ec2.get_ebs_default_kms_key_id()["KmsKeyId"]
    if key_id.endswith(OF_AWS):
        return None
    role = f"arn:{partition}:iam::{account}:{SERVICE_ROLE}"
    try:
        key = clients.kms.describe_key(KeyId=key_id)["KeyMetadata"]
    except clients.kms.exceptions.NotFoundException:
        return EbsKey(key_id, "NotFound", role)
    if key["KeyManager"] == "AWS":
        return None
    policy = json.loads(clients.kms.get_key_policy(KeyId=key_id, PolicyName="default")["Policy"])
    return EbsKey(key["Arn"], key["KeyState"], role, policy, _list_granted_operations(clients, key_id, role))


def _list_granted_operations(clients: Clients, key_id: str, role: str) -> frozenset[str]:
    """Return the operations that grants of the key allow the role to perform on any volume.

    Grants with constraints apply only to some volumes, so they do not count.
    """
    grants = read_pages(clients.kms, "list_grants", "Grants", KeyId=key_id)
    own = [grant for grant in grants if grant.get("GranteePrincipal") == role and not grant.get("Constraints")]
    return frozenset(operation for grant in own for operation in grant["Operations"])
