"""Instance refresh: replace a group's instances with new ones from its current launch template.

https://docs.aws.amazon.com/autoscaling/ec2/userguide/asg-instance-refresh.html
The local AWS replaces all instances at once. AWS works in batches and keeps a minimum of healthy instances.
"""

from datetime import UTC, datetime
from functools import partial
from typing import Any

from localcloud.aws import durations
from localcloud.aws.autoscaling import activities, capacity, group_calls, refresh_log
from localcloud.aws.autoscaling.errors import group_named
from localcloud.aws.autoscaling.group_view import current_version
from localcloud.aws.autoscaling.refresh_log import Refresh
from localcloud.aws.call import Call
from localcloud.aws.ec2.filters import page
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation


@operation("autoscaling", "StartInstanceRefresh")
def start_instance_refresh(call: Call) -> dict[str, Any]:
    group = group_named(call.backend, call.params.get("AutoScalingGroupName"))
    if refresh_log.active(call.backend, group.name) is not None:
        raise AwsError(
            "InstanceRefreshInProgress",
            "An Instance Refresh is already in progress and blocks the execution of this Instance Refresh.",
        )
    desired, preferences = call.params.get("DesiredConfiguration"), call.params.get("Preferences", {})
    if desired:
        group_calls.update(group, desired)
    refresh = Refresh(group.name, preferences, desired)
    refresh_log.of(call.backend).append(refresh)
    durations.schedule(refresh, "status", "Pending", "InProgress", "ec2-instance", then=partial(_replace, group, refresh))
    return {"InstanceRefreshId": refresh.id}


def _replace(group: Any, refresh: Refresh) -> None:
    version = current_version(group)
    for state in capacity.members(group):
        used = getattr(state, "template_version", None)
        is_current = used is not None and used.number == version
        if not (is_current and refresh.preferences.get("SkipMatching")):
            capacity.start_termination(
                group, state, f"At {activities.moment()} an instance was taken out of service in response to an instance refresh."
            )
    capacity.reconcile(group, "in response to an instance refresh")
    durations.schedule(refresh, "status", "InProgress", "Successful", "ec2-instance", then=partial(_end, refresh))


def _end(refresh: Refresh) -> None:
    refresh.ended = datetime.now(UTC)


@operation("autoscaling", "DescribeInstanceRefreshes")
def describe_instance_refreshes(call: Call) -> dict[str, Any]:
    group, ids = group_named(call.backend, call.params.get("AutoScalingGroupName")), call.params.get("InstanceRefreshIds")
    found = [item for item in reversed(refresh_log.of(call.backend)) if item.group == group.name and (not ids or item.id in ids)]
    found, token = page(found, {"MaxResults": call.params.get("MaxRecords", 50), "NextToken": call.params.get("NextToken")})
    return {"InstanceRefreshes": [item.shown() for item in found], **token}


@operation("autoscaling", "CancelInstanceRefresh")
def cancel_instance_refresh(call: Call) -> dict[str, Any]:
    group = group_named(call.backend, call.params.get("AutoScalingGroupName"))
    refresh = refresh_log.active(call.backend, group.name)
    if refresh is None:
        raise AwsError(
            "ActiveInstanceRefreshNotFound", "No in progress or pending Instance Refresh found for Auto Scaling group."
        )
    durations.cancel(refresh)
    refresh.status, refresh.ended = "Cancelled", datetime.now(UTC)
    return {"InstanceRefreshId": refresh.id}
