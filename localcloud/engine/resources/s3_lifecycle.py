"""When S3 deletes or moves what is in a bucket."""

from collections.abc import Mapping
from typing import Any

from localcloud.engine.resource import Args, Aws, Prop, State, register
from localcloud.engine.resources.requests import to_request, to_state
from localcloud.engine.resources.s3_settings import BucketSetting
from localcloud.engine.resources.tags import from_pairs, pairs

MINIMUM_SIZE = "TransitionDefaultMinimumObjectSize"
RULE = {"id": "ID", "status": "Status", "prefix": "Prefix"}
EXPIRATION = {"days": "Days", "expiredObjectDeleteMarker": "ExpiredObjectDeleteMarker"}
TRANSITION = {"days": "Days", "storageClass": "StorageClass"}
ABORT = {"daysAfterInitiation": "DaysAfterInitiation"}
NONCURRENT = {"noncurrentDays": "NoncurrentDays"}
NONCURRENT_TRANSITION = {**NONCURRENT, "storageClass": "StorageClass"}


def _props(names: Mapping[str, str]) -> dict[str, Prop]:
    return dict.fromkeys(names, Prop())


FILTER = {
    "prefix": Prop(),
    "tag": Prop(fields={"key": Prop(), "value": Prop()}),
    "and": Prop(fields={"prefix": Prop(), "tags": Prop(default={})}),
}


@register
class BucketLifecycleConfiguration(BucketSetting):
    token = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    title = "S3 Bucket Lifecycle Configuration"
    absent = "NoSuchLifecycleConfiguration"
    props = {
        "bucket": Prop(replace=True),
        "rules": Prop(
            fields={
                **_props(RULE),
                "filter": Prop(fields=FILTER),
                "expiration": Prop(fields=_props(EXPIRATION)),
                "abortIncompleteMultipartUpload": Prop(fields=_props(ABORT)),
                "noncurrentVersionExpiration": Prop(fields=_props(NONCURRENT)),
                "noncurrentVersionTransitions": Prop(unordered=True, default=[], fields=_props(NONCURRENT_TRANSITION)),
                "transitions": Prop(unordered=True, default=[], fields=_props(TRANSITION)),
            }
        ),
    }

    def put(self, aws: Aws, id: str, args: Args) -> None:
        aws.client("s3").put_bucket_lifecycle_configuration(
            Bucket=id,
            LifecycleConfiguration={"Rules": [rule_request(rule) for rule in args.get("rules") or []]},
        )

    def get(self, aws: Aws, id: str, known: State) -> State:
        found = aws.client("s3").get_bucket_lifecycle_configuration(Bucket=id)
        return {
            **to_state(found, {"transitionDefaultMinimumObjectSize": MINIMUM_SIZE}),
            "rules": [rule_state(rule) for rule in found["Rules"]],
        }

    def remove(self, aws: Aws, id: str) -> None:
        aws.client("s3").delete_bucket_lifecycle(Bucket=id)


def rule_request(rule: Args) -> dict[str, Any]:
    asked = to_request(rule, RULE)
    if "prefix" not in rule:
        asked["Filter"] = filter_request(rule.get("filter") or {})
    if rule.get("expiration"):
        asked["Expiration"] = to_request(rule["expiration"], EXPIRATION)
    if rule.get("abortIncompleteMultipartUpload"):
        asked["AbortIncompleteMultipartUpload"] = to_request(rule["abortIncompleteMultipartUpload"], ABORT)
    if rule.get("noncurrentVersionExpiration"):
        asked["NoncurrentVersionExpiration"] = to_request(rule["noncurrentVersionExpiration"], NONCURRENT)
    if rule.get("noncurrentVersionTransitions"):
        moves = rule["noncurrentVersionTransitions"]
        asked["NoncurrentVersionTransitions"] = [to_request(move, NONCURRENT_TRANSITION) for move in moves]
    if rule.get("transitions"):
        asked["Transitions"] = [to_request(move, TRANSITION) for move in rule["transitions"]]
    return asked


def filter_request(given: Args) -> dict[str, Any]:
    """S3 wants exactly one member; an empty prefix means every object."""
    if given.get("and"):
        both = given["and"]
        tags = {"Tags": pairs(both["tags"])} if both.get("tags") else {}
        return {"And": {**to_request(both, {"prefix": "Prefix"}), **tags}}
    if given.get("tag"):
        return {"Tag": to_request(given["tag"], {"key": "Key", "value": "Value"})}
    return {"Prefix": given.get("prefix") or ""}


def rule_state(rule: Mapping[str, Any]) -> State:
    state = to_state(rule, RULE)
    if rule.get("Filter") is not None:
        state["filter"] = filter_state(rule["Filter"])
    if rule.get("Expiration"):
        state["expiration"] = to_state(rule["Expiration"], EXPIRATION)
    if rule.get("AbortIncompleteMultipartUpload"):
        state["abortIncompleteMultipartUpload"] = to_state(rule["AbortIncompleteMultipartUpload"], ABORT)
    if rule.get("NoncurrentVersionExpiration"):
        state["noncurrentVersionExpiration"] = to_state(rule["NoncurrentVersionExpiration"], NONCURRENT)
    if rule.get("NoncurrentVersionTransitions"):
        moves = rule["NoncurrentVersionTransitions"]
        state["noncurrentVersionTransitions"] = [to_state(move, NONCURRENT_TRANSITION) for move in moves]
    if rule.get("Transitions"):
        state["transitions"] = [to_state(move, TRANSITION) for move in rule["Transitions"]]
    return state


def filter_state(found: Mapping[str, Any]) -> State:
    if found.get("And"):
        both = found["And"]
        tags = from_pairs(both.get("Tags"))
        return {"and": {**to_state(both, {"prefix": "Prefix"}), **({"tags": tags} if tags else {})}}
    if found.get("Tag"):
        return {"tag": to_state(found["Tag"], {"key": "Key", "value": "Value"})}
    return {"prefix": found.get("Prefix", "")}
