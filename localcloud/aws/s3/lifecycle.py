"""Lifecycle configurations of buckets, stored as clients sent them: moto drops several members.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketLifecycleConfiguration.html
"""

from typing import Any

from moto.moto_api._internal import mock_random
from moto.s3.exceptions import NoSuchLifecycleConfiguration

from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation
from localcloud.aws.s3.configurations import build_malformed_xml_error

MINIMUM_SIZE = "TransitionDefaultMinimumObjectSize"
_SIZES = ("all_storage_classes_128K", "varies_by_storage_class")
_ACTIONS = (
    "Expiration",
    "Transitions",
    "NoncurrentVersionExpiration",
    "NoncurrentVersionTransitions",
    "AbortIncompleteMultipartUpload",
)


@operation("s3", "PutBucketLifecycleConfiguration")
def _put_bucket_lifecycle_configuration(call: Call) -> dict[str, Any]:
    bucket, rules = _find_bucket(call), call.params.get("LifecycleConfiguration", {}).get("Rules", [])
    size = call.params.get(MINIMUM_SIZE, _SIZES[0])
    if not rules or size not in _SIZES:
        raise build_malformed_xml_error()
    for rule in rules:
        _check_rule(rule)
    names = [rule["ID"] for rule in rules if rule.get("ID")]
    if len(names) != len(set(names)):
        raise AwsError("InvalidArgument", "Rule ID must be unique. Found same ID for more than one rule", 400)
    bucket.lifecycle_configuration = {
        "Rules": [{**rule, "ID": rule.get("ID") or str(mock_random.uuid4())} for rule in rules],
        MINIMUM_SIZE: size,
    }
    return {MINIMUM_SIZE: size}


@operation("s3", "GetBucketLifecycleConfiguration")
def _get_bucket_lifecycle_configuration(call: Call) -> dict[str, Any]:
    configuration: dict[str, Any] | None = getattr(_find_bucket(call), "lifecycle_configuration", None)
    if configuration is None:
        raise NoSuchLifecycleConfiguration(bucket_name=call.params["Bucket"])
    return configuration


@operation("s3", "DeleteBucketLifecycle")
def _delete_bucket_lifecycle(call: Call) -> None:
    _find_bucket(call).lifecycle_configuration = None


def _find_bucket(call: Call) -> Any:
    return call.backend.get_bucket(call.params["Bucket"])


def _check_rule(rule: dict[str, Any]) -> None:
    if rule.get("Status") not in ("Enabled", "Disabled") or ("Filter" in rule) == ("Prefix" in rule):
        raise build_malformed_xml_error()
    if len(rule.get("Filter", {})) > 1 or len(rule.get("Filter", {}).get("And", {"Prefix": ""})) < 1:
        raise build_malformed_xml_error()
    if len(rule.get("ID", "")) > 255:
        raise AwsError("InvalidArgument", "ID length should not exceed allowed limit of 255", 400)
    if not any(rule.get(action) for action in _ACTIONS):
        raise AwsError("InvalidRequest", "At least one action needs to be specified in a rule", 400)
    _check_actions(rule)


def _check_actions(rule: dict[str, Any]) -> None:
    expiration = rule.get("Expiration", {})
    if "ExpiredObjectDeleteMarker" in expiration and len(expiration) > 1:
        raise build_malformed_xml_error()
    noncurrent = [*rule.get("NoncurrentVersionTransitions", ())]
    if "NoncurrentVersionExpiration" in rule:
        noncurrent.append(rule["NoncurrentVersionExpiration"])
    for action in noncurrent:
        if "NoncurrentDays" not in action:
            raise build_malformed_xml_error()
        if action.get("NewerNoncurrentVersions", 1) not in range(1, 101):
            raise AwsError("InvalidArgument", "'NewerNoncurrentVersions' must be an integer between 1 and 100", 400)
    if expiration.get("Days", 1) <= 0:
        raise AwsError("InvalidArgument", "'Days' for Expiration action must be a positive integer", 400)
    if "AbortIncompleteMultipartUpload" not in rule:
        return
    days = rule["AbortIncompleteMultipartUpload"].get("DaysAfterInitiation")
    if days is None:
        raise build_malformed_xml_error()
    if days <= 0:
        raise AwsError(
            "InvalidArgument", "'DaysAfterInitiation' for AbortIncompleteMultipartUpload must be a positive integer", 400
        )
