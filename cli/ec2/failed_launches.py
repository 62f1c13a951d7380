"""Failed launches of an Auto Scaling group. AWS reports them only in DescribeScalingActivities."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

FAILED: Final = ("Failed", "Cancelled")
LAUNCHING: Final = "Launching a new EC2 instance"
"""Prefix of the descriptions of launch activities:
https://docs.aws.amazon.com/autoscaling/ec2/userguide/CHAP_Troubleshooting.html"""
MOST_ACTIVITIES: Final = 100
"""Number of activities to read, newest first. A group that cannot reach its desired size adds one every few minutes."""


@dataclass(frozen=True)
class FailedLaunch:
    """The newest failed launch of a group."""

    at: datetime
    reason: str
    """Reason reported by EC2 or Auto Scaling."""
    later_launch_succeeded: bool


def find_last_failed_launch(activities: Iterable[Mapping[str, Any]]) -> FailedLaunch | None:
    """Return the newest failed launch from a group's activities, which AWS returns newest first."""
    succeeded = False
    for activity in activities:
        if activity["StatusCode"] == "Successful" and activity["Description"].startswith(LAUNCHING):
            succeeded = True
        elif activity["StatusCode"] in FAILED and activity["Description"].startswith(LAUNCHING):
            reason = " ".join((activity.get("StatusMessage") or activity["Description"]).split())
            return FailedLaunch(activity["StartTime"].astimezone(UTC), reason, succeeded)
    return None
