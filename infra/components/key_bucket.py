"""S3 bucket for the public SSH keys of nodes and job pods, and for the folders that `submit` sends to jobs without a
shared volume. Private keys never leave the node or pod that generated them."""

from typing import Final

import pulumi
import pulumi_aws as aws

from infra.components import iam
from infra.components.children import build_child_args
from infra.naming import COMPONENT, WORKDIR_DAYS, WORKDIR_KEYS, Naming

EXPIRY_DAYS: Final = 1
"""Number of days after which uploaded public keys expire. One day is enough: nodes and pods exchange keys within
minutes, and running nodes upload their keys again."""


class KeyBucket(pulumi.ComponentResource):
    """Creates a bucket that is
    - private, encrypted, without ACLs, and reachable with TLS only
    - not versioned, and deleted together with its content; keys expire after a day, folders of jobs after a month
    """

    def __init__(self, name: str, naming: Naming, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:KeyBucket", name, None, opts)
        bucket = aws.s3.Bucket(**build_child_args(self, naming, name), force_destroy=True)
        self.name, self.arn = bucket.bucket, bucket.arn
        options = pulumi.ResourceOptions(parent=self)
        block = aws.s3.BucketPublicAccessBlock(
            f"{name}-public-access-block",
            bucket=bucket.id,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=options,
        )
        aws.s3.BucketOwnershipControls(
            f"{name}-ownership",
            bucket=bucket.id,
            rule={"object_ownership": "BucketOwnerEnforced"},
            opts=options,
        )
        aws.s3.BucketServerSideEncryptionConfiguration(
            f"{name}-encryption",
            bucket=bucket.id,
            # With a KMS key, every reader would also need permission to use that key.
            rules=[{"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}],
            opts=options,
        )
        aws.s3.BucketLifecycleConfiguration(
            f"{name}-lifecycle",
            bucket=bucket.id,
            rules=[
                _build_expiration_rule("expire", iam.NODE_KEYS, EXPIRY_DAYS),
                _build_expiration_rule("expire-job-keys", iam.JOB_KEYS, EXPIRY_DAYS),
                _build_expiration_rule("expire-workdirs", WORKDIR_KEYS, WORKDIR_DAYS),
                {
                    "id": "abort-uploads",
                    "status": "Enabled",
                    "filter": {"prefix": ""},
                    "abort_incomplete_multipart_upload": {"days_after_initiation": 1},
                },
            ],
            opts=options,
        )
        aws.s3.BucketPolicy(
            f"{name}-policy",
            bucket=bucket.id,
            policy=bucket.arn.apply(lambda arn: iam.to_json(iam.build_tls_only_bucket_policy(arn))),
            # S3 rejects a policy while the public access block is changing (OperationAborted).
            opts=pulumi.ResourceOptions(parent=self, depends_on=[block]),
        )
        self.register_outputs({"bucket": self.name})


def _build_expiration_rule(id: str, prefix: str, days: int) -> aws.s3.BucketLifecycleConfigurationRuleArgsDict:
    return {
        "id": id,
        "status": "Enabled",
        "filter": {"prefix": f"{prefix}/"},
        "expiration": {"days": days},
    }
