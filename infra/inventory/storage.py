"""File systems and buckets."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from infra.cost.items import Item
from infra.facts.account_limits import INTERFACES
from infra.inventory.entry import Charge, Entry, KeyUse, UsageItem, count_as_one
from infra.inventory.lookups import (
    find_access_point,
    find_bucket,
    find_data_repository_association,
    find_file_system,
    find_lustre_file_system,
    find_mount_target,
)
from infra.inventory.resources import Resource

DATA_REPOSITORY: Final = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"

FILE_KEY_ACTIONS: Final = ("kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext")
"""https://docs.aws.amazon.com/efs/latest/ug/EFSKMS.html"""
LUSTRE_TIERS: Final[Mapping[int, Item]] = {
    125: "lustre-125-gb-month",
    250: "lustre-250-gb-month",
    500: "lustre-500-gb-month",
    1000: "lustre-1000-gb-month",
}
"""Maps the throughput in MB/s per TiB to the price item of the capacity."""


def _list_lustre_charges(file_system: Resource) -> tuple[Charge, ...]:
    """Charge the capacity, which costs the same whether or not it holds files."""
    gib, tier = int(file_system.inputs["storageCapacity"]), file_system.inputs.get("perUnitStorageThroughput")
    kind = f"{tier:.0f} MB/s per TiB" if tier else "scratch"
    item: Item = LUSTRE_TIERS[int(tier)] if tier else "lustre-scratch-gb-month"
    name = f"FSx for Lustre, {gib} GiB, {kind}"
    return (Charge(name, "storage", item, factor=Decimal(gib), price_name=f"FSx for Lustre ({kind})"),)


def _list_file_system_usage(file_system: Resource) -> tuple[UsageItem, ...]:
    usage = UsageItem("files on EFS, infrequent access", "GB-month", "efs-infrequent-access-gb-month")
    return (usage,) if file_system.inputs.get("lifecyclePolicies") else ()


ENTRIES: Final = {
    "aws:efs/accessPoint:AccessPoint": Entry(
        usage=lambda access_point: (
            UsageItem("files on EFS", "GB-month", "efs-gb-month"),
            UsageItem("reads from EFS", "GB", "efs-read-gb"),
            UsageItem("writes to EFS", "GB", "efs-write-gb"),
        ),
        lookup=find_access_point,
        replaced="jobs that mount it have to restart",
    ),
    "aws:efs/fileSystem:FileSystem": Entry(
        optional={"elasticfilesystem:PutLifecycleConfiguration": lambda files: bool(files.inputs.get("lifecyclePolicies"))},
        key_use=lambda file_system: KeyUse(FILE_KEY_ACTIONS, "elasticfilesystem"),
        service_roles=lambda file_system, inventory: ("elasticfilesystem.amazonaws.com",),
        usage=_list_file_system_usage,
        lookup=find_file_system,
        replaced="the shared files are deleted",
        deleted="the shared files are deleted",
    ),
    "aws:efs/mountTarget:MountTarget": Entry(units={INTERFACES: count_as_one}, lookup=find_mount_target),
    "aws:efs/backupPolicy:BackupPolicy": Entry(),
    "aws:efs/fileSystemPolicy:FileSystemPolicy": Entry(),
    "aws:fsx/lustreFileSystem:LustreFileSystem": Entry(
        key_use=lambda file_system: KeyUse(FILE_KEY_ACTIONS, "fsx") if file_system.inputs.get("kmsKeyId") else None,
        service_roles=lambda file_system, inventory: ("fsx.amazonaws.com",),
        charges=_list_lustre_charges,
        units={INTERFACES: count_as_one},
        exists=lambda file_system, facts: facts.existing.lustre is not None,
        lookup=find_lustre_file_system,
        replaced="the files on FSx for Lustre are deleted",
        deleted="the files on FSx for Lustre are deleted",
    ),
    DATA_REPOSITORY: Entry(
        usage=lambda link: (UsageItem("objects in the bucket linked to FSx", "GB-month", "s3-gb-month"),),
        lookup=find_data_repository_association,
    ),
    "aws:s3/bucket:Bucket": Entry(lookup=find_bucket),
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": Entry(),
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": Entry(),
    "aws:s3/bucketPolicy:BucketPolicy": Entry(),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": Entry(),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": Entry(),
}
