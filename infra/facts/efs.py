"""Queries about an existing EFS file system and the security groups of its mount targets."""

from collections.abc import Mapping
from typing import Final

from infra.facts.clients import Clients
from infra.facts.model import FileSystem
from infra.facts.security_groups import read_ingress_sources

NFS: Final = 2049

Admitted = Mapping[str, Mapping[str, frozenset[str]]]
"""Zone -> security group -> sources from which the group allows NFS traffic."""


def read_file_system(clients: Clients, file_system_id: str) -> FileSystem | None:
    try:
        described = clients.efs.describe_file_systems(FileSystemId=file_system_id)["FileSystems"]
    except (clients.efs.exceptions.FileSystemNotFound, clients.efs.exceptions.BadRequest):
        return None
    targets = clients.efs.describe_mount_targets(FileSystemId=file_system_id)["MountTargets"]
    return FileSystem(
        id=file_system_id,
        state=described[0]["LifeCycleState"],
        mount_targets={target["AvailabilityZoneName"]: target["VpcId"] for target in targets},
    )


def read_admitted_sources(clients: Clients, file_system_id: str) -> Admitted:
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
    sources = read_ingress_sources(clients, {group for of_zone in groups.values() for group in of_zone}, NFS)
    return {zone: {group: sources[group] for group in sorted(of_zone)} for zone, of_zone in groups.items()}
