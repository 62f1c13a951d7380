"""S3."""

import json
from typing import Any

from tests.engine.cases.case import Case, make_constant, property_names
from tests.engine.world import World


def _build_policy(world: World, sid: str) -> str:
    bucket = f"arn:aws:s3:::{world.bucket}"
    statement = {
        "Sid": sid,
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [bucket, f"{bucket}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _create_other_bucket(world: World) -> str:
    return world.create_bucket("other")


EXPIRY = {
    "id": "expire",
    "status": "Enabled",
    "filter": {"prefix": "nodes/"},
    "expiration": {"days": 1},
    "abortIncompleteMultipartUpload": {"daysAfterInitiation": 1},
    "transitions": [{"days": 1, "storageClass": "GLACIER"}],
}
OLD_VERSIONS = {
    "id": "old-versions",
    "status": "Disabled",
    "filter": {"and": {"prefix": "logs/", "tags": {"keep": "no", "team": "one"}}},
    "expiration": {"expiredObjectDeleteMarker": True},
    "noncurrentVersionExpiration": {"noncurrentDays": 30},
    "noncurrentVersionTransitions": [{"noncurrentDays": 10, "storageClass": "GLACIER"}],
}
TAGGED = {"id": "tagged", "status": "Enabled", "filter": {"tag": {"key": "keep", "value": "no"}}, "expiration": {"days": 3}}
BY_PREFIX = {"id": "by-prefix", "status": "Enabled", "prefix": "tmp/", "expiration": {"days": 2}}


def _build_lifecycle_inputs(*rules: dict[str, Any]) -> Any:
    return lambda world: {"bucket": world.bucket, "rules": list(rules)}


CASES = [
    Case(
        "aws:s3/bucket:Bucket",
        make_inputs=lambda world: {
            "bucket": world.name("keys"),
            "objectLockEnabled": True,
            "forceDestroy": True,
            "tags": {"gpumpi:stack": "local"},
        },
        needed=property_names(),
        instead=(lambda world: {"bucketPrefix": world.name("keys-")},),
        updates={"forceDestroy": make_constant(False), "tags": make_constant({"more": "1"})},
        removals=property_names("tags", "forceDestroy"),
        replaces={"bucket": make_constant("other-keys"), "objectLockEnabled": make_constant(False)},
        drift=lambda world, id: world.client("s3").delete_bucket_tagging(Bucket=id),
        drifted=property_names("tags"),
    ),
    Case(
        "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
        make_inputs=lambda world: {
            "bucket": world.bucket,
            "blockPublicAcls": True,
            "blockPublicPolicy": True,
            "ignorePublicAcls": True,
            "restrictPublicBuckets": True,
            "skipDestroy": False,
        },
        needed=property_names("bucket"),
        updates={
            "blockPublicAcls": make_constant(False),
            "restrictPublicBuckets": make_constant(False),
            "skipDestroy": make_constant(True),
        },
        removals=property_names("blockPublicPolicy", "ignorePublicAcls"),
        replaces={"bucket": _create_other_bucket},
        drift=lambda world, id: world.client("s3").put_public_access_block(
            Bucket=id, PublicAccessBlockConfiguration={"BlockPublicAcls": True, "IgnorePublicAcls": True}
        ),
        drifted=property_names("blockPublicPolicy", "restrictPublicBuckets"),
    ),
    Case(
        "aws:s3/bucketOwnershipControls:BucketOwnershipControls",
        make_inputs=lambda world: {"bucket": world.bucket, "rule": {"objectOwnership": "BucketOwnerEnforced"}},
        needed=property_names("bucket", "rule"),
        updates={"rule": make_constant({"objectOwnership": "BucketOwnerPreferred"})},
        replaces={"bucket": _create_other_bucket},
        drift=lambda world, id: world.client("s3").put_bucket_ownership_controls(
            Bucket=id, OwnershipControls={"Rules": [{"ObjectOwnership": "ObjectWriter"}]}
        ),
        drifted=property_names("rule"),
    ),
    Case(
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
        make_inputs=lambda world: {
            "bucket": world.bucket,
            "rules": [
                {
                    "applyServerSideEncryptionByDefault": {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": world.key},
                    "bucketKeyEnabled": True,
                }
            ],
        },
        needed=property_names("bucket", "rules"),
        updates={"rules": make_constant([{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}}])},
        replaces={"bucket": _create_other_bucket},
        drift=lambda world, id: world.client("s3").put_bucket_encryption(
            Bucket=id,
            ServerSideEncryptionConfiguration={
                "Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}, "BucketKeyEnabled": True}]
            },
        ),
        drifted=property_names("rules"),
        remains={"rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}, "bucketKeyEnabled": False}]},
    ),
    Case(
        "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration",
        make_inputs=_build_lifecycle_inputs(EXPIRY, OLD_VERSIONS, TAGGED),
        needed=property_names("bucket", "rules"),
        instead=(_build_lifecycle_inputs(BY_PREFIX),),
        updates={"rules": make_constant([{**EXPIRY, "expiration": {"days": 2}}])},
        replaces={"bucket": _create_other_bucket},
        drift=lambda world, id: world.client("s3").put_bucket_lifecycle_configuration(
            Bucket=id,
            LifecycleConfiguration={"Rules": [{"ID": "t", "Status": "Enabled", "Prefix": "", "Expiration": {"Days": 9}}]},
        ),
        drifted=property_names("rules"),
    ),
    Case(
        "aws:s3/bucketPolicy:BucketPolicy",
        make_inputs=lambda world: {"bucket": world.bucket, "policy": _build_policy(world, "one")},
        needed=property_names("bucket", "policy"),
        updates={"policy": lambda world: _build_policy(world, "two")},
        replaces={"bucket": _create_other_bucket},
        drift=lambda world, id: world.client("s3").put_bucket_policy(Bucket=id, Policy=_build_policy(world, "theirs")),
        drifted=property_names("policy"),
    ),
    Case(
        "aws:s3/bucketVersioning:BucketVersioning",
        make_inputs=lambda world: {"bucket": world.bucket, "versioningConfiguration": {"status": "Enabled"}},
        needed=property_names("bucket", "versioningConfiguration"),
        updates={"versioningConfiguration": make_constant({"status": "Suspended"})},
        replaces={"bucket": _create_other_bucket},
        drift=lambda world, id: world.client("s3").put_bucket_versioning(
            Bucket=id, VersioningConfiguration={"Status": "Suspended"}
        ),
        drifted=property_names("versioningConfiguration"),
        remains={"versioningConfiguration": {"status": "Suspended"}},
    ),
]
