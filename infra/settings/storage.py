"""`gpumpi:storage`: the shared file system."""

from typing import Literal

from pydantic import Field

from infra.settings.base import Model, MountPath


class Efs(Model):
    """A new EFS file system, or (with `fileSystemId`) one that exists."""

    mount_path: MountPath = Field(
        "/shared", description="Where jobs and nodes mount it. Change: in place, for jobs started later."
    )
    file_system_id: str | None = Field(
        None,
        description="An existing file system, left as it is. "
        "Change: replaces the access point; a file system of the stack's own is deleted with its data.",
    )
    backup: bool | None = Field(None, description="Daily AWS Backup of the new file system; false by default. Change: in place.")
    infrequent_access_after_days: Literal[1, 7, 14, 30, 60, 90, 180, 270, 365] | None = Field(
        None, description="Days after which unread files move to cheaper storage; never by default. Change: in place."
    )
    protect: bool = Field(False, description="Pulumi refuses to delete the file system while true. Change: in place.")

    @property
    def is_existing(self) -> bool:
        return self.file_system_id is not None


class StorageSettings(Model):
    """What nodes and jobs share."""

    efs: Efs | Literal["none"] = Field(
        Efs(), description="The shared file system, or `none`. Change: to `none` deletes it and its data."
    )

    @property
    def existing_file_system_id(self) -> str | None:
        return None if self.efs == "none" else self.efs.file_system_id
