"""Queries about an existing EFS file system."""

from infra.facts.clients import Clients
from infra.facts.model import FileSystem


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
