"""Customer managed KMS key."""

from typing import Final

import pulumi
import pulumi_aws as aws

from infra.components.children import build_child_args
from infra.naming import COMPONENT, Naming

DELETION_WINDOW_DAYS: Final = 30
"""Number of days during which a deleted key, and the backups that it encrypts, can be recovered. A key pending deletion
costs nothing."""


class EncryptionKey(pulumi.ComponentResource):
    """Creates:
    - a symmetric key that rotates every year
    - an alias, so that users can tell keys apart
    """

    def __init__(self, name: str, naming: Naming, purpose: str, policy: str, opts: pulumi.ResourceOptions | None = None) -> None:
        """`purpose` names the data that the key encrypts."""
        super().__init__(f"{COMPONENT}:EncryptionKey", name, None, opts)
        key = aws.kms.Key(
            **build_child_args(self, naming, name),
            description=f"{naming.cluster}: {purpose}",
            policy=policy,
            enable_key_rotation=True,
            deletion_window_in_days=DELETION_WINDOW_DAYS,
        )
        aws.kms.Alias(f"{name}-alias", target_key_id=key.key_id, opts=pulumi.ResourceOptions(parent=self))
        self.arn = key.arn
        self.register_outputs({"arn": self.arn})
