"""Detailed monitoring, and changes of instance attributes that moto stores incorrectly.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ModifyInstanceAttribute.html
"""

import base64
from typing import Any

from moto.core.types import Base64EncodedString

from localcloud.aws.call import Call
from localcloud.aws.ec2.instance_calls import find_instances
from localcloud.aws.ec2.launch_templates import check_user_data
from localcloud.aws.ec2.refusals import stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation


@operation("ec2", "MonitorInstances")
def monitor_instances(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_MonitorInstances.html"""
    return _set_monitoring(call, "enabled")


@operation("ec2", "UnmonitorInstances")
def unmonitor_instances(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_UnmonitorInstances.html"""
    return _set_monitoring(call, "disabled")


def _set_monitoring(call: Call, state: str) -> dict[str, Any]:
    instances = find_instances(call.backend, call.params.get("InstanceIds", []))
    for instance in instances:
        if instance.state in ("shutting-down", "terminated"):
            raise AwsError("IncorrectState", f"The instance '{instance.id}' is not in a state in which monitoring can change.")
    stop_dry_run(call)
    for instance in instances:
        instance.monitoring_state = state
    return {"InstanceMonitorings": [{"InstanceId": instance.id, "Monitoring": {"State": state}} for instance in instances]}


@operation("ec2", "ModifyInstanceAttribute")
def modify_instance_attribute(call: Call) -> dict[str, Any]:
    """Change the user data of a stopped instance. moto changes the other attributes."""
    if "UserData" not in call.params:
        return call.moto()
    (instance,) = find_instances(call.backend, [call.params["InstanceId"]])
    if instance.state != "stopped":
        raise AwsError("IncorrectInstanceState", f"The instance '{instance.id}' is not in the 'stopped' state.")
    encoded = base64.b64encode(call.params["UserData"].get("Value", b"")).decode()
    check_user_data(encoded)
    stop_dry_run(call)
    instance.user_data = Base64EncodedString(encoded) if encoded else None
    return {}
