"""FSx file systems: https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html and related
operations.
"""

import secrets
from collections.abc import Mapping
from typing import Any

from localcloud.aws import durations
from localcloud.aws.call import Call
from localcloud.aws.efs import contents
from localcloud.aws.fsx import capacity, network, repository
from localcloud.aws.fsx.states import (
    FileSystem,
    Record,
    build_bad_request_error,
    build_not_emulated_error,
    check_all_emulated,
    find_file_system,
    get_associations,
    list_tags,
    now,
)
from localcloud.aws.kms_keys import find_enabled_key_arn
from localcloud.aws.patching import operation

_CREATE = frozenset(
    {
        *("ClientRequestToken", "FileSystemType", "StorageCapacity", "StorageType", "SubnetIds", "SecurityGroupIds", "Tags"),
        *("KmsKeyId", "LustreConfiguration", "FileSystemTypeVersion"),
    }
)
_LUSTRE = frozenset(
    {
        *("DeploymentType", "PerUnitStorageThroughput", "DataCompressionType", "WeeklyMaintenanceStartTime"),
        *("CopyTagsToBackups", "AutomaticBackupRetentionDays"),
    }
)
_UPDATE = frozenset({"ClientRequestToken", "FileSystemId", "StorageCapacity", "LustreConfiguration", "FileSystemTypeVersion"})
_GROWTH_PAUSE_SECONDS = 6 * 3600.0
"""https://docs.aws.amazon.com/fsx/latest/LustreGuide/increase-storage-capacity.html"""


@operation("fsx", "CreateFileSystem")
def _create_file_system(call: Call) -> Record:
    params, lustre = call.params, call.params.get("LustreConfiguration", {})
    token = params.get("ClientRequestToken", "")
    for existing in call.backend.file_systems.values():
        if token and getattr(existing, "token", None) == token:
            return {"FileSystem": existing.describe(list_tags(call, existing.resource_arn))}
    _check_params(params, lustre)
    key = _choose_key_arn(call, lustre["DeploymentType"])
    subnet = network.find_subnet(call, params.get("SubnetIds", ()))
    groups = network.find_security_groups(call, subnet, params.get("SecurityGroupIds", ()))
    name = f"fs-{secrets.token_hex(9)[1:]}"
    interfaces = network.create_interfaces(
        call.backend_of("ec2"), subnet, groups, capacity.count_network_interfaces(params["StorageCapacity"]), name
    )
    created = FileSystem(name, f"arn:aws:fsx:{call.region}:{call.account}:file-system/{name}", {}, token)
    created.record = _build_record(call, created, subnet, interfaces, key)
    call.backend.file_systems[name] = created
    if params.get("Tags"):
        call.backend.tagger.tag_resource(created.resource_arn, params["Tags"])
    durations.schedule(created, "lifecycle", "CREATING", "AVAILABLE", "fsx-file-system")
    return {"FileSystem": created.describe(list_tags(call, created.resource_arn))}


def _check_params(params: Mapping[str, Any], lustre: Mapping[str, Any]) -> None:
    if params.get("FileSystemType") != "LUSTRE":
        raise build_not_emulated_error(f"the file system type {params.get('FileSystemType')}")
    check_all_emulated(params, _CREATE)
    check_all_emulated(lustre, _LUSTRE)
    if params.get("StorageType", "SSD") != "SSD":
        raise build_not_emulated_error(f"the storage type {params['StorageType']}")
    if lustre.get("AutomaticBackupRetentionDays"):
        raise build_not_emulated_error("automatic backups")
    capacity.check_new_file_system(params.get("StorageCapacity"), lustre, params.get("FileSystemTypeVersion"))
    if lustre["DeploymentType"] == "SCRATCH_2" and "KmsKeyId" in params:
        raise build_bad_request_error("KmsKeyId is only supported for PERSISTENT_1 and PERSISTENT_2 file systems.")


def _build_record(call: Call, created: FileSystem, subnet: Any, interfaces: list[str], key: str | None) -> Record:
    params, configuration = call.params, call.params["LustreConfiguration"]
    deployment = configuration["DeploymentType"]
    persistent = deployment == "PERSISTENT_2"
    lustre = {
        "WeeklyMaintenanceStartTime": "7:05:00",
        "DataCompressionType": "NONE",
        "CopyTagsToBackups": False,
        "EfaEnabled": False,
        **({"AutomaticBackupRetentionDays": 0} if persistent else {}),
        **configuration,
        "MountName": secrets.token_hex(4),
    }
    return {
        "OwnerId": call.account,
        "CreationTime": now(),
        "FileSystemId": created.file_system_id,
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": params.get("FileSystemTypeVersion") or capacity.get_default_version(deployment),
        "StorageCapacity": params["StorageCapacity"],
        "StorageType": "SSD",
        "VpcId": subnet.vpc_id,
        "SubnetIds": [subnet.id],
        "NetworkInterfaceIds": interfaces,
        "DNSName": f"{created.file_system_id}.fsx.{call.region}.amazonaws.com",
        "ResourceARN": created.resource_arn,
        "LustreConfiguration": lustre,
        **({"KmsKeyId": key} if key else {}),
    }


