"""S3 buckets: name validation, and AWS's defaults for new buckets.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html,
https://docs.aws.amazon.com/AmazonS3/latest/userguide/create-bucket-faq.html (since 2023: no ACLs, no public access),
https://docs.aws.amazon.com/AmazonS3/latest/userguide/default-encryption-faq.html
"""

import functools
import ipaddress
import re
from typing import Any

from moto.s3.models import FakeBucket, PublicAccessBlock

from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation
from localcloud.aws.s3 import tags

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_RESERVED_STARTS = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_ENDS = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
_OWNERSHIPS = ("BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter")


def extend_moto() -> None:
    original = FakeBucket.__init__

    @functools.wraps(original)
    def init_bucket(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.public_access_block = PublicAccessBlock(True, True, True, True)
        self.ownership_rule = "BucketOwnerEnforced"
        self.encryption = build_default_encryption()

    FakeBucket.__init__ = init_bucket  # type: ignore[method-assign]


def build_default_encryption() -> dict[str, Any]:
    """Return the default encryption configuration as parsed XML, the format that moto stores."""
    return {"Rule": {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}, "BucketKeyEnabled": "false"}}


def find_bucket(call: Call) -> Any | None:
    """Return the bucket specified in the call, or None if it does not exist (moto then returns AWS's error)."""
    return call.backend.buckets.get(call.params.get("Bucket"))


@operation("s3", "CreateBucket")
def _create_bucket(call: Call) -> dict[str, Any]:
    name = call.params["Bucket"]
    if not is_valid_name(name):
        raise AwsError("InvalidBucketName", "The specified bucket is not valid.", 400, BucketName=name)
    ownership = call.params.get("ObjectOwnership", "BucketOwnerEnforced")
    if ownership not in _OWNERSHIPS:
        raise AwsError("InvalidArgument", f"Invalid x-amz-object-ownership header: {ownership}", 400)
    if ownership == "BucketOwnerEnforced" and call.params.get("ACL", "private") != "private":
        raise AwsError(
            "InvalidBucketAclWithObjectOwnership",
            "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting",
            400,
        )
    created = call.moto()
    tags.tag_new_bucket(call)
    return created


def is_valid_name(name: str) -> bool:
    if not _NAME.fullmatch(name) or ".." in name or name.startswith(_RESERVED_STARTS) or name.endswith(_RESERVED_ENDS):
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return True
    return False


@operation("s3", "DeleteBucketEncryption")
def _delete_bucket_encryption(call: Call) -> dict[str, Any]:
    """Reset the encryption to the default, because S3 encrypts every bucket."""
    answer = call.moto()
    call.backend.get_bucket(call.params["Bucket"]).encryption = build_default_encryption()
    return answer


@operation("s3", "PutBucketAcl")
def _put_bucket_acl(call: Call) -> dict[str, Any]:
    _check_acls_are_on(call)
    return call.moto()


@operation("s3", "PutObjectAcl")
def _put_object_acl(call: Call) -> dict[str, Any]:
    _check_acls_are_on(call)
    return call.moto()


def _check_acls_are_on(call: Call) -> None:
    """https://docs.aws.amazon.com/AmazonS3/latest/userguide/about-object-ownership.html"""
    s3_bucket = find_bucket(call)
    if s3_bucket is not None and s3_bucket.ownership_rule == "BucketOwnerEnforced":
        raise AwsError("AccessControlListNotSupported", "The bucket does not allow ACLs", 400)
