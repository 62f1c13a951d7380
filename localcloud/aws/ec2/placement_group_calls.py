"""Placement group operations.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreatePlacementGroup.html
"""

from typing import Any

from moto.ec2.utils import random_id

from localcloud.aws.call import Call
from localcloud.aws.ec2 import tagging
from localcloud.aws.ec2.filters import filter_items
from localcloud.aws.ec2.placement_groups import PlacementGroup, PlacementGroups, find_group, list_groups
from localcloud.aws.ec2.refusals import build_invalid_value_error, build_missing_parameter_error, stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import get_state, operation

STRATEGIES = ("cluster", "partition", "spread")
MAXIMUM_PARTITIONS = 7


@operation("ec2", "CreatePlacementGroup")
def create_placement_group(call: Call) -> dict[str, Any]:
    params, groups = call.params, get_state(call.backend, PlacementGroups).by_name
    name = params.get("GroupName")
    if not name:
        raise build_missing_parameter_error("groupName")
    strategy = params.get("Strategy", "cluster")
    _check_params(name, strategy, params)
    if name in groups:
        raise AwsError("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists.")
    tags = tagging.read_requested_tags(params.get("TagSpecifications"), "placement-group").get("placement-group", {})
    stop_dry_run(call)
    group = groups[name] = PlacementGroup(
        id=random_id("pg"),
        name=name,
        arn=f"arn:{call.backend.partition}:ec2:{call.region}:{call.account}:placement-group/{name}",
        strategy=strategy,
        partitions=params.get("PartitionCount", 2) if strategy == "partition" else None,
        spread_level=params.get("SpreadLevel", "rack") if strategy == "spread" else None,
    )
    call.backend.create_tags([group.id], tags)
    return {"PlacementGroup": _describe_group(call.backend, group)}


def _check_params(name: str, strategy: str, params: dict[str, Any]) -> None:
    if len(name) > 255 or not name.isascii():
        raise build_invalid_value_error(name, "groupName", "Up to 255 ASCII characters are allowed.")
    if strategy not in STRATEGIES:
        raise build_invalid_value_error(strategy, "strategy", "Unknown placement strategy")
    if "PartitionCount" in params:
        if strategy != "partition":
            raise AwsError("InvalidParameterCombination", "The partition count can only be specified for the partition strategy.")
        if not 1 <= params["PartitionCount"] <= MAXIMUM_PARTITIONS:
            raise build_invalid_value_error(
                params["PartitionCount"], "partitionCount", f"It must be between 1 and {MAXIMUM_PARTITIONS}."
            )
    if "SpreadLevel" in params:
        if strategy != "spread":
            raise AwsError("InvalidParameterCombination", "The spread level can only be specified for the spread strategy.")
        if params["SpreadLevel"] not in ("rack", "host"):
            raise build_invalid_value_error(params["SpreadLevel"], "spreadLevel", "It must be rack or host.")


@operation("ec2", "DescribePlacementGroups")
def describe_placement_groups(call: Call) -> dict[str, Any]:
    backend, names, ids = call.backend, call.params.get("GroupNames", []), call.params.get("GroupIds", [])
    requested = [find_group(backend, name=name) for name in names] + [find_group(backend, group_id=group_id) for group_id in ids]
    groups = filter_items(
        requested if names or ids else list_groups(backend),
        call.params.get("Filters"),
        {
            "group-name": lambda group: group.name,
            "group-arn": lambda group: group.arn,
            "state": lambda group: group.state,
            "strategy": lambda group: group.strategy,
            "spread-level": lambda group: group.spread_level,
        },
        lambda group: tagging.read_tags(backend, group.id),
    )
    return {"PlacementGroups": [_describe_group(backend, group) for group in groups]}


@operation("ec2", "DeletePlacementGroup")
def delete_placement_group(call: Call) -> None:
    name = call.params.get("GroupName", "")
    group = find_group(call.backend, name=name, group_id=name)
    if group.members:
        raise AwsError("InvalidPlacementGroup.InUse", f"The placement group '{group.name}' is in use and may not be deleted.")
    stop_dry_run(call)
    del get_state(call.backend, PlacementGroups).by_name[group.name]
    tagging.delete_resource_tags(call.backend, group.id)


def _describe_group(backend: Any, group: PlacementGroup) -> dict[str, Any]:
    return {
        "GroupName": group.name,
        "GroupId": group.id,
        "GroupArn": group.arn,
        "State": group.state,
        "Strategy": group.strategy,
        "PartitionCount": group.partitions,
        "SpreadLevel": group.spread_level,
        "Tags": tagging.describe_tags(backend, group.id),
    }
