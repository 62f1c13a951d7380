"""S3 lifecycle rules: expiration and transition of a bucket's objects."""

from collections.abc import Mapping
from typing import Any

from localcloud.engine.aws.resource import Args, Aws, Prop, State, register
from localcloud.engine.aws.resources.requests import to_request, to_state
from localcloud.engine.aws.resources.s3_settings import BucketSetting
from localcloud.engine.aws.resources.tags import from_pairs, to_pairs

MINIMUM_SIZE = "TransitionDefaultMinimumObjectSize"
RULE = {"id": "ID", "status": "Status", "prefix": "Prefix"}
NONCURRENT = {"noncurrentDays": "NoncurrentDays"}
PARTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "expiration": ("Expiration", {"days": "Days", "expiredObjectDeleteMarker": "ExpiredObjectDeleteMarker"}),
    "abortIncompleteMultipartUpload": ("AbortIncompleteMultipartUpload", {"daysAfterInitiation": "DaysAfterInitiation"}),
    "noncurrentVersionExpiration": ("NoncurrentVersionExpiration", NONCURRENT),
}
"""Maps the Pulumi name of an object-valued property of a lifecycle rule to its S3 name and member names."""
MOVES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "noncurrentVersionTransitions": ("NoncurrentVersionTransitions", {**NONCURRENT, "storageClass": "StorageClass"}),
    "transitions": ("Transitions", {"days": "Days", "storageClass": "StorageClass"}),
}
"""The list-valued properties of a lifecycle rule, in the same format."""


def _build_props(names: Mapping[str, str]) -> dict[str, Prop]:
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
                **_build_props(RULE),
                "filter": Prop(fields=FILTER),
                **{ours: Prop(fields=_build_props(fields)) for ours, (_, fields) in PARTS.items()},
                **{ours: Prop(unordered=True, default=[], fields=_build_props(fields)) for ours, (_, fields) in MOVES.items()},
            }
        ),
    }

    def put(self, aws: Aws, id: str, args: Args) -> None:
        aws.client("s3").put_bucket_lifecycle_configuration(
            Bucket=id,
            LifecycleConfiguration={"Rules": [build_rule_request(rule) for rule in args.get("rules") or []]},
        )

    def get(self, aws: Aws, id: str, recorded: State) -> State:
        configuration = aws.client("s3").get_bucket_lifecycle_configuration(Bucket=id)
        return {
            **to_state(configuration, {"transitionDefaultMinimumObjectSize": MINIMUM_SIZE}),
            "rules": [build_rule_state(rule) for rule in configuration["Rules"]],
        }

    def remove(self, aws: Aws, id: str) -> None:
        aws.client("s3").delete_bucket_lifecycle(Bucket=id)


def build_rule_request(rule: Args) -> dict[str, Any]:
    request = to_request(rule, RULE)
    if "prefix" not in rule:
        request["Filter"] = build_filter_request(rule.get("filter") or {})
    for ours, (theirs, fields) in PARTS.items():
        if rule.get(ours):
            request[theirs] = to_request(rule[ours], fields)
    for ours, (theirs, fields) in MOVES.items():
        if rule.get(ours):
            request[theirs] = [to_request(move, fields) for move in rule[ours]]
    return request


def build_filter_request(rule_filter: Args) -> dict[str, Any]:
    """Return a filter with exactly one member, as S3 requires. The default is an empty prefix, which matches every
    object."""
    if rule_filter.get("and"):
        both = rule_filter["and"]
        tags = {"Tags": to_pairs(both["tags"])} if both.get("tags") else {}
        return {"And": {**to_request(both, {"prefix": "Prefix"}), **tags}}
    if rule_filter.get("tag"):
        return {"Tag": to_request(rule_filter["tag"], {"key": "Key", "value": "Value"})}
    return {"Prefix": rule_filter.get("prefix") or ""}


def build_rule_state(rule: Mapping[str, Any]) -> State:
    state = to_state(rule, RULE)
    if rule.get("Filter") is not None:
        state["filter"] = build_filter_state(rule["Filter"])
    for ours, (theirs, fields) in PARTS.items():
        if rule.get(theirs):
            state[ours] = to_state(rule[theirs], fields)
    for ours, (theirs, fields) in MOVES.items():
        if rule.get(theirs):
            state[ours] = [to_state(move, fields) for move in rule[theirs]]
    return state


def build_filter_state(rule_filter: Mapping[str, Any]) -> State:
    if rule_filter.get("And"):
        both = rule_filter["And"]
        tags = from_pairs(both.get("Tags"))
        return {"and": {**to_state(both, {"prefix": "Prefix"}), **({"tags": tags} if tags else {})}}
    if rule_filter.get("Tag"):
        return {"tag": to_state(rule_filter["Tag"], {"key": "Key", "value": "Value"})}
    return {"prefix": rule_filter.get("Prefix", "")}
