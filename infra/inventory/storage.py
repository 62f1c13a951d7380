"""File systems and buckets."""

from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from typing import Final

from infra.cost.items import Item
from infra.facts.account_limits import INTERFACES
from infra.inventory.entry import Charge, Entry, KeyUse, UsageItem, actions, count_one
from infra.inventory.lookups import (
    find_access_point,
    find_bucket,
    find_data_repository_association,
    find_file_system,
    find_lustre_file_system,
    find_mount_target,
)
from infra.inventory.resources import Resource

efs = partial(actions, "elasticfilesystem")
fsx = partial(actions, "fsx")
s3 = partial(actions, "s3")
DATA_REPOSITORY: Final = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"

FILE_KEY_ACTIONS: Final = ("kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext")
"""https://docs.aws.amazon.com/efs/latest/ug/EFSKMS.html"""
LUSTRE_TIERS: Final[Mapping[int, Item]] = {
    125: "lustre-125-gb-month",
    250: "lustre-250-gb-month",
    500: "lustre-500-gb-month",
    1000: "lustre-1000-gb-month",
}
"""Throughput in MB/s per TiB -> price item of the capacity."""


def _charge_lustre(file_system: Resource) -> tuple[Charge, ...]:
    """Charge the capacity, which costs the same whether or not it holds files."""
    gib, tier = int(file_system.inputs["storageCapacity"]), file_system.inputs.get("perUnitStorageThroughput")
    kind = f"{tier:.0f} MB/s per TiB" if tier else "scratch"
    item: Item = LUSTRE_TIERS[int(tier)] if tier else "lustre-scratch-gb-month"
    name = f"FSx for Lustre, {gib} GiB, {kind}"
    return (Charge(name, "storage", item, factor=Decimal(gib), price_name=f"FSx for Lustre ({kind})"),)


def _use_file_system(file_system: Resource) -> tuple[UsageItem, ...]:
    usage = UsageItem("files on EFS, infrequent access", "GB-month", "efs-infrequent-access-gb-month")
    return (usage,) if file_system.inputs.get("lifecyclePolicies") else ()


