"""Resolve Lustre mounts: to the directory that the client sees, or to the error that `mount.lustre` reports.

https://docs.aws.amazon.com/fsx/latest/LustreGuide/mount-troubleshooting.html
"""

import re
from pathlib import Path
from typing import Any

from localcloud.aws.account import ACCOUNT
from localcloud.aws.call import backend_of
from localcloud.aws.control_actions import action
from localcloud.aws.ec2 import instance_calls
from localcloud.aws.efs import contents
from localcloud.aws.efs.mounting import MountRefused, can_connect
from localcloud.aws.fsx.network import LUSTRE_PORT
from localcloud.aws.fsx.states import FileSystem

_SOURCE = re.compile(r"(?P<id>fs-\w+)\.fsx\.(?P<region>[a-z0-9-]+)\.amazonaws\.com@tcp:/(?P<name>\w+)(?P<path>(/[^/]+)*)/?")


@action("POST", "fsx/mounts")
def _mount(body: Any) -> Any:
    try:
        return {"folder": str(mount(**body)), "readOnly": False}
    except MountRefused as refused:
        return {"error": str(refused)}


def mount(region: str, instance: str, source: str) -> Path:
    """Return the folder on this machine in which the mounted directory is stored. Raise MountRefused if the mount
    fails.
    """
    ec2 = backend_of("ec2", ACCOUNT, region)
    client = next((candidate for candidate in instance_calls.list_instances(ec2) if candidate.id == instance), None)
    if client is None:
        raise MountRefused(f"instance {instance} does not exist")
    parsed = _SOURCE.fullmatch(source)
    file_system = backend_of("fsx", ACCOUNT, region).file_systems.get(parsed["id"]) if parsed else None
    if parsed is None or not isinstance(file_system, FileSystem) or parsed["region"] != region:
        raise MountRefused(f"mount.lustre: Can't parse NID '{source}': the name does not resolve to a file system")
    if file_system.lifecycle not in ("AVAILABLE", "UPDATING"):
        raise MountRefused(f"mount.lustre: mount {source} failed: Input/output error: the file system is {file_system.lifecycle}")
    _check_network_access(ec2, file_system, client, source)
    folder = (
        contents.find_directory(file_system.file_system_id, parsed["path"] or "/")
        if _is_mount_name(file_system, parsed["name"])
        else None
    )
    if folder is None:
        reason = "No such file or directory. Is the MGS specification correct? Is the filesystem name correct?"
        raise MountRefused(f"mount.lustre: mount {source} failed: {reason}")
    return folder


def _is_mount_name(file_system: FileSystem, name: str) -> bool:
    return str(file_system.lustre["MountName"]) == name


def _check_network_access(ec2: Any, file_system: FileSystem, client: Any, source: str) -> None:
    groups = [group.id for group in ec2.get_network_interface(file_system.record["NetworkInterfaceIds"][0]).group_set]
    failed = f"mount.lustre: mount {source} failed: Input/output error. Is the MGS running?"
    if client.vpc_id != file_system.record["VpcId"]:
        raise MountRefused(f"{failed} The file system is in {file_system.record['VpcId']}, and the client is in {client.vpc_id}")
    if not can_connect(ec2, groups, client, LUSTRE_PORT):
        closed = f"No security group of the file system ({', '.join(groups)}) allows ingress from the client on TCP {LUSTRE_PORT}"
        raise MountRefused(f"{failed} {closed}")
