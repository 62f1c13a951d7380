"""Access points: https://docs.aws.amazon.com/efs/latest/ug/API_CreateAccessPoint.html and related operations."""

import re
from typing import Any

from localcloud.aws import durations
from localcloud.aws.call import Call
from localcloud.aws.efs.states import build_bad_request_error, build_efs_error, delete_tags, find_file_system
from localcloud.aws.patching import operation

_PATH = re.compile(r"/|(/[^$#<>;`|&?{}^*/\n]+){1,4}")
_PERMISSIONS = re.compile(r"[0-7]{3,4}")


@operation("efs", "CreateAccessPoint")
def _create_access_point(call: Call) -> dict[str, Any]:
    find_file_system(call, ready=True)
    for existing in call.backend.access_points.values():
        if existing.client_token == call.params["ClientToken"]:
            message = f"Access point '{existing.access_point_id}' already exists with client token '{existing.client_token}'"
            raise build_efs_error("AccessPointAlreadyExists", message, AccessPointId=existing.access_point_id)
    _check_root_directory(call.params.get("RootDirectory", {}))
    answer = call.moto()
    created = call.backend.access_points[answer["AccessPointId"]]
    durations.schedule(created, "life_cycle_state", "creating", "available", "efs-access-point")
    return {**answer, "LifeCycleState": created.life_cycle_state}


@operation("efs", "DescribeAccessPoints")
def _describe_access_points(call: Call) -> dict[str, Any]:
    if "FileSystemId" in call.params:
        find_file_system(call)
    answer = call.moto()
    for point in answer["AccessPoints"]:
        point["LifeCycleState"] = call.backend.access_points[point["AccessPointId"]].life_cycle_state
    return answer


@operation("efs", "DeleteAccessPoint")
def _delete_access_point(call: Call) -> None:
    name = call.params["AccessPointId"]
    access_point = call.backend.access_points.get(name)
    if access_point is None:
        raise build_efs_error("AccessPointNotFound", f"Access Point {name} does not exist.")

    def remove_access_point() -> None:
        call.backend.delete_access_point(name)
        delete_tags(call, name)

    failed = durations.make_failure_handler(access_point, "life_cycle_state", "error")
    durations.schedule(
        access_point, "life_cycle_state", "deleting", "deleted", "efs-access-point", then=remove_access_point, fail=failed
    )


def _check_root_directory(root: dict[str, Any]) -> None:
    """https://docs.aws.amazon.com/efs/latest/ug/API_RootDirectory.html"""
    path = root.get("Path", "/")
    if not _PATH.fullmatch(path) or len(path) > 100:
        raise build_bad_request_error(f"The path '{path}' must be absolute, with at most four levels and 100 characters.")
    creation = root.get("CreationInfo")
    if creation is not None and not _PERMISSIONS.fullmatch(creation.get("Permissions", "")):
        raise build_bad_request_error(f"The permissions '{creation.get('Permissions')}' must be an octal number such as 0755.")
