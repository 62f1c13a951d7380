"""ARNs of the resources to which a request refers.

`resource_types.yaml` lists the resource types. Before a resource exists, AWS checks an ARN that contains the resource's
name, or `*` in place of its ID.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moto.ec2.utils import get_prefix

from localcloud.aws import identity
from localcloud.aws.call import Call, backend_of
from localcloud.aws.ec2 import launch
from localcloud.aws.eks.state import Eks
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import get_state
from localcloud.aws.permissions import actions

_CREATING = ("Create", "Run", "Allocate", "Import", "Copy", "Register", "Put", "Purchase")

_ARN = re.compile(r"arn:[^:]*:[^:]*:[^:]*:[^:]*:.+")

_EC2_TYPES = {
    **{"ami": "image", "snap": "snapshot", "i": "instance", "vol": "volume", "eni": "network-interface", "lt": "launch-template"},
    **{"vpc": "vpc", "subnet": "subnet", "sg": "security-group", "sgr": "security-group-rule", "rtb": "route-table"},
    **{"igw": "internet-gateway", "nat": "natgateway", "eipalloc": "elastic-ip", "vpce": "vpc-endpoint", "fl": "vpc-flow-log"},
    **{"acl": "network-acl", "cr": "capacity-reservation", "dopt": "dhcp-options", "key": "key-pair", "pg": "placement-group"},
}
"""Maps each ID prefix to the resource type: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html"""


def find_arns(call: Call, action: str) -> tuple[str | None, ...]:
    """Return the ARNs of the resources in a call: None for an unknown ARN, `*` if the action has no resource types."""
    if action == "ec2:RunInstances":
        return find_launch_arns(call, merge_launch_data(call, call.params))
    types = actions.load_resource_types().get(action)
    if types is None:
        return (None,)
    if not types:
        return ("*",)
    arns_of_call: list[str | None] = []
    for name in types:
        kind, always = name.removesuffix("+"), name.endswith("+")
        arns = sorted(
            {candidate for candidate in _find_known_arns(call, action.split(":")[0], kind) if _ARN.fullmatch(candidate)}
        )
        if not arns and always:
            arns_of_call.append(_build_new_resource_arn(call, action, kind))
        arns_of_call.extend(arns)
    return tuple(arns_of_call) or (None,)


def _find_known_arns(call: Call, prefix: str, kind: str) -> list[str]:
    resource_arns = [value for key, value in call.params.items() if key.lower() == "resourcearn"]
    if resource_arns:
        return [str(value) for value in resource_arns]
    return [arn for arn in _FINDERS[prefix](call, kind) if arn] if prefix in _FINDERS else []


def _build_new_resource_arn(call: Call, action: str, kind: str) -> str | None:
    """Return the ARN of an EC2 resource that the call creates, with `*` in place of its ID; None for other calls."""
    prefix, name = action.split(":")
    return _build_ec2_arn(call, kind, "*") if prefix == "ec2" and name.startswith(_CREATING) else None


def build_arn(call: Call, service: str, resource: str) -> str:
    return f"arn:aws:{service}:{call.region}:{call.account}:{resource}"


def list_strings(value: Any) -> Iterator[str]:
    """Yield every string in a request's parameters."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from list_strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from list_strings(inner)


# --- EC2 and Auto Scaling ----------------------------------------------------------------------------------------------


def _build_ec2_arn(call: Call, kind: str, identifier: str) -> str:
    owner = "" if kind in ("image", "snapshot") else call.account
    return f"arn:aws:ec2:{call.region}:{owner}:{kind}/{identifier}"


def _find_ec2_arns(call: Call, kind: str) -> Iterator[str]:
    yield from find_ec2_arns(call, call.params, kind)


def find_ec2_arns(call: Call, params: Mapping[str, Any], kind: str) -> Iterator[str]:
    """Yield the ARN of each EC2 resource of type `kind` that a request's parameters or launch data contain."""
    for text in list_strings({key: value for key, value in params.items() if key != "UserData" and "Tag" not in key}):
        if "-" in text and len(text) < 40 and _EC2_TYPES.get(get_prefix(text)) == kind:
            yield _build_ec2_arn(call, kind, text)
    names = {
        "key-pair": params.get("KeyName"),
        "launch-template": (params.get("LaunchTemplate") or params).get("LaunchTemplateName"),
        "placement-group": params.get("GroupName") or (params.get("Placement") or {}).get("GroupName"),
    }
    name = names.get(kind)
    if name and kind == "launch-template":
        name = call.backend_of("ec2").launch_template_name_to_ids.get(name)
    if name:
        yield _build_ec2_arn(call, kind, name)


