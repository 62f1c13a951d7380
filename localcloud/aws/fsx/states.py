"""Shared code for FSx resources: their records, lookup and errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import get_state

Record = dict[str, Any]


@dataclass(eq=False)
class FileSystem:
    """A Lustre file system, stored among moto's file systems."""

    file_system_id: str
    resource_arn: str
    record: Record
    token: str
    lifecycle: str = "CREATING"
    failure: str = ""
    grown: float | None = None
    """Time of the last capacity increase."""

    @property
    def lustre(self) -> Record:
        configuration: Record = self.record["LustreConfiguration"]
        return configuration

    def describe(self, tags: list[dict[str, str]]) -> Record:
        failure = {"FailureDetails": {"Message": self.failure}} if self.failure else {}
        return {**self.record, "Lifecycle": self.lifecycle, "Tags": tags, **failure}


@dataclass(eq=False)
class Association:
    """A data repository association."""

    association_id: str
    resource_arn: str
    file_system: FileSystem
    record: Record
    account: str
    region: str
    token: str
    lifecycle: str = "CREATING"
    failure: str = ""
    synced: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Maps a path below the linked directory to the ETag of the object and the version of the file when both were
    last in sync."""

    @property
    def bucket(self) -> str:
        return str(self.record["DataRepositoryPath"]).removeprefix("s3://").partition("/")[0]

    @property
    def prefix(self) -> str:
        """Key prefix of the linked objects: empty, or ending with a slash."""
        path = str(self.record["DataRepositoryPath"]).removeprefix("s3://").partition("/")[2].strip("/")
        return f"{path}/" if path else ""

    def events(self, direction: str) -> frozenset[str]:
        """Return the event types in one of the policies. `direction`: `AutoImportPolicy` or `AutoExportPolicy`."""
        return frozenset((self.record.get("S3") or {}).get(direction, {}).get("Events", ()))

    def describe(self, tags: list[dict[str, str]]) -> Record:
        failure = {"FailureDetails": {"Message": self.failure}} if self.failure else {}
        return {**self.record, "Lifecycle": self.lifecycle, "Tags": tags, **failure}


@dataclass
class Associations:
    """Data repository associations of an account and Region."""

    by_id: dict[str, Association] = field(default_factory=dict)


def get_associations(backend: Any) -> dict[str, Association]:
    return get_state(backend, Associations).by_id


def build_bad_request_error(message: str) -> AwsError:
    return AwsError("BadRequest", message)


def build_not_emulated_error(what: str) -> AwsError:
    return AwsError("NotImplementedInLocalCloud", f"The local cloud does not support {what} of FSx for Lustre.", status=400)


def check_all_emulated(parameters: Mapping[str, Any], emulated: frozenset[str]) -> None:
    for name in sorted(parameters.keys() - emulated):
        raise build_not_emulated_error(name)


def find_file_system(call: Call, name: str, *, ready: bool = False) -> FileSystem:
    """Return the file system with this ID. Raise AwsError if the file system does not exist or, with `ready`, is not
    AVAILABLE."""
    file_system = call.backend.file_systems.get(name)
    if not isinstance(file_system, FileSystem):
        raise AwsError("FileSystemNotFound", f"File system '{name}' does not exist.")
    if ready and file_system.lifecycle != "AVAILABLE":
        raise build_bad_request_error(f"File system '{name}' is {file_system.lifecycle}.")
    return file_system


def list_tags(call: Call, arn: str) -> list[dict[str, str]]:
    tags: list[dict[str, str]] = call.backend.list_tags_for_resource(arn)
    return tags


def now() -> datetime:
    return datetime.now(UTC)
