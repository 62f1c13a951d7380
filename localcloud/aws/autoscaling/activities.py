"""Successful and failed scaling activities of Auto Scaling groups.

https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-verify-scaling-activity.html
"""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from moto.moto_api._internal import mock_random

from localcloud.aws import clock
from localcloud.aws.autoscaling.errors import find_group
from localcloud.aws.call import Call
from localcloud.aws.ec2.filters import select_page
from localcloud.aws.patching import get_state, operation

MAXIMUM_KEPT = 1000  # AWS limits the age instead: it keeps activities for six weeks


@dataclass
class Activity:
    """Scaling activity: launch or termination of one instance, successful or not."""

    group: str
    group_arn: str
    description: str
    cause: str
    status: str = "InProgress"
    message: str | None = None
    error_code: str | None = None
    """EC2's error code, if the launch failed."""
    zone: str | None = None
    subnet_id: str | None = None
    started: datetime = field(default_factory=lambda: clock.now())
    ended: datetime | None = None
    id: str = field(default_factory=lambda: str(mock_random.uuid4()))

    def end(self, status: str = "Successful") -> None:
        self.status, self.ended = status, clock.now()

    def describe(self) -> dict[str, Any]:
        """Return the activity in the format of DescribeScalingActivities."""
        details = {"Subnet ID": self.subnet_id, "Availability Zone": self.zone}
        return {
            "ActivityId": self.id,
            "AutoScalingGroupName": self.group,
            "AutoScalingGroupARN": self.group_arn,
            "Description": self.description,
            "Cause": self.cause,
            "StartTime": self.started,
            "EndTime": self.ended,
            "StatusCode": self.status,
            "StatusMessage": self.message,
            "Progress": 100 if self.ended else 50,
            "Details": json.dumps({key: value for key, value in details.items() if value}),
        }


class Activities:
    """Scaling activities of one account and region, oldest first."""

    def __init__(self) -> None:
        self.log: list[Activity] = []


def record_activity(backend: Any, activity: Activity) -> Activity:
    log = get_state(backend, Activities).log
    log.append(activity)
    del log[:-MAXIMUM_KEPT]
    return activity


def find_activities(backend: Any, name: str) -> list[Activity]:
    """Return a group's activities, newest first."""
    return [activity for activity in reversed(get_state(backend, Activities).log) if activity.group == name]


def delete_activities(backend: Any, name: str) -> None:
    """Drop the activities of a deleted group. AWS shows them for six more weeks if IncludeDeletedGroups is set."""
    log = get_state(backend, Activities).log
    log[:] = [activity for activity in log if activity.group != name]


def format_current_time() -> str:
    return clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


@operation("autoscaling", "DescribeScalingActivities")
def describe_scaling_activities(call: Call) -> dict[str, Any]:
    params, backend = call.params, call.backend
    name, ids = params.get("AutoScalingGroupName"), params.get("ActivityIds")
    if name and not params.get("IncludeDeletedGroups"):
        find_group(backend, name)
    activities = list(reversed(get_state(backend, Activities).log)) if name is None else find_activities(backend, name)
    if ids:
        activities = [activity for activity in activities if activity.id in ids]
    for item_filter in params.get("Filters", ()):
        if item_filter["Name"] == "Status":
            activities = [activity for activity in activities if activity.status in item_filter["Values"]]
    activities, token = select_page(
        activities, {"MaxResults": params.get("MaxRecords", 100), "NextToken": params.get("NextToken")}
    )
    return {"Activities": [activity.describe() for activity in activities], **token}
