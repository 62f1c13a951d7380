"""Calls that EFS rejects."""

from collections.abc import Callable
from typing import Any

import pytest

from testkit.aws_clients import Client
from tests.local_aws.documents import allow_statement, deny_statement, make_policy
from tests.local_aws.refusals import Refusal

API = "https://docs.aws.amazon.com/efs/latest/ug/API_"
CREATE, UPDATE = f"{API}CreateFileSystem.html", f"{API}UpdateFileSystem.html"
TARGET, POINT = f"{API}CreateMountTarget.html", f"{API}CreateAccessPoint.html"
POLICY, LIFECYCLE = f"{API}PutFileSystemPolicy.html", f"{API}PutLifecycleConfiguration.html"


def reject_file_system(what: str, code: str, **params: Any) -> Refusal:
    return Refusal(what, "create_file_system", {"CreationToken": "t", **params}, code, CREATE)


def reject_call(what: str, operation: str, code: str, source: str, **params: Any) -> Refusal:
    """Return a rejected call for the test's file system."""
    return Refusal(what, operation, lambda file_system, **_: {"FileSystemId": file_system, **params}, code, source)


def reject_access_point(what: str, code: str, **params: Any) -> Refusal:
    return reject_call(what, "create_access_point", code, POINT, **{"ClientToken": "c", **params})


def reject_mount_target(what: str, code: str, params: Callable[..., dict[str, Any]]) -> Refusal:
    return Refusal(
        what,
        "create_mount_target",
        lambda file_system, **resources: {"FileSystemId": file_system, **params(**resources)},
        code,
        TARGET,
    )


def reject_policy(what: str, text: str) -> Refusal:
    return reject_call(what, "put_file_system_policy", "InvalidPolicyException", POLICY, Policy=text)


def reject_lifecycle(what: str, code: str, *policies: dict[str, str]) -> Refusal:
    return reject_call(what, "put_lifecycle_configuration", code, LIFECYCLE, LifecyclePolicies=list(policies))


def make_root_directory(**info: Any) -> dict[str, Any]:
    return {"Path": "/shared", "CreationInfo": {"OwnerUid": 1, "OwnerGid": 1, "Permissions": "0755", **info}}


