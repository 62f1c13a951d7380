"""Session Manager: sessions to running instances whose role allows the SSM agent to connect.

https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-getting-started-instance-profile.html
"""

import re
import uuid
from collections.abc import Callable
from typing import Any

from moto.core.utils import utcnow

from localcloud.aws import identity
from localcloud.aws.call import Call
from localcloud.aws.ec2 import instance_calls
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation
from localcloud.aws.policy_evaluation import Request, allows, parse_document

Open = Callable[[str, int], tuple[str, str] | None]
"""Function that opens a connection to an instance, given the instance id and a port.

It returns the connection's URL and token, or None if the instance cannot be reached.
"""
DOCUMENTS = ("AWS-StartSSHSession", "AWS-StartPortForwardingSession")
_NEEDED = ("ssm:UpdateInstanceInformation", "ssmmessages:CreateControlChannel", "ssmmessages:OpenDataChannel")
_openers: list[Open] = []


def extend_moto() -> None:
    """Do nothing: importing this module has already registered its operations."""


def register_session_opener(opener: Open) -> Callable[[], None]:
    """Register a function that opens sessions. Call the function that this returns to unregister."""
    _openers.append(opener)
    return lambda: _openers.remove(opener)


@operation("ssm", "StartSession")
def start_session(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_StartSession.html"""
    target, document = call.params["Target"], call.params.get("DocumentName") or "SSM-SessionManagerRunShell"
    if not re.fullmatch(r"i-[0-9a-f]{8,17}", target):
        raise AwsError("InvalidTarget", f"{target} is not an instance id.")
    if document not in DOCUMENTS:
        raise AwsError("InvalidDocument", f"The local cloud supports only {' and '.join(DOCUMENTS)} (got {document}).")
    port = (call.params.get("Parameters") or {}).get("portNumber", ["22"])[0]
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise AwsError("InvalidParameters", f"Invalid value for parameter portNumber: {port}")
    opened = None
    if problem := _find_connection_problem(call, target):
        raise AwsError("TargetNotConnected", f"{target} is not connected. {problem}")
    for opener in _openers:
        opened = opened or opener(target, int(port))
    if opened is None:
        raise AwsError("TargetNotConnected", f"{target} is not connected.")
    url, token = opened
    return {"SessionId": f"local-{uuid.uuid4().hex[:17]}", "StreamUrl": url, "TokenValue": token}


@operation("ssm", "TerminateSession")
def terminate_session(call: Call) -> dict[str, Any]:
    return {"SessionId": call.params["SessionId"]}


@operation("ssm", "DescribeInstanceInformation")
def describe_instance_information(call: Call) -> dict[str, Any]:
    """List instances whose SSM agent is connected."""
    instance_ids = _read_instance_ids(call.params)
    return {
        "InstanceInformationList": [
            {
                "InstanceId": instance.id,
                "PingStatus": "Online",
                "LastPingDateTime": utcnow(),
                "PlatformType": "Linux",
                "ResourceType": "EC2Instance",
                "IPAddress": instance.private_ip,
                "ComputerName": instance.private_dns_name,
            }
            for instance in instance_calls.list_instances(call.backend_of("ec2"))
            if (instance_ids is None or instance.id in instance_ids)
            and not _find_connection_problem(call, instance.id)
            and _is_reachable(instance.id)
        ]
    }


def _read_instance_ids(params: dict[str, Any]) -> set[str] | None:
    for item_filter in (*params.get("Filters", ()), *params.get("InstanceInformationFilterList", ())):
        if item_filter.get("Key", item_filter.get("key")) == "InstanceIds":
            return set(item_filter.get("Values") or item_filter.get("valueSet") or ())
    return None


def _is_reachable(instance_id: str) -> bool:
    return any(opener(instance_id, 22) is not None for opener in _openers)


def _find_connection_problem(call: Call, instance_id: str) -> str:
    """Return the reason why the instance's SSM agent cannot connect, or "" if it can."""
    instance = instance_calls.find_instances(call.backend_of("ec2"), [instance_id])[0]
    if instance.state != "running":
        return f"The instance is {instance.state}."
    association = call.backend_of("ec2").iam_instance_profile_associations.get(instance_id)
    roles = association.iam_instance_profile.roles if association else []
    if not roles:
        return "It has no instance profile with a role that allows its SSM agent to connect."
    missing = [action for action in _NEEDED if not _is_allowed(roles[0], action)]
    return f"The role {roles[0].name} does not allow {', '.join(missing)}, which its SSM agent needs." if missing else ""


def _is_allowed(role: Any, action: str) -> bool:
    return allows(Request(action), *map(parse_document, identity.list_policy_documents(role)))
