"""Tags of buckets through S3 Control, which also serves buckets.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_control_TagResource.html
"""

from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

_BUCKET = "arn:aws:s3:::"
OPERATIONS = ("ListTagsForResource", "TagResource", "UntagResource")


def tag_new_bucket(call: Call) -> None:
    """Store the tags of a CreateBucket request, which moto drops."""
    tags = (call.params.get("CreateBucketConfiguration") or {}).get("Tags")
    if tags:
        call.backend.put_bucket_tagging(call.params["Bucket"], {tag["Key"]: tag.get("Value", "") for tag in tags})


def _check_bucket_and_call_moto(call: Call) -> dict[str, Any]:
    arn = str(call.params.get("ResourceArn", ""))
    name = arn.removeprefix(_BUCKET)
    if not arn.startswith(_BUCKET) or "/" in name:
        raise AwsError("NotImplementedInLocalCloud", f"The local cloud does not support tags of {arn}.", status=400)
    call.backend_of("s3").get_bucket(name)  # raises NoSuchBucket
    return call.moto()


for _name in OPERATIONS:
    operation("s3control", _name)(_check_bucket_and_call_moto)
