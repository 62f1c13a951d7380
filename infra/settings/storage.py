"""`gpumpi:storage`: the shared file systems."""

from typing import Annotated, Literal

from pydantic import Field

from infra.config.models import Model, MountPath

FileEvent = Literal["NEW", "CHANGED", "DELETED"]
FileEvents = Annotated[tuple[FileEvent, ...], Field(strict=False)]


class Efs(Model):
    """A new EFS file system, or (with `fileSystemId`) an existing one."""

    mount_path: MountPath = Field(
        "/shared", description="Mount path in jobs and on nodes. Change: in place; affects jobs started later."
    )
    file_system_id: str | None = Field(
        None,
        description="ID of an existing file system. Only `addIngressRule` changes its security groups. "
        "Change: replaces the access point; a file system that the stack created is deleted with its data.",
    )
    add_ingress_rule: bool = Field(
        False,
        description="Let nodes mount an existing file system: adds a rule for TCP 2049 to one security group of each mount "
        "target, and removes it with the stack. Change: in place.",
    )
    backup: bool | None = Field(
        None, description="Back up the new file system daily with AWS Backup; false by default. Change: in place."
    )
    infrequent_access_after_days: Literal[1, 7, 14, 30, 60, 90, 180, 270, 365] | None = Field(
        None,
        description="Move files that were not read for this many days to cheaper storage; never by default. Change: in place.",
    )
    protect: bool = Field(False, description="While true, Pulumi refuses to delete the file system. Change: in place.")

    @property
    def is_existing(self) -> bool:
        return self.file_system_id is not None


class DataRepository(Model):
    """An S3 bucket, or a prefix in it, that is linked to a directory of the Lustre file system."""

    path: str = Field(
        examples=["s3://my-data-sets/imagenet"],
        description="Bucket and optional prefix, as `s3://bucket/prefix`. Change: replaces the link; files and objects stay.",
    )
    directory: MountPath = Field(
        "/data",
        description="Directory of the file system that is linked to the bucket; jobs see it below `mountPath`. "
        "Change: replaces the link; files and objects stay.",
    )
    auto_import: FileEvents = Field(
        ("NEW", "CHANGED", "DELETED"),
        description="Changes in the bucket that appear in the file system: any of NEW, CHANGED and DELETED. Change: in place.",
    )
    auto_export: FileEvents = Field(
        ("NEW", "CHANGED"),
        description="Changes in the directory that FSx writes to the bucket: any of NEW, CHANGED and DELETED. "
        "With DELETED, deleting a file deletes the object. Change: in place.",
    )

    @property
    def bucket(self) -> str:
        """Name of the bucket: the first segment of the path, after an optional `s3://`."""
        return self.path.removeprefix("s3://").partition("/")[0]


class Fsx(Model):
    """A new FSx for Lustre file system, or (with `fileSystemId`) an existing one."""

    mount_path: MountPath = Field(
        "/fsx", description="Mount path in jobs and on nodes. Change: in place; affects jobs started later."
    )
    file_system_id: str | None = Field(
        None,
        description="ID of an existing file system. Only `addIngressRule` changes its security groups. "
        "Change: a file system that the stack created is deleted with its data.",
    )
    add_ingress_rule: bool = Field(
        False,
        description="Let nodes mount an existing file system: adds rules for TCP 988 and 1018-1023 to one of its security "
        "groups, and removes them with the stack. Change: in place.",
    )
    deployment: Literal["PERSISTENT_2", "SCRATCH_2"] | None = Field(
        None,
        description="`PERSISTENT_2` (default) replicates data and replaces failed servers; `SCRATCH_2` is for data that can be "
        "lost. Change: replaces the file system, whose data is deleted.",
    )
    size_gib: int | None = Field(
        None,
        description="Capacity in GiB: 1200 (default), 2400, or another multiple of 2400. "
        "Change: grows in place, to a multiple of 2400; a smaller size is rejected.",
    )
    throughput_per_tib: Literal[125, 250, 500, 1000] | None = Field(
        None,
        description="Throughput in MB/s per TiB of a PERSISTENT_2 file system; 125 by default. Change: in place.",
    )
    compression: bool | None = Field(
        None, description="Compress data with LZ4; true by default. Change: in place; affects files written later."
    )
    kms_key_arn: str | None = Field(
        None,
        description="ARN of your KMS key for a PERSISTENT_2 file system, in the same Region; by default the stack creates a key. "
        "Change: replaces the file system, whose data is deleted.",
    )
    zone: str | None = Field(
        None,
        description="Zone of the file system, which AWS places in one subnet; the first pool's zone by default. "
        "Change: rejected for an existing file system.",
    )
    data_repository: DataRepository | None = Field(
        None, description="S3 data linked to the file system. Change: see the individual fields."
    )
    protect: bool = Field(False, description="While true, Pulumi refuses to delete the file system. Change: in place.")

    @property
    def is_existing(self) -> bool:
        return self.file_system_id is not None

    @property
    def is_persistent(self) -> bool:
        return self.deployment != "SCRATCH_2"


class StorageSettings(Model):
    """Storage shared by nodes and jobs."""

    efs: Efs | Literal["none"] = Field(
        Efs(), description="The shared EFS file system, or `none`. Change: `none` deletes the file system and its data."
    )
    fsx: Fsx | Literal["none"] = Field(
        "none",
        description="An FSx for Lustre file system in addition to EFS, or `none`. "
        "Change: `none` deletes the file system and its data.",
    )

    @property
    def adds_ingress_rule(self) -> bool:
        return self.efs != "none" and self.efs.add_ingress_rule

    @property
    def existing_file_system_id(self) -> str | None:
        return None if self.efs == "none" else self.efs.file_system_id

    @property
    def lustre(self) -> Fsx | None:
        return None if self.fsx == "none" else self.fsx

    @property
    def existing_lustre_id(self) -> str | None:
        return self.lustre.file_system_id if self.lustre else None
