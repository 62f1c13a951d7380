"""Tags of Auto Scaling groups that the program did not create, such as the group of an EKS node group."""

from typing import Any

from localcloud.engine.aws.resource import Args, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.requests import ignore_gone


@register
class Tag(Resource):
    token = "aws:autoscaling/tag:Tag"
    title = "Auto Scaling Group Tag"
    props = {
        "autoscalingGroupName": Prop(replace=True),
        "tag": Prop(fields={"key": Prop(replace=True), "value": Prop(), "propagateAtLaunch": Prop()}),
    }

    def create(self, aws: Aws, args: Args) -> str:
        self._put_tag(aws, args)
        return f"{args['autoscalingGroupName']},{args['tag']['key']}"

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        group, key = id.split(",", 1)
        tags = aws.client("autoscaling").describe_tags(
            Filters=[{"Name": "auto-scaling-group", "Values": [group]}, {"Name": "key", "Values": [key]}]
        )["Tags"]
        if not tags:
            return None
        tag = {"key": key, "value": tags[0].get("Value", ""), "propagateAtLaunch": bool(tags[0]["PropagateAtLaunch"])}
        return {"autoscalingGroupName": group, "tag": tag}

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        self._put_tag(aws, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone("ValidationError"):  # the group no longer exists, so neither do its tags
            aws.client("autoscaling").delete_tags(Tags=[self._build_tag(state)])

    def _put_tag(self, aws: Aws, args: Args) -> None:
        aws.client("autoscaling").create_or_update_tags(Tags=[self._build_tag(args)])

    @staticmethod
    def _build_tag(args: Args) -> dict[str, Any]:
        tag = args["tag"]
        return {
            "ResourceType": "auto-scaling-group",
            "ResourceId": args["autoscalingGroupName"],
            "Key": tag["key"],
            "Value": tag["value"],
            "PropagateAtLaunch": bool(tag["propagateAtLaunch"]),
        }
