"""EFS mounts: the directory that a client sees, or the error that NFS or the EFS mount helper reports.

https://docs.aws.amazon.com/efs/latest/ug/mounting-fs.html, .../troubleshooting-efs-mounting.html
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcloud.aws.account import ACCOUNT
from localcloud.aws.call import backend_of
from localcloud.aws.control_actions import action
from localcloud.aws.ec2 import instance_calls
from localcloud.aws.efs import contents
from localcloud.aws.policy_evaluation import Request, allows, parse_document

NFS_PORT = 2049
_DENIED = "mount.nfs4: access denied by server while mounting 127.0.0.1:/"


class MountRefused(Exception):
    """A mount was refused. The message gives the reason."""


@dataclass(frozen=True)
class Mounted:
    folder: Path
    read_only: bool


@action("POST", "efs/mounts")
def _mount(body: Any) -> Any:
    try:
        mounted = mount(**body)
    except MountRefused as refused:
        return {"error": str(refused)}
    return {"folder": str(mounted.folder), "readOnly": mounted.read_only}


def mount(
    region: str, instance: str, fileSystem: str, accessPoint: str | None = None, path: str = "/", encrypted: bool = True
) -> Mounted:
    """Mount a file system, or its folder `path`, on an instance, optionally through an access point. Raises MountRefused."""
    efs, ec2 = backend_of("efs", ACCOUNT, region), backend_of("ec2", ACCOUNT, region)
    client = next((candidate for candidate in instance_calls.list_instances(ec2) if candidate.id == instance), None)
    if client is None:
        raise MountRefused(f"instance {instance} does not exist")
    file_system = efs.file_systems_by_id.get(fileSystem)
    if file_system is None:
        raise MountRefused(f"file system {fileSystem} does not exist")
    if file_system.life_cycle_state not in ("available", "updating"):
        raise MountRefused(f"file system {fileSystem} is {file_system.life_cycle_state}")
    _check_mount_target(efs, ec2, file_system, client)
    point = _find_access_point(efs, file_system, accessPoint) if accessPoint else None
    read_only = _check_policy(file_system, point, encrypted)
    return Mounted(_find_mount_folder(file_system, point, path), read_only)


def _check_mount_target(efs: Any, ec2: Any, file_system: Any, client: Any) -> None:
    """Check that the client can resolve fs-....efs.<region>.amazonaws.com and reach the mount target in its zone."""
    name, zone = file_system.file_system_id, client.placement.zone
    targets = [target for target in efs.mount_targets_by_id.values() if target.file_system_id == name]
    here = [target for target in targets if target.availability_zone_name == zone and target.vpc_id == client.vpc_id]
    ready = [target for target in here if target.life_cycle_state == "available"]
    if not ready:
        if here:
            reason = f"the mount target of file system {name} in {zone} is {here[0].life_cycle_state}, not available"
        else:
            zones = _format_zones(targets)
            reason = f"file system {name} has no mount target in {zone} of the node's VPC; its mount targets are in {zones}"
        raise MountRefused(f"Failed to resolve {name}.efs.{ec2.region_name}.amazonaws.com: {reason}")
    if not can_connect(ec2, ready[0].security_groups, client, NFS_PORT):
        raise MountRefused(
            f"mount.nfs4: Connection timed out: no security group of mount target {ready[0].mount_target_id} "
            f"({', '.join(ready[0].security_groups)}) allows the node to connect to TCP port {NFS_PORT}"
        )


def _format_zones(targets: list[Any]) -> str:
    return ", ".join(sorted({mount_target.availability_zone_name for mount_target in targets})) or "no zone"


def can_connect(ec2: Any, security_groups: Sequence[str], client: Any, port: int) -> bool:
    """Return whether the security groups allow the client to connect to the TCP port."""
    groups = {group.id for interface in client.nics.values() for group in interface.group_set}
    for rule in (rule for name in security_groups for rule in ec2.get_security_group_from_id(name).ingress_rules):
        covers_port = rule.ip_protocol == "-1" or (
            rule.ip_protocol in ("tcp", "6") and int(rule.from_port) <= port <= int(rule.to_port)
        )
        from_address = (rule.ip_range or {}).get("CidrIp")
        if covers_port and (
            (rule.source_group or {}).get("GroupId") in groups
            or (from_address and ipaddress.ip_address(client.private_ip) in ipaddress.ip_network(from_address, strict=False))
        ):
            return True
    return False


def _find_access_point(efs: Any, file_system: Any, name: str) -> Any:
    point = efs.access_points.get(name)
    if point is None:
        raise MountRefused(f"{_DENIED}: access point {name} does not exist")
    if point.file_system_id != file_system.file_system_id:
        raise MountRefused(
            f"{_DENIED}: access point {name} belongs to file system {point.file_system_id}, not to {file_system.file_system_id}"
        )
    if getattr(point, "life_cycle_state", "available") != "available":
        raise MountRefused(f"{_DENIED}: access point {name} is {point.life_cycle_state}")
    return point


def _check_policy(file_system: Any, point: Any | None, encrypted: bool) -> bool:
    """Return whether the client has read-only access. Raise MountRefused if the policy denies the mount.

    https://docs.aws.amazon.com/efs/latest/ug/iam-access-control-nfs-efs.html
    """
    if not file_system.file_system_policy:
        return False
    policy = parse_document(file_system.file_system_policy)
    context = {"aws:securetransport": str(encrypted).lower(), "elasticfilesystem:accessedviamounttarget": "true"}
    if point is not None:
        context["elasticfilesystem:accesspointarn"] = point.access_point_arn

    def is_action_allowed(what: str) -> bool:
        return allows(Request(f"elasticfilesystem:Client{what}", file_system.file_system_arn, context), policy)

    if not is_action_allowed("Mount"):
        how = "with" if encrypted else "without"
        raise MountRefused(f"{_DENIED}: the policy of file system {file_system.file_system_id} denies clients {how} TLS")
    return not is_action_allowed("Write")


def _find_mount_folder(file_system: Any, point: Any | None, path: str) -> Path:
    name = file_system.file_system_id
    if point is not None:
        directory, path = contents.get_access_point_root(point), point.root_directory.get("Path", "/")
    else:
        directory = contents.find_directory(name, path)
    if directory is None:
        raise MountRefused(
            f"mount.nfs4: mounting 127.0.0.1:/ failed, reason given by server: No such file or directory: "
            f"file system {name} has no {path}"
        )
    return directory
