"""Validation of bucket configurations that moto stores without checking them."""

from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

_MALFORMED = "The XML you provided was not well-formed or did not validate against our published schema"


def build_malformed_xml_error() -> AwsError:
    return AwsError("MalformedXML", _MALFORMED, 400)


@operation("s3", "PutBucketOwnershipControls")
def _put_bucket_ownership_controls(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketOwnershipControls.html"""
    rules = call.params["OwnershipControls"]["Rules"]
    if len(rules) != 1 or rules[0]["ObjectOwnership"] not in ("BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"):
        raise build_malformed_xml_error()
    return call.moto()


@operation("s3", "PutBucketEncryption")
def _put_bucket_encryption(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketEncryption.html"""
    for rule in call.params["ServerSideEncryptionConfiguration"]["Rules"]:
        default = rule.get("ApplyServerSideEncryptionByDefault", {"SSEAlgorithm": "AES256"})
        if default.get("SSEAlgorithm") not in ("AES256", "aws:kms", "aws:kms:dsse"):
            raise build_malformed_xml_error()
        if default["SSEAlgorithm"] == "AES256" and default.get("KMSMasterKeyID"):
            raise AwsError(
                "InvalidArgument", "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms", 400
            )
    return call.moto()


@operation("s3", "PutBucketVersioning")
def _put_bucket_versioning(call: Call) -> dict[str, Any]:
    if call.params["VersioningConfiguration"].get("Status") not in ("Enabled", "Suspended"):
        raise AwsError("IllegalVersioningConfigurationException", "The Versioning element must be specified", 400)
    return call.moto()
