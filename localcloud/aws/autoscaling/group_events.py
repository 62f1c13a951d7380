"""Publish events about Auto Scaling groups to realizers."""

from typing import Any

from localcloud.aws import events
from localcloud.aws.autoscaling.group_view import describe_group


def publish_group_event(action: events.Action, group: Any) -> None:
    backend = group.autoscaling_backend
    details = {} if action == "gone" else describe_group(group)
    events.publish_event(events.Event("auto-scaling-group", action, group.name, backend.region_name, backend.account_id, details))
