"""Access decisions for S3 buckets, based on the bucket policy and, for role sessions, the role's policies.

The default user is the account's administrator: only a Deny in the bucket policy applies to it. These decisions replace
moto's own.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/how-s3-evaluates-access-control.html
"""

import contextvars
from typing import Any

from moto.iam.access_control import PermissionResult
from moto.s3.models import FakeBucket

from localcloud.aws import identity, policy_documents
from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import guard
from localcloud.aws.s3.buckets import bucket

_ACTIONS = {
    # Operations whose IAM action has a different name:
    # https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
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
_decision: contextvars.ContextVar[str | None] = contextvars.ContextVar("s3-decision", default=None)


def install() -> None:
    """Replace moto's check of the bucket policy, which ignores conditions, with this module's decision."""

    def get_permission(self: Any, action: str, resource: str) -> Any:
        return PermissionResult.PERMITTED if _decision.get() == "Allow" else PermissionResult.NEUTRAL

    FakeBucket.get_permission = get_permission  # type: ignore[method-assign]


@guard("s3")
def _check_access(call: Call) -> None:
    _decision.set(None)
    found = bucket(call)
    if found is None:
        return
    document = policy_documents.parse(found.policy.decode()) if found.policy else {}
    policies = identity.policies_of(call)
    for resource in _resources(call):
        request = _request(call, resource)
        decisions = [
            policy_documents.decide(document, request),
            *(policy_documents.decide(policy, request) for policy in policies or []),
        ]
        if "Deny" in decisions or (policies is not None and "Allow" not in decisions):
            raise _denied(call, request, "Deny" in decisions)
        _decision.set(decisions[0])


def _resources(call: Call) -> list[str]:
    arn = f"arn:aws:s3:::{call.params['Bucket']}"
    if call.operation == "DeleteObjects":
        return [f"{arn}/{item['Key']}" for item in call.params["Delete"]["Objects"]]
    return [f"{arn}/{call.params['Key']}" if "Key" in call.params else arn]


def _request(call: Call, resource: str) -> policy_documents.Request:
    return policy_documents.Request(
        principal=("AWS", identity.principal_arn(call)) if call.access_key else ("*", "*"),
        action="s3:" + _ACTIONS.get(call.operation, call.operation),
        resource=resource,
        context=_context(call),
    )


def _context(call: Call) -> dict[str, str]:
    """Return the condition keys of the request.

    Plain HTTP on loopback replaces AWS's TLS endpoint, so it counts as secure.
    """
    secure = call.request.scheme == "https" or call.request.from_wsgi_server
    context = {"aws:securetransport": str(secure).lower(), "aws:sourceip": call.request.remote_addr or "127.0.0.1"}
    if secure:
        context["s3:tlsversion"] = "1.3"
    if call.access_key:
        context |= identity.context_of(call)
    for key, parameter in {
        "s3:prefix": "Prefix",
        "s3:delimiter": "Delimiter",
        "s3:x-amz-acl": "ACL",
        "s3:versionid": "VersionId",
    }.items():
        if parameter in call.params:
            context[key] = str(call.params[parameter])
    for header, value in call.request.headers.items():
        if header.lower().startswith("x-amz-"):
            context.setdefault(f"s3:{header.lower()}", value)
    return context


def _denied(call: Call, request: policy_documents.Request, explicitly: bool) -> AwsError:
    if call.request.method == "HEAD":
        return AwsError("403", "Forbidden", 403)
    why = (
        "with an explicit deny in a resource-based policy" if explicitly else "because no identity-based policy allows the action"
    )
    who = identity.caller_arn(call) if call.access_key else "anonymous"
    return AwsError(
        "AccessDenied", f'User: {who} is not authorized to perform: {request.action} on resource: "{request.resource}" {why}', 403
    )