@operation("fsx", "DescribeFileSystems")
def _describe_file_systems(call: Call) -> Record:
    ids = call.params.get("FileSystemIds")
    every = [file_system for file_system in call.backend.file_systems.values() if isinstance(file_system, FileSystem)]
    selected = [find_file_system(call, name) for name in ids] if ids else every
    return {"FileSystems": [file_system.describe(list_tags(call, file_system.resource_arn)) for file_system in selected]}


@operation("fsx", "UpdateFileSystem")
def _update_file_system(call: Call) -> Record:
    """https://docs.aws.amazon.com/fsx/latest/APIReference/API_UpdateFileSystem.html"""
    params, changes = call.params, call.params.get("LustreConfiguration", {})
    file_system = find_file_system(call, params["FileSystemId"], ready=True)
    check_all_emulated(params, _UPDATE)
    check_all_emulated(changes, _LUSTRE - {"DeploymentType", "CopyTagsToBackups"})
    if changes.get("AutomaticBackupRetentionDays"):
        raise build_not_emulated_error("automatic backups")
    if (throughput := changes.get("PerUnitStorageThroughput")) is not None:
        if file_system.lustre["DeploymentType"] != "PERSISTENT_2":
            raise build_bad_request_error("PerUnitStorageThroughput cannot be updated for scratch file systems.")
        capacity.check_throughput(throughput)
    if (size := params.get("StorageCapacity")) is not None:
        _increase_storage(file_system, size)
    if (version := params.get("FileSystemTypeVersion")) is not None:
        capacity.check_upgrade(file_system.record["FileSystemTypeVersion"], version)
        file_system.record["FileSystemTypeVersion"] = version
    file_system.lustre.update(changes)
    action = {"AdministrativeActionType": "FILE_SYSTEM_UPDATE", "RequestTime": now(), "Status": "IN_PROGRESS"}
    file_system.record["AdministrativeActions"] = [action]
    durations.schedule(action, "Status", "IN_PROGRESS", "COMPLETED", "fsx-file-system-update")
    durations.schedule(file_system, "lifecycle", "UPDATING", "AVAILABLE", "fsx-file-system-update")
    return {"FileSystem": file_system.describe(list_tags(call, file_system.resource_arn))}


def _increase_storage(file_system: FileSystem, size: int) -> None:
    capacity.check_size_increase(file_system.record["StorageCapacity"], size)
    moment = durations.get_current_time()
    if file_system.grown is not None and moment < file_system.grown + durations.compute_scaled_seconds(_GROWTH_PAUSE_SECONDS):
        raise build_bad_request_error("The storage capacity was increased less than 6 hours ago. Increase it again later.")
    file_system.grown, file_system.record["StorageCapacity"] = moment, size


@operation("fsx", "DeleteFileSystem")
def _delete_file_system(call: Call) -> Record:
    """https://docs.aws.amazon.com/fsx/latest/APIReference/API_DeleteFileSystem.html"""
    file_system = find_file_system(call, call.params["FileSystemId"])
    name = file_system.file_system_id
    if file_system.lifecycle == "CREATING":
        raise build_bad_request_error(f"File system '{name}' is CREATING and cannot be deleted yet.")
    skips = call.params.get("LustreConfiguration", {}).get("SkipFinalBackup")
    if file_system.lustre["DeploymentType"] == "PERSISTENT_2" and not skips:
        raise build_not_emulated_error("the final backup")

    def remove_file_system() -> None:
        linked = get_associations(call.backend)
        for association in [candidate for candidate in linked.values() if candidate.file_system is file_system]:
            repository.unlink_directory(association)
            del linked[association.association_id]
        network.delete_interfaces(call, file_system.record["NetworkInterfaceIds"])
        del call.backend.file_systems[name]
        call.backend.tagger.delete_all_tags_for_resource(file_system.resource_arn)
        contents.remove_files(name)

    failed = durations.make_failure_handler(file_system, "lifecycle", "FAILED")
    durations.schedule(
        file_system, "lifecycle", "DELETING", "DELETED", "fsx-file-system-delete", then=remove_file_system, fail=failed
    )
    return {"FileSystemId": name, "Lifecycle": "DELETING", "LustreResponse": {}}


def _choose_key_arn(call: Call, deployment: str) -> str | None:
    """Return the ARN of the requested encryption key or of FSx's AWS managed key; None for scratch file systems."""
    if deployment == "SCRATCH_2":
        return None
    return find_enabled_key_arn(call, "alias/aws/fsx", build_bad_request_error)
