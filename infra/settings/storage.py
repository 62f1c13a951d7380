"""`gpumpi:storage`: the shared file system."""

from typing import Literal

from pydantic import Field

from infra.settings.base import Model, MountPath


class Efs(Model):
    """A new EFS file system, or (with `fileSystemId`) an existing one."""

    mount_path: MountPath = Field(
        "/shared", description="Mount path in jobs and on nodes. Change: in place; affects jobs started later."
    )
    file_system_id: str | None = Field(
        None,
        description="ID of an existing file system, which is not modified. "
        "Change: replaces the access point; a file system that the stack created is deleted with its data.",
    )
    backup: bool | None = Field(
        None, description="Back up the new file system daily with AWS Backup; false by default. Change: in place."
    )
    infrequent_access_after_days: Literal[1, 7, 14, 30, 60, 90, 180, 270, 365] | None = Field(
        None, description="Days after which files not read move to cheaper storage; never by default. Change: in place."
    )
    protect: bool = Field(False, description="While true, Pulumi refuses to delete the file system. Change: in place.")

    @property
    def is_existing(self) -> bool:
        return self.file_system_id is not None


class StorageSettings(Model):
    """Storage shared by nodes and jobs."""

    efs: Efs | Literal["none"] = Field(
        Efs(), description="The shared EFS file system, or `none`. Change: `none` deletes the file system and its data."
    )

    @property
    def existing_file_system_id(self) -> str | None:
        return None if self.efs == "none" else self.efs.file_system_id
