"""Choose where to store the folder and the logs of a submitted job.

The folder is on a shared volume or, without one, in the stack's bucket. The logs are on a shared volume or, with
`platform.jobLogs: cloudwatch`, in CloudWatch.
"""

import secrets
from dataclasses import replace
from pathlib import Path

from cli.clusters.kubernetes_access import Cluster
from cli.errors import CommandError
from cli.exit_codes import REFUSED
from cli.jobs import objects
from cli.jobs.workdir.in_bucket import FolderInBucket
from cli.jobs.workdir.in_cluster import Files
from infra.jobs import files
from infra.jobs.placed import PlacedJob, Storage


def choose_storage(placed: PlacedJob, folder: Path | None, limit_mib: int) -> objects.Files:
    """Choose the storage for the folder and the logs.

    Raises CommandError, before creating anything, if the folder cannot be sent.
    """
    if placed.cluster.log_group:
        sent = _choose_folder_storage(placed, folder, limit_mib) if folder is not None else None
        return LogsInCloudWatch(sent)
    return _choose_folder_storage(placed, folder, limit_mib)


class LogsInCloudWatch:
    """Storage of a job whose logs go to CloudWatch. If the job has a folder, it is stored in `folder`."""

    def __init__(self, folder: objects.Files | None) -> None:
        self._folder, self._run = folder, secrets.token_hex(4)

    @property
    def storage(self) -> Storage:
        return replace(self._folder.storage if self._folder else Storage(), log_run=self._run)

    def create(self, cluster: Cluster) -> None:
        if self._folder:
            self._folder.create(cluster)

    def remove(self, cluster: Cluster) -> None:
        if self._folder:
            self._folder.remove(cluster)


def _choose_folder_storage(placed: PlacedJob, folder: Path | None, limit_mib: int) -> objects.Files:
    has_volume = files.find_job_files(placed, "") is not None
    if folder is None or has_volume:
        return Files(placed, folder, limit_mib)
    if placed.cluster.bucket:
        return FolderInBucket(placed, folder, limit_mib)
    name = placed.namespace.name
    fix = "Mount a volume without readOnly, add storage to the stack (storage.efs), or build the code into the image"
    lacks = f"the job mounts no writable volume of namespace {name}, and its stack has no bucket for folders"
    raise CommandError(f"workdir: {lacks}. {fix}.", REFUSED)
