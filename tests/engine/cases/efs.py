"""EFS."""

import json
from typing import Any

from tests.engine.cases.case import Case, names, value
from tests.engine.world import World


def _policy(sid: str) -> str:
    statement = {
        "Sid": sid,
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": "*",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _file_system(world: World) -> dict[str, Any]:
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


def _archiving(world: World) -> dict[str, Any]:
    days = [{"transitionToIa": "AFTER_7_DAYS"}, {"transitionToArchive": "AFTER_90_DAYS"}]
    return {"creationToken": world.name("archive"), "throughputMode": "elastic", "lifecyclePolicies": days}


CASES = [
    Case(
        "aws:efs/fileSystem:FileSystem",
        make_inputs=_file_system,
        needed=names(),
        instead=(_archiving,),
        updates={
            "lifecyclePolicies": value([{"transitionToIa": "AFTER_7_DAYS"}]),
            "protection": value({"replicationOverwrite": "DISABLED"}),
            "provisionedThroughputInMibps": value(128),
            "tags": value({"Name": "other"}),
        },
        removals=names("lifecyclePolicies", "tags"),
        replaces={
            "creationToken": value("other"),
            "availabilityZoneName": value("us-west-2c"),
            "encrypted": value(False),
            "kmsKeyId": lambda world: world.second_key,
            "performanceMode": value("maxIO"),
        },
        drift=lambda world, id: world.client("efs").put_lifecycle_configuration(FileSystemId=id, LifecyclePolicies=[]),
        drifted=names("lifecyclePolicies"),
    ),
    Case(
        "aws:efs/fileSystemPolicy:FileSystemPolicy",
        make_inputs=lambda world: {
            "fileSystemId": world.file_system,
            "policy": _policy("one"),
            "bypassPolicyLockoutSafetyCheck": True,
        },
        needed=names("fileSystemId", "policy"),
        updates={"policy": value(_policy("two")), "bypassPolicyLockoutSafetyCheck": value(False)},
        replaces={"fileSystemId": lambda world: world.new_file_system("other")},
        drift=lambda world, id: world.client("efs").put_file_system_policy(FileSystemId=id, Policy=_policy("theirs")),
        drifted=names("policy"),
    ),
    Case(
        "aws:efs/backupPolicy:BackupPolicy",
        make_inputs=lambda world: {"fileSystemId": world.file_system, "backupPolicy": {"status": "ENABLED"}},
        needed=names("fileSystemId", "backupPolicy"),
        updates={"backupPolicy": value({"status": "DISABLED"})},
        replaces={"fileSystemId": lambda world: world.new_file_system("other")},
        drift=lambda world, id: world.client("efs").put_backup_policy(FileSystemId=id, BackupPolicy={"Status": "DISABLED"}),
        drifted=names("backupPolicy"),
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
        needed=names("fileSystemId", "subnetId"),
        updates={"securityGroups": lambda world: world.groups},
        replaces={
            "fileSystemId": lambda world: world.new_file_system("other"),
            "subnetId": lambda world: world.subnets[1],
            "ipAddress": value("10.0.0.11"),
        },
        drift=lambda world, id: world.client("efs").modify_mount_target_security_groups(
            MountTargetId=id, SecurityGroups=world.groups[1:]
        ),
        drifted=names("securityGroups"),
    ),
    Case(
        "aws:efs/accessPoint:AccessPoint",
        make_inputs=lambda world: {
            "fileSystemId": world.file_system,
            "posixUser": {"uid": 1000, "gid": 1000, "secondaryGids": [1001, 1002]},
            "rootDirectory": {"path": "/home", "creationInfo": {"ownerUid": 1000, "ownerGid": 1000, "permissions": "0755"}},
            "tags": {"Name": "home"},
        },
        needed=names("fileSystemId"),
        updates={"tags": value({"Name": "other"})},
        removals=names("tags"),
        replaces={
            "fileSystemId": lambda world: world.new_file_system("other"),
            "posixUser": value({"uid": 1001, "gid": 1000, "secondaryGids": [1001, 1002]}),
            "rootDirectory": value({"path": "/other"}),
        },
        drift=lambda world, id: world.client("efs").untag_resource(ResourceId=id, TagKeys=["Name"]),
        drifted=names("tags"),
    ),
]
