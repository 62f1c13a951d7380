"""Lifecycle hook operations, and completion and timeout of lifecycle actions.

https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_PutLifecycleHook.html
"""

import time
from typing import Any

from localcloud.aws.autoscaling import capacity, hooks
from localcloud.aws.autoscaling.errors import build_validation_error, find_group
from localcloud.aws.call import Call
from localcloud.aws.patching import operation


@operation("autoscaling", "PutLifecycleHook")
def put_lifecycle_hook(call: Call) -> None:
    hooks.put_hook(call.backend, find_group(call.backend, call.params.get("AutoScalingGroupName")).name, call.params)


@operation("autoscaling", "DescribeLifecycleHooks")
def describe_lifecycle_hooks(call: Call) -> dict[str, Any]:
    group = find_group(call.backend, call.params.get("AutoScalingGroupName"))
    names = call.params.get("LifecycleHookNames")
    selected_hooks = [hook for hook in hooks.find_hooks(call.backend, group.name) if not names or hook.name in names]
    return {"LifecycleHooks": [hook.describe() for hook in selected_hooks]}


@operation("autoscaling", "DescribeLifecycleHookTypes")
def describe_lifecycle_hook_types(call: Call) -> dict[str, Any]:
    return {"LifecycleHookTypes": [hooks.LAUNCHING, hooks.TERMINATING]}


@operation("autoscaling", "DeleteLifecycleHook")
def delete_lifecycle_hook(call: Call) -> None:
    group, name = find_group(call.backend, call.params.get("AutoScalingGroupName")), call.params.get("LifecycleHookName", "")
    if hooks.build_hook_key(group.name, name) not in call.backend.lifecycle_hooks:
        raise build_validation_error(f"No Lifecycle Hook found: {name}")
    del call.backend.lifecycle_hooks[hooks.build_hook_key(group.name, name)]
    for state in list(group.instance_states):
        for waiting in list(getattr(state, "waiting", ())):
            if waiting.hook.name == name:
                _complete_action(group, state, waiting, "ABANDON" if waiting.hook.transition == hooks.LAUNCHING else "CONTINUE")


@operation("autoscaling", "CompleteLifecycleAction")
def complete_lifecycle_action(call: Call) -> None:
    result = call.params.get("LifecycleActionResult")
    if result not in ("CONTINUE", "ABANDON"):
        raise build_validation_error(f"Lifecycle Action Result must be one of [ABANDON, CONTINUE], not {result}")
    group, state, waiting = _find_pending_action(call)
    _complete_action(group, state, waiting, result)


@operation("autoscaling", "RecordLifecycleActionHeartbeat")
def record_lifecycle_action_heartbeat(call: Call) -> None:
    _, _, waiting = _find_pending_action(call)
    waiting.deadline = time.monotonic() + waiting.hook.heartbeat


def _find_pending_action(call: Call) -> tuple[Any, Any, hooks.Waiting]:
    """Find the pending lifecycle action that a call identifies by token or instance ID."""
    params, group = call.params, find_group(call.backend, call.params.get("AutoScalingGroupName"))
    token, instance_id = params.get("LifecycleActionToken"), params.get("InstanceId")
    for state in group.instance_states:
        for waiting in getattr(state, "waiting", ()):
            if waiting.hook.name == params.get("LifecycleHookName") and (
                waiting.token == token or state.instance_id == instance_id
            ):
                return group, state, waiting
    raise build_validation_error(
        f"No active Lifecycle Action found with {f'token {token}' if token else f'instance ID {instance_id}'}"
    )


def _complete_action(group: Any, state: Any, waiting: hooks.Waiting, result: str) -> None:
    """Complete one lifecycle action.

    ABANDON also ends the instance's other pending actions and terminates the instance.
    """
    state.waiting.remove(waiting)
    if result == "ABANDON":
        state.waiting = []
    if state.waiting:
        return
    if waiting.hook.transition == hooks.TERMINATING:
        capacity.terminate_instance(group, state)
    elif result == "CONTINUE":
        capacity.put_in_service(group, state)
    else:
        state.activity.end("Cancelled")
        capacity.start_termination(group, state, "The lifecycle action of the launch was abandoned.")
        capacity.adjust_instances(group, "in response to a difference between desired and actual capacity")


def complete_overdue_actions(backend: Any) -> None:
    """Complete the lifecycle actions that have timed out, with the default result of their hooks."""
    moment = time.monotonic()
    for group in list(backend.autoscaling_groups.values()):
        for state in list(group.instance_states):
            for waiting in list(getattr(state, "waiting", ())):
                if waiting.deadline <= moment and waiting in state.waiting:
                    _complete_action(group, state, waiting, waiting.hook.default_result)
