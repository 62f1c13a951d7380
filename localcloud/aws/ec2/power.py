"""Stopping, starting and rebooting instances, and reading their console output.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-lifecycle.html
"""

import base64
from collections.abc import Callable
from typing import Any

from moto.core.utils import utcnow
from moto.ec2.models.instances import StateReason

from localcloud.aws import clock, durations
from localcloud.aws.autoscaling import capacity
from localcloud.aws.call import Call, backend_of
from localcloud.aws.ec2 import instance_calls, instance_events
from localcloud.aws.ec2.instances import STATES, format_user_initiated_reason
from localcloud.aws.ec2.refusals import stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

CONSOLE_BYTES = 64 * 1024
"""https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_GetConsoleOutput.html"""

Console = Callable[[str], bytes | None]
_consoles: list[Console] = []


def register_console(console: Console) -> Callable[[], None]:
    """Register a function that returns an instance's console output. Call the function that this returns to unregister."""
    _consoles.append(console)
    return lambda: _consoles.remove(console)


@operation("ec2", "StopInstances")
def stop_instances(call: Call) -> dict[str, Any]:
    instances = _find_instances(call)
    for instance in instances:
        if instance.disable_api_stop:
            raise AwsError(
                "OperationNotPermitted",
                f"The instance '{instance.id}' may not be stopped. Modify its 'disableApiStop' instance attribute and try again.",
            )
        _check_state(instance, "running", "stopping", "stopped")
    stop_dry_run(call)
    return {"StoppingInstances": [stop_instance(instance) for instance in instances]}


def stop_instance(instance: Any, reason: str = "Client.UserInitiatedShutdown: User initiated shutdown") -> dict[str, Any]:
    """Stop an instance and notify its Auto Scaling group."""
    before = instance.state
    if before == "running":
        instance._reason = format_user_initiated_reason()
        instance.state_reason = StateReason(reason, reason.split(":")[0])
        failed = durations.make_failure_handler(instance, "state_name", before)
        durations.schedule(
            instance, "state_name", "stopping", "stopped", "ec2-instance-stop", gate=instance.is_settled, fail=failed
        )
        instance_events.publish_instance_event("stopping", instance)
        backend = instance.ec2_backend
        capacity.replace_unhealthy_instances(backend_of("autoscaling", backend.account_id, backend.region_name), [instance.id])
    return _describe_state_change(instance, before)


@operation("ec2", "StartInstances")
def start_instances(call: Call) -> dict[str, Any]:
    instances = _find_instances(call)
    for instance in instances:
        _check_state(instance, "stopped", "pending", "running")
    stop_dry_run(call)
    return {"StartingInstances": [_start(instance) for instance in instances]}


def _start(instance: Any) -> dict[str, Any]:
    before = instance.state
    if before == "stopped":
        instance._reason, instance.state_reason = "", StateReason()
        instance.launch_time = clock.now().replace(tzinfo=None)  # EC2 reports the time of the last start
        instance.start_running()
        instance_events.publish_instance_event("starting", instance)
    return _describe_state_change(instance, before)


@operation("ec2", "RebootInstances")
def reboot_instances(call: Call) -> None:
    instances = _find_instances(call)
    for instance in instances:
        _check_state(instance, "running")
    stop_dry_run(call)
    for instance in instances:
        instance_events.publish_instance_event("rebooting", instance)


@operation("ec2", "GetConsoleOutput")
def get_console_output(call: Call) -> dict[str, Any]:
    """Return the console output of an instance. The output is empty if no realizer runs the instance."""
    instance = instance_calls.find_instances(call.backend, [call.params["InstanceId"]])[0]
    stop_dry_run(call)
    shown = next((text for console in _consoles if (text := console(instance.id)) is not None), b"")
    return {
        "InstanceId": instance.id,
        "Timestamp": utcnow(),
        "Output": base64.b64encode(shown[-CONSOLE_BYTES:]).decode(),
    }


def _find_instances(call: Call) -> list[Any]:
    return instance_calls.find_instances(call.backend, call.params.get("InstanceIds", []))


def _check_state(instance: Any, *states: str) -> None:
    if instance.state not in states:
        raise AwsError(
            "IncorrectInstanceState", f"The instance '{instance.id}' is not in a state from which it can be {_DONE[states[0]]}."
        )


_DONE = {"running": "stopped or rebooted", "stopped": "started"}


def _describe_state_change(instance: Any, before: str) -> dict[str, Any]:
    return {
        "InstanceId": instance.id,
        "PreviousState": {"Name": before, "Code": STATES[before]},
        "CurrentState": {"Name": instance.state, "Code": STATES[instance.state]},
    }
