"""S3 features that moto lacks: defaults of new buckets, bucket policies with conditions, and AWS's errors."""

from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

_CONFUSED = (
    "AnalyticsConfiguration",
    "IntelligentTieringConfiguration",
    "MetadataConfiguration",
    "MetadataTableConfiguration",
    "MetricsConfiguration",
)


def extend_moto() -> None:
    """Register this service's operations."""
    from localcloud.aws.s3 import access, buckets, configurations, lifecycle, policies, tags  # noqa: F401

    buckets.extend_moto()
    access.extend_moto()
    for name in _CONFUSED:
        for operation_name in (f"PutBucket{name}", f"CreateBucket{name}", f"DeleteBucket{name}"):
            operation("s3", operation_name)(_reject_unsupported_call)


def _reject_unsupported_call(call: Call) -> None:
    """Reject an operation that moto would mistake for creating or deleting the bucket."""
    raise AwsError("NotImplementedInLocalCloud", f"The local cloud does not support s3.{call.operation}.", status=400)
