"""Launches that an auto scaling group could not make: AWS tells nobody of them but who asks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

FAILED: Final = ("Failed", "Cancelled")
LAUNCHING: Final = "Launching a new EC2 instance"
"""Beginning of the description of a launch: https://docs.aws.amazon.com/autoscaling/ec2/userguide/CHAP_Troubleshooting.html"""
MOST_ACTIVITIES: Final = 100
"""Of one answer, the newest; a group that wants more nodes than there are tries every few minutes."""


@dataclass(frozen=True)
class FailedLaunch:
    """The newest one of a group."""

    at: datetime
    reason: str
    """In the words of EC2 or Auto Scaling."""
    is_over: bool
    """A launch after it succeeded."""

    def as_json(self) -> dict[str, object]:
        return {"at": self.at.isoformat(), "reason": self.reason, "laterLaunchSucceeded": self.is_over}


def last_failed(activities: Iterable[Mapping[str, Any]]) -> FailedLaunch | None:
    """From a group's activities, in the order of AWS's answer: the newest first."""
    succeeded = False
    for one in activities:
        if one["StatusCode"] == "Successful" and one["Description"].startswith(LAUNCHING):
            succeeded = True
        elif one["StatusCode"] in FAILED and one["Description"].startswith(LAUNCHING):
            reason = " ".join((one.get("StatusMessage") or one["Description"]).split())
            return FailedLaunch(one["StartTime"].astimezone(UTC), reason, succeeded)
    return None
