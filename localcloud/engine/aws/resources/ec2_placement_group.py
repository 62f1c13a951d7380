"""Placement groups."""

from functools import partial
from typing import Any

from localcloud.engine.aws.resource import Args, AutoName, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.ec2_tags import TAGS, build_tag_specification, parse_tags, update_tags
from localcloud.engine.aws.resources.requests import (
    MINUTE,
    find_first,
    ignore_gone,
    report_partial_creation,
    to_request,
    to_state,
    wait_until_gone,
)

TIMEOUT = 5 * MINUTE


@register
class PlacementGroup(Resource):
    token = "aws:ec2/placementGroup:PlacementGroup"
    title = "EC2 Placement Group"
    auto_name = AutoName()
    CREATE_NAMES = {
        "name": "GroupName",
        "strategy": "Strategy",
        "partitionCount": "PartitionCount",
        "spreadLevel": "SpreadLevel",
    }
    props = {**dict.fromkeys(CREATE_NAMES, Prop(replace=True)), **TAGS}

    def create(self, aws: Aws, args: Args) -> str:
        request = to_request(args, self.CREATE_NAMES)
        aws.client("ec2").create_placement_group(**request, TagSpecifications=build_tag_specification("placement-group", args))
        id = str(args["name"])
        with report_partial_creation(id):
            aws.wait(f"{self.title} ({id}) create", lambda: self._describe_if_available(aws, id), timeout=TIMEOUT)
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        group = self._describe(aws, id)
        return group and {
            **to_state(group, {**self.CREATE_NAMES, "arn": "GroupArn", "placementGroupId": "GroupId"}),
            **parse_tags(group.get("Tags")),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        update_tags(aws, old["placementGroupId"], old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone("InvalidPlacementGroup.Unknown"):
            aws.client("ec2").delete_placement_group(GroupName=id)
        wait_until_gone(aws, f"{self.title} ({id})", partial(self._describe, aws, id), timeout=TIMEOUT)

    @staticmethod
    def _describe(aws: Aws, id: str) -> dict[str, Any] | None:
        group = find_first(
            lambda: aws.client("ec2").describe_placement_groups(GroupNames=[id])["PlacementGroups"],
            "InvalidPlacementGroup.Unknown",
        )
        return None if group is None or group["State"] == "deleted" else group

    def _describe_if_available(self, aws: Aws, id: str) -> dict[str, Any] | None:
        group = self._describe(aws, id)
        return group if group and group["State"] == "available" else None
