"""`gpumpi:storage`: the shared file systems. Each file system is new or, with `fileSystemId`, an existing one."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Discriminator, Field, Tag

from infra.config.models import SELECTS, Model, MountPath
from infra.naming import EFS, LUSTRE, StorageKind

MOUNT_PATH: Final = "Mount path in jobs and on nodes. Change: in place; affects jobs started later."
PROTECT: Final = "While true, Pulumi refuses to delete the file system. Change: in place."

SMALLEST_GIB: Final = 1200
STEP_GIB: Final = 2400
"""Sizes of a Lustre file system: https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html"""

FileEvent = Literal["NEW", "CHANGED", "DELETED"]
FileEvents = Annotated[tuple[FileEvent, ...], Field(strict=False)]


class FileSystem(Model):
    """Settings that every shared file system has."""

    kind: ClassVar[StorageKind]
    mount_path: MountPath

    @property
    def summary(self) -> str:
        """Return the file system's ID, or `new` with its size if the size is fixed."""
        return "new"


class NewFileSystem(FileSystem):
    """A file system that the stack creates."""

    wrong_variant = (
        "applies only to an existing file system; a new one always admits nodes. Set fileSystemId, or remove this setting."
    )


class ExistingFileSystem(FileSystem):
    """A file system that exists already."""

    wrong_variant = "applies to a new file system, but fileSystemId names an existing one. Remove one of them."
    file_system_id: str = Field(
        description="ID of an existing file system. Only `addIngressRule` changes its security groups. "
        "Change: a file system that the stack created is deleted with its data; the access point of EFS is replaced.",
        json_schema_extra=SELECTS,
    )
    add_ingress_rule: bool = Field(
        False,
        description="Let nodes mount an existing file system: adds rules for its ports to one security group of each mount "
        "target, and removes them with the stack. Change: in place.",
    )

    @property
    def summary(self) -> str:
        return self.file_system_id


def select_variant(value: object) -> str:
    """Return the tag of the model for a file system's settings."""
    if isinstance(value, ExistingFileSystem) or (isinstance(value, Mapping) and "fileSystemId" in value):
        return "existing"
    return "new" if isinstance(value, NewFileSystem | Mapping) else "none"


class ExistingEfs(ExistingFileSystem):
    """An existing EFS file system."""

    kind = EFS
    mount_path: MountPath = Field("/shared", description=MOUNT_PATH)


class NewEfs(NewFileSystem):
    """A new EFS file system."""

    kind = EFS
    mount_path: MountPath = Field("/shared", description=MOUNT_PATH)
    backup: bool = Field(False, description="Back up the new file system daily with AWS Backup. Change: in place.")
    infrequent_access_after_days: Literal[1, 7, 14, 30, 60, 90, 180, 270, 365] | None = Field(
        None,
        description="Move files that were not read for this many days to cheaper storage; never by default. Change: in place.",
    )
    protect: bool = Field(False, description=PROTECT)


class DataRepository(Model):
    """An S3 bucket, or a prefix in it, that is linked to a directory of the Lustre file system."""

    path: str = Field(
        examples=["s3://my-data-sets/imagenet"],
        description="Bucket and optional prefix, as `s3://bucket/prefix`. Change: replaces the link; files and objects are kept.",
    )
    directory: MountPath = Field(
        "/data",
        description="Directory of the file system that is linked to the bucket; jobs see it below `mountPath`. "
        "Change: replaces the link; files and objects are kept.",
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


class ExistingLustre(ExistingFileSystem):
    """An existing FSx for Lustre file system."""

    kind = LUSTRE
    mount_path: MountPath = Field("/fsx", description=MOUNT_PATH)


class NewLustre(NewFileSystem):
    """A new FSx for Lustre file system."""

    kind = LUSTRE
    mount_path: MountPath = Field("/fsx", description=MOUNT_PATH)
    deployment: Literal["PERSISTENT_2", "SCRATCH_2"] = Field(
        "PERSISTENT_2",
        description="`PERSISTENT_2` replicates data and replaces failed servers; `SCRATCH_2` is for data that can be lost. "
        "Change: replaces the file system, whose data is deleted.",
    )
    size_gib: int = Field(
        SMALLEST_GIB,
        description=f"Capacity in GiB: {SMALLEST_GIB}, or a multiple of {STEP_GIB}. "
        f"Change: grows in place, to a multiple of {STEP_GIB}; a smaller size is rejected.",
    )
    throughput_per_tib: Literal[125, 250, 500, 1000] = Field(
        125, description="Throughput in MB/s per TiB of a PERSISTENT_2 file system. Change: in place."
    )
    compression: bool = Field(True, description="Compress data with LZ4. Change: in place; affects files written later.")
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
    protect: bool = Field(False, description=PROTECT)

    @property
    def is_persistent(self) -> bool:
        return self.deployment == "PERSISTENT_2"

    @property
    def summary(self) -> str:
        return f"new, {self.size_gib} GiB"


NoFileSystem = Annotated[Literal["none"], Tag("none")]
Efs = Annotated[ExistingEfs, Tag("existing")] | Annotated[NewEfs, Tag("new")] | NoFileSystem
Lustre = Annotated[ExistingLustre, Tag("existing")] | Annotated[NewLustre, Tag("new")] | NoFileSystem


class StorageSettings(Model):
    """Storage shared by nodes and jobs."""

    efs: Annotated[Efs, Discriminator(select_variant)] = Field(
        NewEfs(), description="The shared EFS file system, or `none`. Change: `none` deletes the file system and its data."
    )
    fsx: Annotated[Lustre, Discriminator(select_variant)] = Field(
        "none",
        description="An FSx for Lustre file system in addition to EFS, or `none`. "
        "Change: `none` deletes the file system and its data.",
    )

    @property
    def file_systems(self) -> tuple[FileSystem, ...]:
        """The file systems that the stack uses."""
        return tuple(each for each in (self.efs, self.fsx) if each != "none")

    @property
    def new_lustre(self) -> NewLustre | None:
        return self.fsx if isinstance(self.fsx, NewLustre) else None
