"""Past and current instance refreshes of Auto Scaling groups."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from moto.moto_api._internal import mock_random

from localcloud.aws.patching import get_state

ACTIVE = ("Pending", "InProgress", "Cancelling")


@dataclass
class Refresh:
    """Instance refresh of an Auto Scaling group."""

    group: str
    preferences: dict[str, Any]
    desired: dict[str, Any] | None
    status: str = "Pending"
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended: datetime | None = None
    reason: str = ""
    total: int = 0
    """Number of instances to replace."""
    left: int = 0
    """Number of instances that are not yet replaced."""
    id: str = field(default_factory=lambda: str(mock_random.uuid4()))

    def describe(self) -> dict[str, Any]:
        """Return the refresh in the format of DescribeInstanceRefreshes."""
        return {
            "InstanceRefreshId": self.id,
            "AutoScalingGroupName": self.group,
            "Status": self.status,
            "StartTime": self.started,
            "EndTime": self.ended,
            "StatusReason": self.reason or None,
            "PercentageComplete": 100 * (self.total - self.left) // self.total if self.total else 100,
            "InstancesToUpdate": self.left,
            "Preferences": self.preferences,
            "DesiredConfiguration": self.desired,
        }


class Refreshes:
    """Instance refreshes of one account and region, oldest first."""

    def __init__(self) -> None:
        self.log: list[Refresh] = []


def list_refreshes(backend: Any) -> list[Refresh]:
    return get_state(backend, Refreshes).log


def delete_refreshes(backend: Any, group: str) -> None:
    """Drop the instance refreshes of a deleted group."""
    log = list_refreshes(backend)
    log[:] = [item for item in log if item.group != group]


def find_active_refresh(backend: Any, group: str) -> Refresh | None:
    return next((item for item in list_refreshes(backend) if item.group == group and item.status in ACTIVE), None)
