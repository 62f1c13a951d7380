"""Shared code for EFS resources: errors, lookup and tag cleanup."""

from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError


def build_efs_error(code: str, message: str, **members: Any) -> AwsError:
    """Return an EFS error, which repeats its code in the member ErrorCode."""
    return AwsError(code, message, ErrorCode=code, **members)


def build_bad_request_error(message: str) -> AwsError:
    return build_efs_error("BadRequest", message)


def find_file_system(call: Call, ready: bool = False) -> Any:
    """Return the file system to which the call refers. With `ready`, raise an error if the file system is being created
    or deleted."""
    name = call.params["FileSystemId"].rsplit("/", 1)[-1]
    file_system = call.backend.file_systems_by_id.get(name)
    if file_system is None:
        raise build_efs_error("FileSystemNotFound", f"File system '{name}' does not exist.")
    if ready and file_system.life_cycle_state != "available":
        raise build_efs_error("IncorrectFileSystemLifeCycleState", f"File system '{name}' is {file_system.life_cycle_state}.")
    return file_system


def delete_tags(call: Call, resource_id: str) -> None:
    """Drop the tags of a deleted resource, because moto would keep them."""
    call.backend.tagging_service.delete_all_tags_for_resource(resource_id)
