"""Validation of bucket configurations that moto stores without checking them."""

from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

_MALFORMED = "The XML you provided was not well-formed or did not validate against our published schema"


def _malformed() -> AwsError:
    return AwsError("MalformedXML", _MALFORMED, 400)


@operation("s3", "PutBucketOwnershipControls")
def _put_bucket_ownership_controls(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketOwnershipControls.html"""
    rules = call.params["OwnershipControls"]["Rules"]
    if len(rules) != 1 or rules[0]["ObjectOwnership"] not in ("BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"):
        raise _malformed()
    return call.moto()


@operation("s3", "PutBucketEncryption")
def _put_bucket_encryption(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketEncryption.html"""
    for rule in call.params["ServerSideEncryptionConfiguration"]["Rules"]:
        default = rule.get("ApplyServerSideEncryptionByDefault", {"SSEAlgorithm": "AES256"})
        if default.get("SSEAlgorithm") not in ("AES256", "aws:kms", "aws:kms:dsse"):
            raise _malformed()
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


@operation("s3", "PutBucketLifecycleConfiguration")
def _put_bucket_lifecycle_configuration(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketLifecycleConfiguration.html"""
    rules = call.params.get("LifecycleConfiguration", {}).get("Rules", [])
    if not rules:
        raise _malformed()
    for rule in rules:
        _check_lifecycle_rule(rule)
    names = [rule["ID"] for rule in rules if rule.get("ID")]
    if len(names) != len(set(names)):
        raise AwsError("InvalidArgument", "Rule ID must be unique. Found same ID for more than one rule", 400)
    return call.moto()


def _check_lifecycle_rule(rule: dict[str, Any]) -> None:
    if rule.get("Status") not in ("Enabled", "Disabled") or ("Filter" in rule) == ("Prefix" in rule):
        raise _malformed()
    if len(rule.get("ID", "")) > 255:
        raise AwsError("InvalidArgument", "ID length should not exceed allowed limit of 255", 400)
    actions = (
        "Expiration",
        "Transitions",
        "NoncurrentVersionExpiration",
        "NoncurrentVersionTransitions",
        "AbortIncompleteMultipartUpload",
    )
    if not any(rule.get(action) for action in actions):
        raise AwsError("InvalidRequest", "At least one action needs to be specified in a rule", 400)
    days = rule.get("Expiration", {}).get("Days")
    if days is not None and days <= 0:
        raise AwsError("InvalidArgument", "'Days' for Expiration action must be a positive integer", 400)
    started = rule.get("AbortIncompleteMultipartUpload", {}).get("DaysAfterInitiation")
    if started is not None and started <= 0:
        raise AwsError(
            "InvalidArgument", "'DaysAfterInitiation' for AbortIncompleteMultipartUpload must be a positive integer", 400
        )
