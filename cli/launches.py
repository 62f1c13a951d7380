"""Launches that failed in an Auto Scaling group. AWS shows them only in DescribeScalingActivities."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

FAILED: Final = ("Failed", "Cancelled")
LAUNCHING: Final = "Launching a new EC2 instance"
"""How the description of a launch begins: https://docs.aws.amazon.com/autoscaling/ec2/userguide/CHAP_Troubleshooting.html"""
MOST_ACTIVITIES: Final = 100
"""Activities to read, the newest. A group that cannot reach its desired size retries every few minutes."""


@dataclass(frozen=True)
class FailedLaunch:
    """The newest failed launch of a group."""

    at: datetime
    reason: str
    """As EC2 or Auto Scaling reports it."""
    is_over: bool
    """A later launch succeeded."""

    def as_json(self) -> dict[str, object]:
        return {"at": self.at.isoformat(), "reason": self.reason, "laterLaunchSucceeded": self.is_over}


def last_failed(activities: Iterable[Mapping[str, Any]]) -> FailedLaunch | None:
    """Find it in a group's activities, which AWS returns newest first."""
    succeeded = False
    for one in activities:
        if one["StatusCode"] == "Successful" and one["Description"].startswith(LAUNCHING):
            succeeded = True
        elif one["StatusCode"] in FAILED and one["Description"].startswith(LAUNCHING):
            reason = " ".join((one.get("StatusMessage") or one["Description"]).split())
            return FailedLaunch(one["StartTime"].astimezone(UTC), reason, succeeded)
    return None
