"""Actions for which S3 requests need permission, with their resources and condition keys.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
"""

from collections.abc import Iterator

from localcloud.aws.call import Call
from localcloud.aws.permissions.need import Need
from localcloud.aws.policy_evaluation import Values

ACTIONS = {
    "CompleteMultipartUpload": "PutObject",
    "CopyObject": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "DeleteBucketEncryption": "PutEncryptionConfiguration",
    "DeleteBucketLifecycle": "PutLifecycleConfiguration",
    "DeleteBucketOwnershipControls": "PutBucketOwnershipControls",
    "DeleteBucketTagging": "PutBucketTagging",
    "DeletePublicAccessBlock": "PutBucketPublicAccessBlock",
    "DeleteObjects": "DeleteObject",
    "GetBucketAccelerateConfiguration": "GetAccelerateConfiguration",
    "GetBucketCors": "GetBucketCORS",
    "GetBucketEncryption": "GetEncryptionConfiguration",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
    "GetBucketNotificationConfiguration": "GetBucketNotification",
    "GetBucketReplication": "GetReplicationConfiguration",
    "GetObjectLockConfiguration": "GetBucketObjectLockConfiguration",
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "HeadBucket": "ListBucket",
    "HeadObject": "GetObject",
    "ListBuckets": "ListAllMyBuckets",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "ListParts": "ListMultipartUploadParts",
    "PutBucketAccelerateConfiguration": "PutAccelerateConfiguration",
    "PutBucketCors": "PutBucketCORS",
    "PutBucketEncryption": "PutEncryptionConfiguration",
    "PutBucketLifecycleConfiguration": "PutLifecycleConfiguration",
    "PutBucketNotificationConfiguration": "PutBucketNotification",
    "PutBucketReplication": "PutReplicationConfiguration",
    "PutObjectLockConfiguration": "PutBucketObjectLockConfiguration",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
    "UploadPart": "PutObject",
    "UploadPartCopy": "PutObject",
}
"""Maps an operation to the name of its action, where the two differ."""
_PARAMETERS = {"s3:prefix": "Prefix", "s3:delimiter": "Delimiter", "s3:x-amz-acl": "ACL", "s3:VersionId": "VersionId"}
_OF_NO_BUCKET = ("ListBuckets",)


def needs(call: Call) -> Iterator[Need]:
    """Yield the actions for an operation of S3 or S3 Control, whose actions have the same prefix."""
    action = f"s3:{ACTIONS.get(call.operation, call.operation)}"
    if call.service == "s3control":
        yield Need(action, (call.params.get("ResourceArn"),))
        return
    if call.operation in _OF_NO_BUCKET:
        yield Need(action)
        return
    arn, keys = f"arn:aws:s3:::{call.params['Bucket']}", _read_condition_keys(call)
    if call.operation == "DeleteObjects":
        yield Need(action, tuple(f"{arn}/{item['Key']}" for item in call.params["Delete"]["Objects"]), keys)
    else:
        yield Need(action, (f"{arn}/{call.params['Key']}" if "Key" in call.params else arn,), keys)
    if call.operation in ("CopyObject", "UploadPartCopy"):
        source = call.params.get("CopySource")
        named = str(source).lstrip("/").split("?")[0] if isinstance(source, str) else None
        yield Need("s3:GetObject", (f"arn:aws:s3:::{named}" if named else None,), keys)
    if call.operation == "CreateBucket" and (call.params.get("CreateBucketConfiguration") or {}).get("Tags"):
        yield Need("s3:TagResource", (arn,), keys)


def _read_condition_keys(call: Call) -> dict[str, Values]:
    """Return the condition keys of S3: https://docs.aws.amazon.com/AmazonS3/latest/userguide/amazon-s3-policy-keys.html"""
    keys: dict[str, Values] = {}
    if call.request.scheme == "https" or call.request.from_wsgi_server:
        keys["s3:TlsVersion"] = "1.3"
    keys |= {key: str(call.params[parameter]) for key, parameter in _PARAMETERS.items() if parameter in call.params}
    headers = {f"s3:{header.lower()}": value for header, value in call.request.headers.items()}
    return {**{key: value for key, value in headers.items() if key.startswith("s3:x-amz-")}, **keys}
