"""EFS file systems in the local AWS behave like those in AWS."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.aws import durations, inventory
from testkit.aws_clients import Client
from tests.local_aws.documents import deny_statement, make_policy
from tests.local_aws.refusals import Refusal

NO_PLAIN_MOUNTS = make_policy(
    deny_statement(Principal={"AWS": "*"}, Action="*", Condition={"Bool": {"aws:SecureTransport": "false"}})
)


def create_file_system(efs: Any, **params: Any) -> str:
    return str(efs.create_file_system(CreationToken="t", **params)["FileSystemId"])


def describe_file_system(efs: Any, file_system: str) -> dict[str, Any]:
    record: dict[str, Any] = efs.describe_file_systems(FileSystemId=file_system)["FileSystems"][0]
    return record


def test_a_file_system_has_all_requested_properties(aws: Client) -> None:
    efs = aws("efs")
    name = create_file_system(efs, Encrypted=True, ThroughputMode="elastic", Tags=[{"Key": "Name", "Value": "shared"}])
    efs.put_lifecycle_configuration(
        FileSystemId=name, LifecyclePolicies=[{"TransitionToIA": "AFTER_30_DAYS"}, {"TransitionToArchive": "AFTER_90_DAYS"}]
    )
    efs.put_file_system_policy(FileSystemId=name, Policy=NO_PLAIN_MOUNTS)
    efs.put_backup_policy(FileSystemId=name, BackupPolicy={"Status": "ENABLED"})
    efs.update_file_system_protection(FileSystemId=name, ReplicationOverwriteProtection="DISABLED")
    record = describe_file_system(efs, name)
    assert (record["LifeCycleState"], record["Encrypted"], record["ThroughputMode"], record["Name"]) == (
        "available",
        True,
        "elastic",
        "shared",
    )
    assert record["FileSystemProtection"] == {"ReplicationOverwriteProtection": "DISABLED"}
    assert len(efs.describe_lifecycle_configuration(FileSystemId=name)["LifecyclePolicies"]) == 2
    assert efs.describe_file_system_policy(FileSystemId=name)["Policy"] == NO_PLAIN_MOUNTS
    assert efs.describe_backup_policy(FileSystemId=name)["BackupPolicy"] == {"Status": "ENABLED"}


def test_a_file_system_without_a_key_uses_the_aws_managed_key(aws: Client) -> None:
    key = describe_file_system(aws("efs"), create_file_system(aws("efs"), Encrypted=True))["KmsKeyId"]
    metadata = aws("kms").describe_key(KeyId=key)["KeyMetadata"]
    assert metadata["KeyManager"] == "AWS"
    assert metadata["Arn"] == aws("kms").describe_key(KeyId="alias/aws/elasticfilesystem")["KeyMetadata"]["Arn"]


def test_throughput_changes_in_place(aws: Client) -> None:
    efs = aws("efs")
    file_system = create_file_system(efs)
    assert efs.update_file_system(FileSystemId=file_system, ThroughputMode="provisioned", ProvisionedThroughputInMibps=64)[
        "LifeCycleState"
    ] == ("updating")
    record = describe_file_system(efs, file_system)
    assert (record["LifeCycleState"], record["ProvisionedThroughputInMibps"]) == ("available", 64)


def test_file_systems_become_available_and_disappear_after_deletion(aws: Client) -> None:
    efs = aws("efs")
    subnet = aws("ec2").describe_subnets()["Subnets"][0]["SubnetId"]
    file_system = create_file_system(efs)
    target = efs.create_mount_target(FileSystemId=file_system, SubnetId=subnet)
    point = efs.create_access_point(FileSystemId=file_system, ClientToken="c", Tags=[{"Key": "k", "Value": "v"}])
    assert (target["LifeCycleState"], point["LifeCycleState"]) == ("creating", "creating")
    assert efs.describe_mount_targets(FileSystemId=file_system)["MountTargets"][0]["LifeCycleState"] == "available"
    assert efs.describe_access_points(FileSystemId=file_system)["AccessPoints"][0]["LifeCycleState"] == "available"
    efs.delete_access_point(AccessPointId=point["AccessPointId"])
    efs.delete_mount_target(MountTargetId=target["MountTargetId"])
    efs.delete_file_system(FileSystemId=file_system)
    Refusal("a deleted file system", "describe_file_systems", {"FileSystemId": file_system}, "FileSystemNotFound", "").check(efs)
    assert aws("ec2").describe_network_interfaces()["NetworkInterfaces"] == []
    assert [str(leftover) for leftover in inventory.list_leftovers()] == []


def test_a_file_system_that_is_still_creating_rejects_mount_targets(aws: Client) -> None:
    efs = aws("efs")
    durations.set_factor(100)
    file_system = create_file_system(efs)
    subnet = aws("ec2").describe_subnets()["Subnets"][0]["SubnetId"]
    with pytest.raises(ClientError, match="IncorrectFileSystemLifeCycleState"):
        efs.create_mount_target(FileSystemId=file_system, SubnetId=subnet)


def test_a_mount_target_without_security_groups_gets_the_default_group_of_the_vpc(aws: Client) -> None:
    efs, ec2 = aws("efs"), aws("ec2")
    subnet = ec2.describe_subnets()["Subnets"][0]
    target = efs.create_mount_target(FileSystemId=create_file_system(efs), SubnetId=subnet["SubnetId"])
    groups = efs.describe_mount_target_security_groups(MountTargetId=target["MountTargetId"])["SecurityGroups"]
    default = ec2.describe_security_groups(
        Filters=[{"Name": "group-name", "Values": ["default"]}, {"Name": "vpc-id", "Values": [subnet["VpcId"]]}]
    )["SecurityGroups"][0]
    interface = ec2.describe_network_interfaces(NetworkInterfaceIds=[target["NetworkInterfaceId"]])["NetworkInterfaces"][0]
    assert groups == [default["GroupId"]]
    assert [group["GroupId"] for group in interface["Groups"]] == groups
    assert interface["RequesterManaged"]
