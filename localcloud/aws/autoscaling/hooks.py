"""Lifecycle hooks: an instance waits until a client completes the lifecycle action or the action times out.

https://docs.aws.amazon.com/autoscaling/ec2/userguide/lifecycle-hooks.html
"""

import time
from dataclasses import dataclass
from typing import Any

from moto.moto_api._internal import mock_random

from localcloud.aws.autoscaling.errors import build_validation_error

LAUNCHING = "autoscaling:EC2_INSTANCE_LAUNCHING"
TERMINATING = "autoscaling:EC2_INSTANCE_TERMINATING"
GLOBAL_TIMEOUT = 172800
MAXIMUM_HOOKS = 50


@dataclass
class Hook:
    """Lifecycle hook of an Auto Scaling group."""

    name: str
    auto_scaling_group_name: str
    transition: str
    heartbeat: int = 3600
    default_result: str = "ABANDON"
    target_arn: str | None = None
    role_arn: str | None = None
    metadata: str | None = None

    def describe(self) -> dict[str, Any]:
        """Return the hook in the format of DescribeLifecycleHooks."""
        return {
            "LifecycleHookName": self.name,
            "AutoScalingGroupName": self.auto_scaling_group_name,
            "LifecycleTransition": self.transition,
            "HeartbeatTimeout": self.heartbeat,
            "GlobalTimeout": min(GLOBAL_TIMEOUT, self.heartbeat * 100),
            "DefaultResult": self.default_result,
            "NotificationTargetARN": self.target_arn,
            "RoleARN": self.role_arn,
            "NotificationMetadata": self.metadata,
        }


@dataclass
class Waiting:
    """Pending lifecycle action of a hook. The instance waits until the action is completed or times out."""

    hook: Hook
    token: str
    deadline: float
    """Monotonic time, in seconds, at which the action times out. The delay factor does not apply to this timeout."""


def find_hooks(backend: Any, group: str) -> list[Hook]:
    return [hook for hook in backend.lifecycle_hooks.values() if hook.auto_scaling_group_name == group]


def start_waiting(group: Any, state: Any, transition: str) -> bool:
    """Make the instance wait for the group's hooks for a transition. Return whether the group has such hooks."""
    hooks_to_await = [hook for hook in find_hooks(group.autoscaling_backend, group.name) if hook.transition == transition]
    state.waiting = [Waiting(hook, str(mock_random.uuid4()), time.monotonic() + hook.heartbeat) for hook in hooks_to_await]
    return bool(hooks_to_await)


def cancel_waiting(state: Any) -> None:
    state.waiting = []


def put_hook(backend: Any, group: str, parameters: dict[str, Any]) -> None:
    """Create a lifecycle hook, or update the existing hook with the same name."""
    name = parameters.get("LifecycleHookName")
    if not name:
        raise build_validation_error("Lifecycle hook name must be specified")
    existing = backend.lifecycle_hooks.get(build_hook_key(group, name))
    transition = parameters.get("LifecycleTransition") or (existing.transition if existing else None)
    if transition not in (LAUNCHING, TERMINATING):
        raise build_validation_error(f"Lifecycle transition must be one of [{LAUNCHING}, {TERMINATING}]")
    heartbeat = int(parameters.get("HeartbeatTimeout") or (existing.heartbeat if existing else 3600))
    if not 30 <= heartbeat <= 7200:
        raise build_validation_error("HeartbeatTimeout must be between 30 and 7200 seconds")
    result = parameters.get("DefaultResult") or (existing.default_result if existing else "ABANDON")
    if result not in ("CONTINUE", "ABANDON"):
        raise build_validation_error(f"Lifecycle Action Result must be one of [ABANDON, CONTINUE], not {result}")
    target, role = parameters.get("NotificationTargetARN"), parameters.get("RoleARN")
    if target and not role:
        raise build_validation_error("A RoleARN is required if a NotificationTargetARN is specified")
    if existing is None and len(find_hooks(backend, group)) >= MAXIMUM_HOOKS:
        raise build_validation_error(f"A group can have at most {MAXIMUM_HOOKS} lifecycle hooks")
    backend.lifecycle_hooks[build_hook_key(group, name)] = Hook(
        name, group, transition, heartbeat, result, target, role, parameters.get("NotificationMetadata")
    )


def build_hook_key(group: str, name: str) -> str:
    return f"{group}_{name}"


def delete_hooks(backend: Any, group: str) -> None:
    for hook in find_hooks(backend, group):
        del backend.lifecycle_hooks[build_hook_key(group, hook.name)]
