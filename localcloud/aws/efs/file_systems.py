"""File systems: https://docs.aws.amazon.com/efs/latest/ug/API_CreateFileSystem.html and related operations."""

from typing import Any

from localcloud.aws import durations
from localcloud.aws.call import Call
from localcloud.aws.efs import contents
from localcloud.aws.efs.states import build_bad_request_error, build_efs_error, delete_tags, find_file_system
from localcloud.aws.kms_keys import find_enabled_key_arn
from localcloud.aws.patching import operation

_PROVISIONED_MIBPS = (1.0, 3414.0)


@operation("efs", "CreateFileSystem")
def _create_file_system(call: Call) -> dict[str, Any]:
    params = call.params
    for existing in call.backend.file_systems_by_id.values():
        if existing.creation_token == params["CreationToken"]:
            message = f"File system '{existing.file_system_id}' already exists with creation token '{existing.creation_token}'"
            raise build_efs_error("FileSystemAlreadyExists", message, FileSystemId=existing.file_system_id)
    mode = params.get("ThroughputMode", "bursting")
    _check_throughput(mode, params.get("ProvisionedThroughputInMibps"), params.get("PerformanceMode", "generalPurpose"))
    key = find_enabled_key_arn(call, "alias/aws/elasticfilesystem", build_bad_request_error) if params.get("Encrypted") else None
    if key is None and params.get("KmsKeyId"):
        raise build_bad_request_error("KmsKeyId can only be specified when Encrypted is set to true.")
    if zone := params.get("AvailabilityZoneName"):
        _check_one_zone_type(call, zone)
    created = call.backend.file_systems_by_id[call.moto()["FileSystemId"]]
    created.kms_key_id = key
    created.file_system_protection = {"ReplicationOverwriteProtection": "ENABLED"}
    durations.schedule(created, "life_cycle_state", "creating", "available", "efs-file-system")
    return _describe(created)


@operation("efs", "UpdateFileSystem")
def _update_file_system(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/efs/latest/ug/API_UpdateFileSystem.html"""
    file_system = find_file_system(call, ready=True)
    mode = call.params.get("ThroughputMode", file_system.throughput_mode)
    provisioned = call.params.get("ProvisionedThroughputInMibps")
    if mode == "provisioned" and provisioned is None and file_system.throughput_mode == "provisioned":
        provisioned = file_system.provisioned_throughput_in_mibps
    _check_throughput(mode, provisioned, file_system.performance_mode)
    file_system.throughput_mode = mode
    file_system.provisioned_throughput_in_mibps = provisioned
    durations.schedule(file_system, "life_cycle_state", "updating", "available", "efs-file-system-update")
    return _describe(file_system)


@operation("efs", "UpdateFileSystemProtection")
def _update_file_system_protection(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/efs/latest/ug/API_UpdateFileSystemProtection.html"""
    file_system = find_file_system(call, ready=True)
    status = call.params.get("ReplicationOverwriteProtection", "ENABLED")
    if status not in ("ENABLED", "DISABLED"):
        raise build_efs_error(
            "ValidationException", f"Value '{status}' at 'replicationOverwriteProtection' must be ENABLED or DISABLED"
        )
    file_system.file_system_protection = {"ReplicationOverwriteProtection": status}
    return dict(file_system.file_system_protection)


@operation("efs", "DescribeReplicationConfigurations")
def _describe_replication_configurations(call: Call) -> dict[str, Any]:
    """Report that no file system is replicated, because the local AWS has no replication.

    https://docs.aws.amazon.com/efs/latest/ug/API_DescribeReplicationConfigurations.html
    """
    if "FileSystemId" not in call.params:
        return {"Replications": []}
    find_file_system(call)
    raise build_efs_error(
        "ReplicationNotFound", f"No replication configuration exists for file system '{call.params['FileSystemId']}'."
    )


@operation("efs", "DeleteFileSystem")
def _delete_file_system(call: Call) -> None:
    """https://docs.aws.amazon.com/efs/latest/ug/API_DeleteFileSystem.html"""
    file_system = find_file_system(call)
    if file_system.number_of_mount_targets:
        raise build_efs_error("FileSystemInUse", "Must delete all mount targets before deleting file system.")

    def remove_file_system() -> None:
        backend = call.backend
        for point in [p for p in backend.access_points.values() if p.file_system_id == file_system.file_system_id]:
            backend.delete_access_point(point.access_point_id)
            delete_tags(call, point.access_point_id)
        backend.delete_file_system(file_system.file_system_id)
        delete_tags(call, file_system.file_system_id)
        contents.remove_files(file_system.file_system_id)

    failed = durations.make_failure_handler(file_system, "life_cycle_state", "error")
    durations.schedule(
        file_system, "life_cycle_state", "deleting", "deleted", "efs-file-system-delete", then=remove_file_system, fail=failed
    )


def _describe(file_system: Any) -> dict[str, Any]:
    described: dict[str, Any] = file_system.info_json()
    return described


def _check_throughput(mode: str, provisioned: float | None, performance_mode: str) -> None:
    if mode not in ("bursting", "provisioned", "elastic"):
        raise build_efs_error(
            "ValidationException", f"Value '{mode}' at 'throughputMode' must be one of bursting, provisioned, elastic"
        )
    if performance_mode not in ("generalPurpose", "maxIO"):
        raise build_efs_error(
            "ValidationException", f"Value '{performance_mode}' at 'performanceMode' must be generalPurpose or maxIO"
        )
    if mode == "elastic" and performance_mode == "maxIO":
        raise build_bad_request_error("Elastic throughput mode is not supported with maxIO performance mode.")
    if mode != "provisioned" and provisioned is not None:
        raise build_bad_request_error("ProvisionedThroughputInMibps can only be specified with ThroughputMode provisioned.")
    if mode == "provisioned":
        least, most = _PROVISIONED_MIBPS
        if provisioned is None:
            raise build_bad_request_error("ProvisionedThroughputInMibps is required with ThroughputMode provisioned.")
        if not least <= provisioned <= most:
            raise build_bad_request_error(f"ProvisionedThroughputInMibps must be between {least:g} and {most:g}.")


def _check_one_zone_type(call: Call, zone: str) -> None:
    if call.params.get("PerformanceMode") == "maxIO":
        raise build_bad_request_error("One Zone file systems do not support maxIO performance mode.")
    names = {known_zone.name for known_zone in call.backend_of("ec2").describe_availability_zones()}
    if zone not in names:
        raise build_bad_request_error(f"Availability zone '{zone}' does not exist in {call.region}.")
