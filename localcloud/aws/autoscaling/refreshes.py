"""Instance refresh operations. `rolling.py` replaces the instances.

https://docs.aws.amazon.com/autoscaling/ec2/userguide/asg-instance-refresh.html
"""

from datetime import UTC, datetime
from typing import Any

from localcloud.aws import durations
from localcloud.aws.autoscaling import group_calls, refresh_log
from localcloud.aws.autoscaling.errors import build_validation_error, find_group
from localcloud.aws.autoscaling.refresh_log import Refresh
from localcloud.aws.autoscaling.rolling import Rolling
from localcloud.aws.call import Call
from localcloud.aws.ec2.filters import select_page
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

_NOT_EMULATED = ("AlarmSpecification", "AutoRollback", "BakeTime", "CheckpointDelay", "CheckpointPercentages")


@operation("autoscaling", "StartInstanceRefresh")
def start_instance_refresh(call: Call) -> dict[str, Any]:
    group = find_group(call.backend, call.params.get("AutoScalingGroupName"))
    if refresh_log.find_active_refresh(call.backend, group.name) is not None:
        raise AwsError(
            "InstanceRefreshInProgress",
            "An Instance Refresh is already in progress and blocks the execution of this Instance Refresh.",
        )
    desired, preferences = call.params.get("DesiredConfiguration"), call.params.get("Preferences", {})
    _check_preferences(preferences)
    if call.params.get("Strategy", "Rolling") != "Rolling":
        raise AwsError("NotImplementedInLocalCloud", "The local cloud replaces instances, not root volumes.", status=400)
    if desired:
        group_calls.update_group(group, desired)
    refresh = Refresh(group.name, preferences, desired)
    refresh_log.list_refreshes(call.backend).append(refresh)
    rolling = Rolling(group, refresh)
    durations.schedule(refresh, "status", "Pending", "InProgress", "ec2-instance", then=rolling.start, fail=rolling.fail)
    return {"InstanceRefreshId": refresh.id}


def _check_preferences(preferences: dict[str, Any]) -> None:
    """https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_RefreshPreferences.html"""
    if unknown := [name for name in _NOT_EMULATED if name in preferences]:
        raise AwsError("NotImplementedInLocalCloud", f"The local cloud does not support {', '.join(unknown)}.", status=400)
    least, most = preferences.get("MinHealthyPercentage"), preferences.get("MaxHealthyPercentage")
    if least is not None and not 0 <= least <= 100:
        raise build_validation_error("MinHealthyPercentage must be between 0 and 100")
    if most is None:
        return
    if not 100 <= most <= 200:
        raise build_validation_error("MaxHealthyPercentage must be between 100 and 200")
    if least is None or most - least > 100:
        raise build_validation_error("MaxHealthyPercentage requires MinHealthyPercentage and can exceed it by at most 100")


@operation("autoscaling", "DescribeInstanceRefreshes")
def describe_instance_refreshes(call: Call) -> dict[str, Any]:
    group, ids = find_group(call.backend, call.params.get("AutoScalingGroupName")), call.params.get("InstanceRefreshIds")
    refreshes = [
        item
        for item in reversed(refresh_log.list_refreshes(call.backend))
        if item.group == group.name and (not ids or item.id in ids)
    ]
    refreshes, token = select_page(
        refreshes, {"MaxResults": call.params.get("MaxRecords", 50), "NextToken": call.params.get("NextToken")}
    )
    return {"InstanceRefreshes": [item.describe() for item in refreshes], **token}


@operation("autoscaling", "CancelInstanceRefresh")
def cancel_instance_refresh(call: Call) -> dict[str, Any]:
    group = find_group(call.backend, call.params.get("AutoScalingGroupName"))
    refresh = refresh_log.find_active_refresh(call.backend, group.name)
    if refresh is None:
        raise AwsError(
            "ActiveInstanceRefreshNotFound", "No in progress or pending Instance Refresh found for Auto Scaling group."
        )
    durations.cancel_transitions(refresh)
    refresh.status, refresh.ended = "Cancelled", datetime.now(UTC)
    return {"InstanceRefreshId": refresh.id}
