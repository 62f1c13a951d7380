"""Queries about an existing EFS file system and the security groups of its mount targets."""

from collections.abc import Mapping
from typing import Final

from infra.facts.clients import Clients
from infra.facts.model import FileSystem
from infra.facts.security_groups import sources

NFS: Final = 2049

Admitted = Mapping[str, Mapping[str, frozenset[str]]]
"""Zone -> security group -> sources from which the group allows NFS traffic."""


def file_system(clients: Clients, file_system_id: str) -> FileSystem | None:
    try:
        found = clients.efs.describe_file_systems(FileSystemId=file_system_id)["FileSystems"]
    except (clients.efs.exceptions.FileSystemNotFound, clients.efs.exceptions.BadRequest):
        return None
    targets = clients.efs.describe_mount_targets(FileSystemId=file_system_id)["MountTargets"]
    return FileSystem(
        id=file_system_id,
        state=found[0]["LifeCycleState"],
        mount_targets={target["AvailabilityZoneName"]: target["VpcId"] for target in targets},
    )


def admitted(clients: Clients, file_system_id: str) -> Admitted:
    """Return the sources from which the security groups of the file system's mount targets allow NFS traffic."""
    try:
        targets = clients.efs.describe_mount_targets(FileSystemId=file_system_id)["MountTargets"]
    except (clients.efs.exceptions.FileSystemNotFound, clients.efs.exceptions.BadRequest):
        return {}
    groups = {
        target["AvailabilityZoneName"]: clients.efs.describe_mount_target_security_groups(MountTargetId=target["MountTargetId"])[
            "SecurityGroups"
        ]
        for target in targets
    }
    ids = sorted({one for found in groups.values() for one in found})
    described = clients.ec2.describe_security_groups(GroupIds=ids)["SecurityGroups"] if ids else []
    admitted_by = {one["GroupId"]: sources(one["IpPermissions"], NFS) for one in described}
    return {zone: {one: admitted_by[one] for one in sorted(found)} for zone, found in groups.items()}


def nodes_groups(clients: Clients, *, nodes: Mapping[str, str], cluster: str) -> frozenset[str]:
    """Return the security groups of a stack's nodes: the one tagged `nodes`, and the one that EKS creates for the
    cluster and attaches to its nodes.
    """
    wanted = [nodes, {"aws:eks:cluster-name": cluster}]
    found: set[str] = set()
    for tags in wanted:
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
        found.update(one["GroupId"] for one in clients.ec2.describe_security_groups(Filters=filters)["SecurityGroups"])
    return frozenset(found)
