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
    is_over: bool
    """Whether a later launch succeeded."""

    def as_json(self) -> dict[str, object]:
        return {"at": self.at.isoformat(), "reason": self.reason, "laterLaunchSucceeded": self.is_over}


def last_failed(activities: Iterable[Mapping[str, Any]]) -> FailedLaunch | None:
    """Return the newest failed launch from a group's activities, which AWS returns newest first."""
    succeeded = False
    for one in activities:
        if one["StatusCode"] == "Successful" and one["Description"].startswith(LAUNCHING):
            succeeded = True
        elif one["StatusCode"] in FAILED and one["Description"].startswith(LAUNCHING):
            reason = " ".join((one.get("StatusMessage") or one["Description"]).split())
            return FailedLaunch(one["StartTime"].astimezone(UTC), reason, succeeded)
    return None
