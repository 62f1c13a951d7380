"""EFS."""

import json
from typing import Any

from tests.engine.cases.case import Case, make_constant, property_names
from tests.engine.world import World


def _build_policy(sid: str) -> str:
    statement = {
        "Sid": sid,
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": "*",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _build_file_system_inputs(world: World) -> dict[str, Any]:
    zone = world.client("ec2").describe_availability_zones()["AvailabilityZones"][0]["ZoneName"]
    return {
        "creationToken": world.name("home"),
        "availabilityZoneName": zone,
        "encrypted": True,
        "kmsKeyId": world.key,
        "lifecyclePolicies": [{"transitionToIa": "AFTER_30_DAYS"}, {"transitionToPrimaryStorageClass": "AFTER_1_ACCESS"}],
        "performanceMode": "generalPurpose",
        "protection": {"replicationOverwrite": "ENABLED"},
        "provisionedThroughputInMibps": 64,
        "throughputMode": "provisioned",
        "tags": {"Name": "shared"},
    }


def _build_archive_inputs(world: World) -> dict[str, Any]:
    days = [{"transitionToIa": "AFTER_7_DAYS"}, {"transitionToArchive": "AFTER_90_DAYS"}]
    return {"creationToken": world.name("archive"), "throughputMode": "elastic", "lifecyclePolicies": days}


CASES = [
    Case(
        "aws:efs/fileSystem:FileSystem",
        make_inputs=_build_file_system_inputs,
        needed=property_names(),
        instead=(_build_archive_inputs,),
        updates={
            "lifecyclePolicies": make_constant([{"transitionToIa": "AFTER_7_DAYS"}]),
            "protection": make_constant({"replicationOverwrite": "DISABLED"}),
            "provisionedThroughputInMibps": make_constant(128),
            "tags": make_constant({"Name": "other"}),
        },
        removals=property_names("lifecyclePolicies", "tags"),
        replaces={
            "creationToken": make_constant("other"),
            "availabilityZoneName": make_constant("us-west-2c"),
            "encrypted": make_constant(False),
            "kmsKeyId": lambda world: world.second_key,
            "performanceMode": make_constant("maxIO"),
        },
        drift=lambda world, id: world.client("efs").put_lifecycle_configuration(FileSystemId=id, LifecyclePolicies=[]),
        drifted=property_names("lifecyclePolicies"),
    ),
    Case(
        "aws:efs/fileSystemPolicy:FileSystemPolicy",
        make_inputs=lambda world: {
            "fileSystemId": world.file_system,
            "policy": _build_policy("one"),
            "bypassPolicyLockoutSafetyCheck": True,
        },
        needed=property_names("fileSystemId", "policy"),
        updates={"policy": make_constant(_build_policy("two")), "bypassPolicyLockoutSafetyCheck": make_constant(False)},
        replaces={"fileSystemId": lambda world: world.create_file_system("other")},
        drift=lambda world, id: world.client("efs").put_file_system_policy(FileSystemId=id, Policy=_build_policy("theirs")),
        drifted=property_names("policy"),
    ),
    Case(
        "aws:efs/backupPolicy:BackupPolicy",
        make_inputs=lambda world: {"fileSystemId": world.file_system, "backupPolicy": {"status": "ENABLED"}},
        needed=property_names("fileSystemId", "backupPolicy"),
        updates={"backupPolicy": make_constant({"status": "DISABLED"})},
        replaces={"fileSystemId": lambda world: world.create_file_system("other")},
        drift=lambda world, id: world.client("efs").put_backup_policy(FileSystemId=id, BackupPolicy={"Status": "DISABLED"}),
        drifted=property_names("backupPolicy"),
        remains={"backupPolicy": {"status": "DISABLED"}},
    ),
    Case(
        "aws:efs/mountTarget:MountTarget",
        make_inputs=lambda world: {
            "fileSystemId": world.file_system,
            "subnetId": world.subnets[0],
            "ipAddress": "10.0.0.10",
            "securityGroups": world.groups[:1],
        },
        needed=property_names("fileSystemId", "subnetId"),
        updates={"securityGroups": lambda world: world.groups},
        replaces={
            "fileSystemId": lambda world: world.create_file_system("other"),
            "subnetId": lambda world: world.subnets[1],
            "ipAddress": make_constant("10.0.0.11"),
        },
        drift=lambda world, id: world.client("efs").modify_mount_target_security_groups(
            MountTargetId=id, SecurityGroups=world.groups[1:]
        ),
        drifted=property_names("securityGroups"),
    ),
    Case(
        "aws:efs/accessPoint:AccessPoint",
        make_inputs=lambda world: {
            "fileSystemId": world.file_system,
            "posixUser": {"uid": 1000, "gid": 1000, "secondaryGids": [1001, 1002]},
            "rootDirectory": {"path": "/home", "creationInfo": {"ownerUid": 1000, "ownerGid": 1000, "permissions": "0755"}},
            "tags": {"Name": "home"},
        },
        needed=property_names("fileSystemId"),
        updates={"tags": make_constant({"Name": "other"})},
        removals=property_names("tags"),
        replaces={
            "fileSystemId": lambda world: world.create_file_system("other"),
            "posixUser": make_constant({"uid": 1001, "gid": 1000, "secondaryGids": [1001, 1002]}),
            "rootDirectory": make_constant({"path": "/other"}),
        },
        drift=lambda world, id: world.client("efs").untag_resource(ResourceId=id, TagKeys=["Name"]),
        drifted=property_names("tags"),
    ),
]
