"""Lifecycle hooks: an instance waits until somebody says that it may go on, or until time is up.

https://docs.aws.amazon.com/autoscaling/ec2/userguide/lifecycle-hooks.html
"""

import time
from dataclasses import dataclass
from typing import Any

from moto.moto_api._internal import mock_random

from localcloud.aws.autoscaling.errors import group_named, invalid
from localcloud.aws.call import Call
from localcloud.aws.patching import operation

LAUNCHING = "autoscaling:EC2_INSTANCE_LAUNCHING"
TERMINATING = "autoscaling:EC2_INSTANCE_TERMINATING"
GLOBAL_TIMEOUT = 172800
MAXIMUM_HOOKS = 50


@dataclass
class Hook:
    """One lifecycle hook of a group."""

    name: str
    auto_scaling_group_name: str
    transition: str
    heartbeat: int = 3600
    default_result: str = "ABANDON"
    target_arn: str | None = None
    role_arn: str | None = None
    metadata: str | None = None

    def shown(self) -> dict[str, Any]:
        """As DescribeLifecycleHooks shows it."""
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
    """An instance's wait for a hook."""

    hook: Hook
    token: str
    deadline: float
    """Seconds of this machine's clock: AWS's timeouts are not shortened with the delays."""


def of_group(backend: Any, group: str) -> list[Hook]:
    return [hook for hook in backend.lifecycle_hooks.values() if hook.auto_scaling_group_name == group]


def wait(group: Any, state: Any, transition: str) -> bool:
    """Let the instance wait for the group's hooks of that transition; False if there are none."""
    found = [hook for hook in of_group(group.autoscaling_backend, group.name) if hook.transition == transition]
    state.waiting = [Waiting(hook, str(mock_random.uuid4()), time.monotonic() + hook.heartbeat) for hook in found]
    return bool(found)


def forget(state: Any) -> None:
    state.waiting = []


def put(backend: Any, group: str, given: dict[str, Any]) -> None:
    """Make a hook, or change the one of that name."""
    name = given.get("LifecycleHookName")
    if not name:
        raise invalid("Lifecycle hook name must be specified")
    known = backend.lifecycle_hooks.get(_key(group, name))
    transition = given.get("LifecycleTransition") or (known.transition if known else None)
    if transition not in (LAUNCHING, TERMINATING):
        raise invalid(f"Lifecycle transition must be one of [{LAUNCHING}, {TERMINATING}]")
    heartbeat = int(given.get("HeartbeatTimeout") or (known.heartbeat if known else 3600))
    if not 30 <= heartbeat <= 7200:
        raise invalid("HeartbeatTimeout must be between 30 and 7200 seconds")
    result = given.get("DefaultResult") or (known.default_result if known else "ABANDON")
    if result not in ("CONTINUE", "ABANDON"):
        raise invalid(f"Lifecycle Action Result must be one of [ABANDON, CONTINUE], not {result}")
    target, role = given.get("NotificationTargetARN"), given.get("RoleARN")
    if target and not role:
        raise invalid("A RoleARN is required where a NotificationTargetARN is specified")
    if known is None and len(of_group(backend, group)) >= MAXIMUM_HOOKS:
        raise invalid(f"A group has at most {MAXIMUM_HOOKS} lifecycle hooks")
    backend.lifecycle_hooks[_key(group, name)] = Hook(
        name, group, transition, heartbeat, result, target, role, given.get("NotificationMetadata")
    )


def _key(group: str, name: str) -> str:
    return f"{group}_{name}"


def drop_all(backend: Any, group: str) -> None:
    for hook in of_group(backend, group):
        del backend.lifecycle_hooks[_key(group, hook.name)]


@operation("autoscaling", "PutLifecycleHook")
def put_lifecycle_hook(call: Call) -> None:
    put(call.backend, group_named(call.backend, call.params.get("AutoScalingGroupName")).name, call.params)


@operation("autoscaling", "DescribeLifecycleHooks")
def describe_lifecycle_hooks(call: Call) -> dict[str, Any]:
    group = group_named(call.backend, call.params.get("AutoScalingGroupName"))
    names = call.params.get("LifecycleHookNames")
    found = [hook for hook in of_group(call.backend, group.name) if not names or hook.name in names]
    return {"LifecycleHooks": [hook.shown() for hook in found]}


@operation("autoscaling", "DescribeLifecycleHookTypes")
def describe_lifecycle_hook_types(call: Call) -> dict[str, Any]:
    return {"LifecycleHookTypes": [LAUNCHING, TERMINATING]}


@operation("autoscaling", "DeleteLifecycleHook")
def delete_lifecycle_hook(call: Call) -> None:
    group, name = group_named(call.backend, call.params.get("AutoScalingGroupName")), call.params.get("LifecycleHookName", "")
    if _key(group.name, name) not in call.backend.lifecycle_hooks:
        raise invalid(f"No Lifecycle Hook found: {name}")
    del call.backend.lifecycle_hooks[_key(group.name, name)]
    for state in list(group.instance_states):
        for waiting in list(getattr(state, "waiting", ())):
            if waiting.hook.name == name:
                _complete(group, state, waiting, "ABANDON" if waiting.hook.transition == LAUNCHING else "CONTINUE")


@operation("autoscaling", "CompleteLifecycleAction")
def complete_lifecycle_action(call: Call) -> None:
    result = call.params.get("LifecycleActionResult")
    if result not in ("CONTINUE", "ABANDON"):
        raise invalid(f"Lifecycle Action Result must be one of [ABANDON, CONTINUE], not {result}")
    group, state, waiting = _active(call)
    _complete(group, state, waiting, result)


@operation("autoscaling", "RecordLifecycleActionHeartbeat")
def record_lifecycle_action_heartbeat(call: Call) -> None:
    _, _, waiting = _active(call)
    waiting.deadline = time.monotonic() + waiting.hook.heartbeat


def _active(call: Call) -> tuple[Any, Any, Waiting]:
    """The wait that a call is about, by token or by instance."""
    params, group = call.params, group_named(call.backend, call.params.get("AutoScalingGroupName"))
    token, instance_id = params.get("LifecycleActionToken"), params.get("InstanceId")
    for state in group.instance_states:
        for waiting in getattr(state, "waiting", ()):
            if waiting.hook.name == params.get("LifecycleHookName") and (
                waiting.token == token or state.instance_id == instance_id
            ):
                return group, state, waiting
    raise invalid(f"No active Lifecycle Action found with {f'token {token}' if token else f'instance ID {instance_id}'}")


def _complete(group: Any, state: Any, waiting: Waiting, result: str) -> None:
    """One hook is done. ABANDON ends all other waits of a launch, and the instance with it."""
    from localcloud.aws.autoscaling import capacity

    state.waiting.remove(waiting)
    if result == "ABANDON":
        state.waiting = []
    if state.waiting:
        return
    if waiting.hook.transition == TERMINATING:
        capacity.terminate(group, state)
    elif result == "CONTINUE":
        capacity.in_service(group, state)
    else:
        state.activity.end("Cancelled")
        capacity.let_go(group, state, "The lifecycle action of the launch was abandoned.")
        capacity.reconcile(group, "in response to a difference between desired and actual capacity")


def end_overdue(backend: Any) -> None:
    """Waits whose time is up end with the hook's default result."""
    moment = time.monotonic()
    for group in list(backend.autoscaling_groups.values()):
        for state in list(group.instance_states):
            for waiting in list(getattr(state, "waiting", ())):
                if waiting.deadline <= moment and waiting in state.waiting:
                    _complete(group, state, waiting, waiting.hook.default_result)
