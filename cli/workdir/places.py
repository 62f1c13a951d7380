"""Where the folder and the logs of a submitted job are stored: on a shared volume, else in the stack's bucket."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from cli.cluster_access import Cluster
from cli.errors import CommandError
from cli.exit_codes import REFUSED
from cli.workdir.in_bucket import FolderInBucket
from cli.workdir.in_cluster import Files
from infra.jobs import files
from infra.jobs.pieces import Piece
from infra.jobs.pods import PlacedJob


class Place(Protocol):
    """Where the files of a job about to be submitted are stored."""

    def used_by(self, pieces: Sequence[Piece]) -> list[Piece]: ...

    def create(self, cluster: Cluster) -> None: ...

    def remove(self, cluster: Cluster) -> None: ...


def choose(placed: PlacedJob, folder: Path | None, limit_mib: int) -> Place:
    """Return the place for a folder, or only for the logs. Raises CommandError if the folder cannot be sent; nothing has
    been created then."""
    has_volume = files.of(placed, "") is not None
    if folder is None or has_volume:
        return Files(placed, folder, limit_mib)
    if placed.namespace.workdir_bucket:
        return FolderInBucket(placed, folder, limit_mib)
    name = placed.namespace.name
    fix = "Mount one without readOnly, or add storage to the stack (storage.efs), or build the code into the image"
    lacks = f"the job mounts no writable volume of namespace {name}, and its stack has no bucket for folders"
    raise CommandError(f"workdir: {lacks}. {fix}.", REFUSED)
