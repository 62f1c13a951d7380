"""Tags of Auto Scaling groups. New instances inherit tags with PropagateAtLaunch.

https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-tagging.html
"""

from collections.abc import Iterable, Mapping
from typing import Any

from localcloud.aws.autoscaling import group_events
from localcloud.aws.autoscaling.errors import build_validation_error, find_group
from localcloud.aws.call import Call
from localcloud.aws.ec2.filters import select_page
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

MAXIMUM_TAGS = 50
_FILTERS = ("auto-scaling-group", "key", "value", "propagate-at-launch")


def check_tags(tags: Iterable[Mapping[str, Any]]) -> None:
    keys = [str(tag.get("Key") or "") for tag in tags]
    for key in keys:
        if not 1 <= len(key) <= 128:
            raise build_validation_error(f"A tag key must have between 1 and 128 characters, not {len(key)}")
        if key.lower().startswith("aws:"):
            raise build_validation_error(f"Tag keys starting with 'aws:' are reserved for internal use: {key}")
        if keys.count(key) > 1:
            raise build_validation_error(f"Duplicate keys are not allowed when specifying tags: {key}")
    if len(keys) > MAXIMUM_TAGS:
        raise AwsError("LimitExceeded", f"An Auto Scaling group can have at most {MAXIMUM_TAGS} tags")


def _find_tagged_group(call: Call, tag: Mapping[str, Any]) -> Any:
    if tag.get("ResourceType", "auto-scaling-group") != "auto-scaling-group":
        raise build_validation_error(f"Resource type '{tag['ResourceType']}' is not supported; use auto-scaling-group")
    return find_group(call.backend, tag.get("ResourceId"))


@operation("autoscaling", "CreateOrUpdateTags")
def create_or_update_tags(call: Call) -> None:
    tags = call.params.get("Tags", [])
    changed: dict[str, Any] = {}
    for tag in tags:
        group = _find_tagged_group(call, tag)
        changed[group.name] = group
        other_tags = [present for present in group.tags if present["Key"] != tag.get("Key")]
        check_tags([*other_tags, tag])
    for tag in tags:
        group = changed[tag["ResourceId"]]
        text = {**tag, "Value": tag.get("Value") or ""}
        other_tags = [present for present in group.tags if present["Key"] != tag["Key"]]
        group.tags = [*other_tags, text]
    for group in changed.values():
        group_events.publish_group_event("changed", group)


@operation("autoscaling", "DeleteTags")
def delete_tags(call: Call) -> None:
    for tag in call.params.get("Tags", []):
        group = _find_tagged_group(call, tag)
        group.tags = [present for present in group.tags if present["Key"] != tag.get("Key")]
        group_events.publish_group_event("changed", group)


@operation("autoscaling", "DescribeTags")
def describe_tags(call: Call) -> dict[str, Any]:
    tags = [tag for group in call.backend.autoscaling_groups.values() for tag in group.tags]
    for item_filter in call.params.get("Filters", ()):
        name, accepted_values = item_filter["Name"], item_filter.get("Values", [])
        if name not in _FILTERS:
            raise build_validation_error(f"Filter type {name} is not correct. Allowed Filter types are: {', '.join(_FILTERS)}")
        tags = [tag for tag in tags if _read_filter_value(tag, name) in accepted_values]
    tags, token = select_page(tags, {"MaxResults": call.params.get("MaxRecords", 100), "NextToken": call.params.get("NextToken")})
    return {"Tags": tags, **token}


def _read_filter_value(tag: Mapping[str, Any], name: str) -> str:
    if name == "propagate-at-launch":
        return str(bool(tag.get("PropagateAtLaunch"))).lower()
    return str(tag[{"auto-scaling-group": "ResourceId", "key": "Key", "value": "Value"}[name]])
