"""Events about launched, changed and terminated instances, published to other parts of the local cloud."""

from typing import Any

from localcloud.aws import events
from localcloud.aws.ec2.instance_view import describe_instance


def publish_instance_event(action: events.Action, instance: Any) -> None:
    backend = instance.ec2_backend
    details = {"ScaledIn": _is_scaled_in(instance)} if action == "gone" else describe_instance(instance)
    events.publish_event(events.Event("instance", action, instance.id, backend.region_name, backend.account_id, details))


def _is_scaled_in(instance: Any) -> bool:
    """Return whether an Auto Scaling group scaled the instance in.

    EKS drains nodes that were scaled in, but not nodes that were terminated directly.
    """
    group = getattr(instance, "autoscaling_group", None)
    states = group.instance_states if group is not None else ()
    return any(state.instance is instance and state.lifecycle_state.startswith("Terminating") for state in states)


def terminate(instances: list[Any]) -> list[dict[str, Any]]:
    """Terminate instances and return the state changes in the format of TerminateInstances."""
    changes = []
    for instance in instances:
        was_live = instance.state not in ("shutting-down", "terminated")
        previous = instance.terminate()
        if was_live:
            publish_instance_event("gone", instance)
        current = instance.state if instance.state == "terminated" else "shutting-down"
        changes.append(
            {
                "InstanceId": instance.id,
                "PreviousState": {"Name": previous.name, "Code": previous.code},
                "CurrentState": {"Name": current, "Code": {"terminated": 48}.get(current, 32)},
            }
        )
    return changes
