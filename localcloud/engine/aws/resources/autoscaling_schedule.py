"""Scheduled actions of Auto Scaling groups. `recurrence` is not supported, because the local AWS runs an action only
once.
"""

from datetime import UTC
from typing import Any

from localcloud.engine.aws.resource import Args, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.requests import find_first, ignore_gone

_SIZES = {"minSize": "MinSize", "maxSize": "MaxSize", "desiredCapacity": "DesiredCapacity"}
_UNCHANGED = -1


@register
class Schedule(Resource):
    token = "aws:autoscaling/schedule:Schedule"
    title = "Auto Scaling Scheduled Action"
    props = {
        "autoscalingGroupName": Prop(replace=True),
        "scheduledActionName": Prop(replace=True),
        "startTime": Prop(),
        "minSize": Prop(),
        "maxSize": Prop(),
        "desiredCapacity": Prop(),
    }

    def create(self, aws: Aws, args: Args) -> str:
        self._put_schedule(aws, args)
        return str(args["scheduledActionName"])

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        group = recorded["autoscalingGroupName"]
        ask = aws.client("autoscaling").describe_scheduled_actions
        action = find_first(lambda: ask(AutoScalingGroupName=group, ScheduledActionNames=[id])["ScheduledUpdateGroupActions"])
        if action is None:
            return None
        return {
            "autoscalingGroupName": group,
            "scheduledActionName": id,
            "startTime": f"{action['StartTime'].astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "arn": action["ScheduledActionARN"],
            **{name: action.get(member, _UNCHANGED) for name, member in _SIZES.items()},
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        self._put_schedule(aws, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone("ValidationError"):  # the action has run, or its group was deleted
            aws.client("autoscaling").delete_scheduled_action(
                AutoScalingGroupName=state["autoscalingGroupName"], ScheduledActionName=id
            )

    def _put_schedule(self, aws: Aws, args: Args) -> None:
        sizes: dict[str, Any] = {
            member: int(args.get(name, 0)) for name, member in _SIZES.items() if int(args.get(name, 0)) != _UNCHANGED
        }
        aws.client("autoscaling").put_scheduled_update_group_action(
            AutoScalingGroupName=args["autoscalingGroupName"],
            ScheduledActionName=args["scheduledActionName"],
            StartTime=args["startTime"],
            **sizes,
        )