ENTRIES: Final = {
    "aws:efs/accessPoint:AccessPoint": Entry(
        create=efs("CreateAccessPoint TagResource"),
        read=efs("DescribeAccessPoints"),
        update=efs("TagResource UntagResource"),
        delete=efs("DeleteAccessPoint"),
        usage=lambda access_point: (
            UsageItem("files on EFS", "GB-month", "efs-gb-month"),
            UsageItem("reads from EFS", "GB", "efs-read-gb"),
            UsageItem("writes to EFS", "GB", "efs-write-gb"),
        ),
        lookup=find_access_point,
        replaced="jobs that mount it have to restart",
    ),
    "aws:efs/fileSystem:FileSystem": Entry(
        create=efs("CreateFileSystem TagResource"),
        read=efs("DescribeFileSystems DescribeLifecycleConfiguration"),
        update=efs("PutLifecycleConfiguration TagResource UntagResource UpdateFileSystem UpdateFileSystemProtection"),
        delete=efs("DeleteFileSystem"),
        optional={"elasticfilesystem:PutLifecycleConfiguration": lambda files: bool(files.inputs.get("lifecyclePolicies"))},
        key_use=lambda file_system: KeyUse(FILE_KEY_ACTIONS, "elasticfilesystem"),
        service_roles=lambda file_system, inventory: ("elasticfilesystem.amazonaws.com",),
        usage=_use_file_system,
        lookup=find_file_system,
        replaced="the shared files are deleted",
        deleted="the shared files are deleted",
    ),
    "aws:efs/mountTarget:MountTarget": Entry(
        create=efs("CreateMountTarget ec2:CreateNetworkInterface"),
        read=efs(
            "DescribeMountTargets DescribeMountTargetSecurityGroups ec2:DescribeNetworkInterfaceAttribute "
            "ec2:DescribeNetworkInterfaces ec2:DescribeSubnets"
        ),
        update=efs("ModifyMountTargetSecurityGroups ec2:ModifyNetworkInterfaceAttribute"),
        delete=efs("DeleteMountTarget ec2:DeleteNetworkInterface"),
        units={INTERFACES: count_one},
        lookup=find_mount_target,
    ),
    "aws:efs/backupPolicy:BackupPolicy": Entry(
        create=efs("PutBackupPolicy"), read=efs("DescribeBackupPolicy"), delete=efs("PutBackupPolicy")
    ),
    "aws:efs/fileSystemPolicy:FileSystemPolicy": Entry(
        create=efs("PutFileSystemPolicy"), read=efs("DescribeFileSystemPolicy"), delete=efs("DeleteFileSystemPolicy")
    ),
    "aws:fsx/lustreFileSystem:LustreFileSystem": Entry(
        create=fsx("CreateFileSystem TagResource"),
        read=fsx("DescribeFileSystems ec2:DescribeSubnets ec2:GetSecurityGroupsForVpc"),
        update=fsx("TagResource UntagResource UpdateFileSystem"),
        delete=fsx("DeleteFileSystem"),
        key_use=lambda file_system: KeyUse(FILE_KEY_ACTIONS, "fsx") if file_system.inputs.get("kmsKeyId") else None,
        service_roles=lambda file_system, inventory: ("fsx.amazonaws.com",),
        charges=_charge_lustre,
        units={INTERFACES: count_one},
        exists=lambda file_system, facts: facts.existing.lustre is not None,
        lookup=find_lustre_file_system,
        replaced="the files on FSx for Lustre are deleted",
        deleted="the files on FSx for Lustre are deleted",
    ),
    DATA_REPOSITORY: Entry(
        create=fsx("CreateDataRepositoryAssociation TagResource"),
        read=fsx("DescribeDataRepositoryAssociations"),
        update=fsx("TagResource UntagResource UpdateDataRepositoryAssociation"),
        delete=fsx("DeleteDataRepositoryAssociation"),
        usage=lambda link: (UsageItem("objects in the bucket linked to FSx", "GB-month", "s3-gb-month"),),
        lookup=find_data_repository_association,
    ),
    "aws:s3/bucket:Bucket": Entry(
        create=s3("CreateBucket TagResource"),
        read=s3(
            "GetAccelerateConfiguration GetBucketAcl GetBucketCORS GetBucketLocation GetBucketLogging "
            "GetBucketObjectLockConfiguration GetBucketPolicy GetBucketRequestPayment GetBucketTagging GetBucketVersioning "
            "GetBucketWebsite GetEncryptionConfiguration GetLifecycleConfiguration GetReplicationConfiguration ListBucket "
            "ListTagsForResource"
        ),
        update=s3("PutBucketTagging PutBucketVersioning TagResource UntagResource"),
        delete=s3("DeleteBucket DeleteObject DeleteObjectVersion ListBucketVersions"),
        lookup=find_bucket,
    ),
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": Entry(
        create=s3("PutLifecycleConfiguration"), read=s3("GetLifecycleConfiguration"), delete=s3("PutLifecycleConfiguration")
    ),
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": Entry(
        create=s3("PutBucketOwnershipControls"), read=s3("GetBucketOwnershipControls"), delete=s3("PutBucketOwnershipControls")
    ),
    "aws:s3/bucketPolicy:BucketPolicy": Entry(
        create=s3("PutBucketPolicy"),
        read=s3("GetBucketPolicy"),
        update=s3("DeleteBucketPolicy"),
        delete=s3("DeleteBucketPolicy"),
    ),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": Entry(
        create=s3("PutBucketPublicAccessBlock"), read=s3("GetBucketPublicAccessBlock"), delete=s3("PutBucketPublicAccessBlock")
    ),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": Entry(
        create=s3("PutEncryptionConfiguration"), read=s3("GetEncryptionConfiguration"), delete=s3("PutEncryptionConfiguration")
    ),
}
