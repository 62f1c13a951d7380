"""Choose where to store the folder and the logs of a submitted job.

The folder is on a shared volume or, without one, in the stack's bucket. The logs are on a shared volume or, with
`platform.jobLogs: cloudwatch`, in CloudWatch.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from cli.clusters.kubernetes_access import Cluster
from cli.errors import CommandError
from cli.exit_codes import REFUSED
from cli.jobs.workdir.in_bucket import FolderInBucket
from cli.jobs.workdir.in_cluster import Files
from infra.jobs import cloudwatch_logs, files
from infra.jobs.pieces import Piece
from infra.jobs.pods import PlacedJob


class Place(Protocol):
    """Storage for the files of a job that is about to be submitted."""

    def used_by(self, pieces: Sequence[Piece]) -> list[Piece]: ...

    def create(self, cluster: Cluster) -> None: ...

    def remove(self, cluster: Cluster) -> None: ...


def choose(placed: PlacedJob, folder: Path | None, limit_mib: int) -> Place:
    """Choose the storage for the folder and the logs.

    Raises CommandError, before creating anything, if the folder cannot be sent.
    """
    if placed.cluster.log_group:
        sent = _folder(placed, folder, limit_mib) if folder is not None else None
        return LogsInCloudWatch(placed, sent)
    return _folder(placed, folder, limit_mib)


class LogsInCloudWatch:
    """Storage of a job whose logs go to CloudWatch. A folder, if the job has one, is stored in `folder`."""

    def __init__(self, placed: PlacedJob, folder: Place | None) -> None:
        self._placed, self._folder, self._run = placed, folder, secrets.token_hex(4)

    def used_by(self, pieces: Sequence[Piece]) -> list[Piece]:
        started = self._folder.used_by(pieces) if self._folder else pieces
        return cloudwatch_logs.used_by(started, self._placed, self._run)

    def create(self, cluster: Cluster) -> None:
        if self._folder:
            self._folder.create(cluster)

    def remove(self, cluster: Cluster) -> None:
        if self._folder:
            self._folder.remove(cluster)


def _folder(placed: PlacedJob, folder: Path | None, limit_mib: int) -> Place:
    has_volume = files.of(placed, "") is not None
    if folder is None or has_volume:
        return Files(placed, folder, limit_mib)
    if placed.cluster.bucket:
        return FolderInBucket(placed, folder, limit_mib)
    name = placed.namespace.name
    fix = "Mount one without readOnly, or add storage to the stack (storage.efs), or build the code into the image"
    lacks = f"the job mounts no writable volume of namespace {name}, and its stack has no bucket for folders"
    raise CommandError(f"workdir: {lacks}. {fix}.", REFUSED)