REFUSALS = [
    reject_file_system("a token in use", "FileSystemAlreadyExists", CreationToken="in-use"),
    reject_file_system("a KMS key without encryption", "BadRequest", KmsKeyId="alias/aws/elasticfilesystem"),
    reject_file_system("a nonexistent key", "BadRequest", Encrypted=True, KmsKeyId="alias/missing"),
    reject_file_system("provisioned mode without a throughput value", "BadRequest", ThroughputMode="provisioned"),
    reject_file_system(
        "a throughput value without provisioned mode", "BadRequest", ThroughputMode="elastic", ProvisionedThroughputInMibps=100.0
    ),
    reject_file_system("elastic throughput with maxIO", "BadRequest", ThroughputMode="elastic", PerformanceMode="maxIO"),
    reject_file_system("an unknown throughput", "ValidationException", ThroughputMode="fast"),
    reject_file_system("a zone of another region", "BadRequest", AvailabilityZoneName="eu-west-1a"),
    reject_call(
        "provisioned mode without a throughput value", "update_file_system", "BadRequest", UPDATE, ThroughputMode="provisioned"
    ),
    Refusal("a missing file system", "update_file_system", {"FileSystemId": "fs-00000000"}, "FileSystemNotFound", UPDATE),
    Refusal("a missing file system", "describe_file_systems", {"FileSystemId": "fs-00000000"}, "FileSystemNotFound", CREATE),
    Refusal("a missing file system", "delete_file_system", {"FileSystemId": "fs-00000000"}, "FileSystemNotFound", CREATE),
    reject_call("a file system with a mount target", "delete_file_system", "FileSystemInUse", f"{API}DeleteFileSystem.html"),
    reject_mount_target("a second mount target in a zone", "MountTargetConflict", lambda subnet, **_: {"SubnetId": subnet}),
    reject_mount_target("a missing subnet", "SubnetNotFound", lambda **_: {"SubnetId": "subnet-00000000"}),
    reject_mount_target(
        "a missing security group",
        "SecurityGroupNotFound",
        lambda other, **_: {"SubnetId": other, "SecurityGroups": ["sg-00000000"]},
    ),
    reject_mount_target(
        "another VPC's security group",
        "SecurityGroupNotFound",
        lambda other, foreign_group, **_: {"SubnetId": other, "SecurityGroups": [foreign_group]},
    ),
    reject_mount_target(
        "six security groups",
        "SecurityGroupLimitExceeded",
        lambda other, **_: {"SubnetId": other, "SecurityGroups": [f"sg-0000000{n}" for n in range(6)]},
    ),
    reject_mount_target(
        "a subnet of another VPC", "MountTargetConflict", lambda foreign_subnet, **_: {"SubnetId": foreign_subnet}
    ),
    Refusal("a missing mount target", "delete_mount_target", {"MountTargetId": "fsmt-00000000"}, "MountTargetNotFound", TARGET),
    reject_access_point("a token in use", "AccessPointAlreadyExists", ClientToken="in-use"),
    reject_access_point("a relative path", "BadRequest", RootDirectory={**make_root_directory(), "Path": "shared"}),
    reject_access_point("a path with five levels", "BadRequest", RootDirectory={**make_root_directory(), "Path": "/a/b/c/d/e"}),
    reject_access_point("invalid permissions", "BadRequest", RootDirectory=make_root_directory(Permissions="rwx")),
    Refusal(
        "a missing file system",
        "create_access_point",
        {"FileSystemId": "fs-00000000", "ClientToken": "c"},
        "FileSystemNotFound",
        POINT,
    ),
    Refusal("a missing access point", "delete_access_point", {"AccessPointId": "fsap-00000000"}, "AccessPointNotFound", POINT),
    reject_policy("a policy that is not JSON", "{nope"),
    reject_policy("a statement without a principal", make_policy(deny_statement(Action="*"))),
    reject_policy("another service's action", make_policy(allow_statement(Principal="*", Action="s3:GetObject"))),
    reject_policy(
        "a resource of another service",
        make_policy(allow_statement(Principal="*", Action="elasticfilesystem:ClientMount", Resource="arn:aws:s3:::b")),
    ),
    reject_policy("a policy that locks its author out", make_policy(deny_statement(Principal="*", Action="elasticfilesystem:*"))),
    reject_call("a file system without a policy", "describe_file_system_policy", "PolicyNotFound", POLICY),
    reject_call(
        "a file system without a backup policy", "describe_backup_policy", "PolicyNotFound", f"{API}DescribeBackupPolicy.html"
    ),
    reject_call(
        "an unknown status",
        "put_backup_policy",
        "ValidationException",
        f"{API}PutBackupPolicy.html",
        BackupPolicy={"Status": "ON"},
    ),
    reject_call(
        "a file system without replication",
        "describe_replication_configurations",
        "ReplicationNotFound",
        f"{API}DescribeReplicationConfigurations.html",
    ),
    reject_lifecycle(
        "two transitions in one policy", "BadRequest", {"TransitionToIA": "AFTER_7_DAYS", "TransitionToArchive": "AFTER_90_DAYS"}
    ),
    reject_lifecycle("an unknown transition age", "ValidationException", {"TransitionToIA": "AFTER_8_DAYS"}),
    reject_lifecycle("archive storage without elastic throughput", "BadRequest", {"TransitionToArchive": "AFTER_90_DAYS"}),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_efs_rejects_invalid_requests(aws: Client, refusal: Refusal) -> None:
    efs, ec2 = aws("efs"), aws("ec2")
    subnets = ec2.describe_subnets()["Subnets"]
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    foreign = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24", AvailabilityZone=subnets[1]["AvailabilityZone"])["Subnet"]
    group = ec2.create_security_group(GroupName="g", Description="d", VpcId=vpc)["GroupId"]
    file_system = efs.create_file_system(CreationToken="in-use")["FileSystemId"]
    efs.create_mount_target(FileSystemId=file_system, SubnetId=subnets[0]["SubnetId"])
    efs.create_access_point(FileSystemId=file_system, ClientToken="in-use")
    refusal.check(
        efs,
        file_system=file_system,
        subnet=subnets[0]["SubnetId"],
        other=subnets[1]["SubnetId"],
        foreign_subnet=foreign["SubnetId"],
        foreign_group=group,
    )