def merge_launch_data(call: Call, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return launch data merged with its launch template.

    If the template does not exist, return the launch data alone: EC2 reports the error later.
    """
    try:
        return {**launch.merge_template(call.backend_of("ec2"), data), "LaunchTemplate": data.get("LaunchTemplate") or {}}
    except AwsError:
        return dict(data)


def find_launch_arns(call: Call, data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ARNs on which ec2:RunInstances acts, given launch data merged with its template."""
    launch_arns: list[str] = []
    for name in actions.load_resource_types()["ec2:RunInstances"]:
        kind, always = name.removesuffix("+"), name.endswith("+")
        arns = sorted(set(find_ec2_arns(call, data, kind)))
        launch_arns.extend(arns or ([_build_ec2_arn(call, kind, "*")] if always or kind == "volume" else []))
    return tuple(launch_arns)


def _find_scaling_group_arns(call: Call, kind: str) -> Iterator[str]:
    if kind != "autoScalingGroup":
        return
    names = [call.params.get("AutoScalingGroupName"), *(tag.get("ResourceId") for tag in call.params.get("Tags", ()))]
    groups = call.backend_of("autoscaling").autoscaling_groups
    instance_ids = {call.params.get("InstanceId"), *call.params.get("InstanceIds", ())} - {None}
    holding = (name for name, group in groups.items() if instance_ids & {member.instance.id for member in group.instance_states})
    for name in {*filter(None, names)} or set(holding):
        yield build_scaling_group_arn(call, name)


def build_scaling_group_arn(call: Call, name: str) -> str:
    group = call.backend_of("autoscaling").autoscaling_groups.get(name)
    group_id = group.arn.split(":autoScalingGroup:", 1)[1].split(":")[0] if group is not None else "*"
    return build_arn(call, "autoscaling", f"autoScalingGroup:{group_id}:autoScalingGroupName/{name}")


# --- EKS ---------------------------------------------------------------------------------------------------------------


def _find_eks_arns(call: Call, kind: str) -> Iterator[str]:
    params = call.params
    name = params.get("clusterName") or params.get("name")
    if not name:
        return
    cluster = get_state(call.backend_of("eks"), Eks).clusters.get(name)
    if kind == "cluster":
        yield build_arn(call, "eks", f"cluster/{name}")
    elif kind == "nodegroup" and (group := params.get("nodegroupName")):
        record = cluster.node_groups[group].record if cluster and group in cluster.node_groups else {}
        yield record.get("nodegroupArn") or build_arn(call, "eks", f"nodegroup/{name}/{group}/*")
    elif kind == "addon" and (addon := params.get("addonName")):
        record = cluster.addons[addon].record if cluster and addon in cluster.addons else {}
        yield record.get("addonArn") or build_arn(call, "eks", f"addon/{name}/{addon}/*")
    elif kind == "access-entry" and (principal := params.get("principalArn")):
        record = cluster.access_entries[principal].record if cluster and principal in cluster.access_entries else {}
        yield record.get("accessEntryArn") or build_arn(call, "eks", f"access-entry/{name}/*")
    elif kind == "podidentityassociation" and (association := params.get("associationId")):
        yield build_arn(call, "eks", f"podidentityassociation/{name}/{association}")


# --- IAM and STS -------------------------------------------------------------------------------------------------------


def _find_iam_arns(call: Call, kind: str) -> Iterator[str]:
    backend, params = call.backend_of("iam"), call.params
    if source := params.get("PolicySourceArn"):  # this is a parameter of the policy simulator
        yield source if f":{kind}/" in source else ""
    elif kind == "role" and (name := params.get("RoleName")):
        yield build_role_arn(call, name)
    elif kind == "instance-profile" and (name := params.get("InstanceProfileName")):
        entity = next((profile for profile in backend.instance_profiles.values() if profile.name == name), None)
        yield entity.arn if entity else f"arn:aws:iam::{call.account}:instance-profile{params.get('Path', '/')}{name}"
    elif kind == "user":
        name = params.get("UserName")
        entity = backend.users.get(name) if name else None
        own = identity.principal_arn(call)
        yield entity.arn if entity else f"arn:aws:iam::{call.account}:user{params.get('Path', '/')}{name}" if name else own
    elif kind == "policy":
        name = params.get("PolicyName")
        yield params.get("PolicyArn") or (f"arn:aws:iam::{call.account}:policy{params.get('Path', '/')}{name}" if name else "")


def build_role_arn(call: Call, name: str) -> str:
    """Return the ARN of a role, whether it exists or not."""
    roles = backend_of("iam", call.account, call.region).roles.values()
    iam_role = next((candidate for candidate in roles if candidate.name == name), None)
    return str(iam_role.arn) if iam_role else f"arn:aws:iam::{call.account}:role{call.params.get('Path', '/')}{name}"


def _find_sts_arns(call: Call, kind: str) -> Iterator[str]:
    if kind == "role":
        yield call.params.get("RoleArn", "")


# --- storage, keys, logs and parameters --------------------------------------------------------------------------------


def _find_kms_arns(call: Call, kind: str) -> Iterator[str]:
    if kind == "alias":
        named = (call.params.get("AliasName"), call.params.get("KeyId", ""))
        yield from (build_arn(call, "kms", reference) for reference in named if reference and reference.startswith("alias/"))
        return
    for parameter in ("KeyId", "TargetKeyId"):
        if name := call.params.get(parameter):
            yield build_key_arn(call, name)
    if call.operation == "DeleteAlias":
        yield build_key_arn(call, call.params.get("AliasName", ""))


def build_key_arn(call: Call, name: str) -> str:
    """Return the ARN of a KMS key, given its ID, ARN or alias."""
    kms_key = find_key(call, name)
    return str(kms_key.arn) if kms_key is not None else name if name.startswith("arn:") else build_arn(call, "kms", f"key/{name}")


def find_key(call: Call, name: str) -> Any | None:
    backend = call.backend_of("kms")
    try:
        return backend.keys.get(backend.any_id_to_key_id(name))
    except (AttributeError, TypeError):  # the alias does not exist
        return None


def _find_log_group_arns(call: Call, kind: str) -> Iterator[str]:
    name = call.params.get("logGroupName")
    group = build_arn(call, "logs", f"log-group:{name}")
    if name and kind == "log-group":
        yield group
    elif name and kind == "log-stream":
        yield f"{group}:log-stream:{call.params.get('logStreamName', '*')}"


def _find_efs_arns(call: Call, kind: str) -> Iterator[str]:
    params, backend = call.params, call.backend_of("efs")
    resource_id = params.get("ResourceId", "")
    if kind == "access-point" and (
        name := params.get("AccessPointId") or (resource_id if resource_id.startswith("fsap-") else "")
    ):
        yield build_arn(call, "elasticfilesystem", f"access-point/{name.rsplit('/', 1)[-1]}")
    elif kind == "file-system":
        target = backend.mount_targets_by_id.get(params.get("MountTargetId", ""))
        name = params.get("FileSystemId") or (target.file_system_id if target else "")
        name = name or (resource_id if resource_id.startswith("fs-") else "")
        if name:
            yield build_arn(call, "elasticfilesystem", f"file-system/{name.rsplit('/', 1)[-1]}")


def _find_fsx_arns(call: Call, kind: str) -> Iterator[str]:
    """https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonfsx.html"""
    params = call.params
    name = params.get("FileSystemId")
    resource_arn = params.get("ResourceARN", "")
    if kind == "file-system":
        if call.operation == "CreateFileSystem":
            yield build_arn(call, "fsx", "file-system/*")
        elif name or ":file-system/" in resource_arn:
            yield resource_arn or build_arn(call, "fsx", f"file-system/{name}")
    elif kind == "association":
        if call.operation == "CreateDataRepositoryAssociation":
            yield build_arn(call, "fsx", f"association/{name}/*")
        elif ":association/" in resource_arn:
            yield resource_arn
        elif association := params.get("AssociationId"):
            yield build_arn(call, "fsx", f"association/*/{association}")


def _find_ecr_arns(call: Call, kind: str) -> Iterator[str]:
    for name in (call.params.get("repositoryName"), *call.params.get("repositoryNames", ())):
        if name:
            yield build_arn(call, "ecr", f"repository/{name}")


def _find_ssm_arns(call: Call, kind: str) -> Iterator[str]:
    params = call.params
    if kind == "parameter":
        names = [params.get("Name"), params.get("Path"), *params.get("Names", ())]
        for name in filter(None, names):
            # Public parameters belong to AWS and have no account: https://docs.aws.amazon.com/systems-manager/latest/
            # userguide/parameter-store-public-parameters.html
            owner = "" if name.startswith("/aws/service/") else call.account
            yield f"arn:aws:ssm:{call.region}:{owner}:parameter/{name.strip('/')}"
    elif kind == "instance" and (target := params.get("Target")):
        yield build_arn(call, "ec2", f"instance/{target}")
    elif kind == "document" and call.operation == "StartSession":
        document = params.get("DocumentName", "SSM-SessionManagerRunShell")
        owner = "" if document.startswith("AWS-") else call.account
        yield f"arn:aws:ssm:{call.region}:{owner}:document/{document}"
    elif kind == "session" and (session := params.get("SessionId")):
        yield build_arn(call, "ssm", f"session/{session}")


_FINDERS: dict[str, Callable[[Call, str], Iterator[str]]] = {
    "autoscaling": _find_scaling_group_arns,
    "ec2": _find_ec2_arns,
    "ecr": _find_ecr_arns,
    "eks": _find_eks_arns,
    "elasticfilesystem": _find_efs_arns,
    "fsx": _find_fsx_arns,
    "iam": _find_iam_arns,
    "kms": _find_kms_arns,
    "logs": _find_log_group_arns,
    "ssm": _find_ssm_arns,
    "sts": _find_sts_arns,
}
