"""Folder of a job without a writable shared volume: an archive in the stack's bucket, written with the caller's permissions."""

import hashlib
import re
import secrets
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from cli.aws_queries import query_aws_for_job
from cli.clusters.kubernetes_access import Cluster, Object
from cli.console import say
from cli.errors import CommandError
from cli.installation import NAME
from cli.jobs.workdir.selection import MIB, Selection, select_files
from cli.jobs.workdir.sending import write_archive
from infra.config.messages import format_value
from infra.config.problems import Problem
from infra.facts.clients import Clients
from infra.jobs import storage
from infra.jobs.cluster import ClusterDescription
from infra.jobs.placed import PlacedJob, Storage
from infra.jobs.reading import JobRefused

Result = TypeVar("Result")
KEY: Final = "object"
"""Key in the ConfigMap that records the folder. Its value is the key of the object in the bucket."""


class FolderInBucket:
    """The folder of a job about to be submitted."""

    def __init__(self, placed: PlacedJob, folder: Path, limit_mib: int) -> None:
        """Choose the files to send. Raises CommandError, before creating anything, if they cannot be sent."""
        self._placed, self._id, self._selection = placed, secrets.token_hex(4), select_files(folder, limit_mib)
        self._key = f"{storage.build_archive_prefix(placed.namespace.name, compute_digest(self._selection))}{self._id}.tar.gz"

    @property
    def storage(self) -> Storage:
        return Storage(workdir=storage.UNPACKED_FOLDER, archive=self._key)

    def create(self, cluster: Cluster) -> None:
        """Record the folder in a ConfigMap, and send the archive. On errors, delete both and raise CommandError."""
        cluster.create(storage.build_record_config_map(self._placed, self._id, {KEY: self._key}))
        try:
            sent = self._send_archive(self._placed.cluster)
        except BaseException:
            self.remove(cluster)
            raise
        for left_out in self._selection.left_out:
            say(f"{NAME}: not sent: {left_out}")
        say(f"{NAME}: {sent} s3://{self._placed.cluster.bucket}/{self._key}")

    def _send_archive(self, cluster: ClusterDescription) -> str:
        """Send the archive, or copy the archive of another job with the same files. Return a message for the user."""
        s3, bucket = Clients(cluster.region).s3, cluster.bucket
        owner = {"ExpectedBucketOwner": cluster.account}
        files = len(self._selection.files)
        same = storage.build_archive_prefix(self._placed.namespace.name, compute_digest(self._selection))
        listed = call_s3(cluster, lambda: s3.list_objects_v2(Bucket=bucket, Prefix=same, MaxKeys=1, **owner))
        if objects := listed.get("Contents"):
            copy = {"CopySource": {"Bucket": bucket, "Key": objects[0]["Key"]}, "ExpectedSourceBucketOwner": cluster.account}
            call_s3(cluster, lambda: s3.copy_object(Bucket=bucket, Key=self._key, **copy, **owner))
            return f"copied {files} unchanged files to"
        with tempfile.TemporaryFile(prefix="gpumpi-workdir-") as file:
            write_archive(self._selection, {file.path for file in self._selection.files}, file)
            size = file.tell()
            file.seek(0)
            call_s3(cluster, lambda: _upload_file(s3, file, bucket, self._key, owner))
        return f"sent {files} files ({size / MIB:.1f} MiB, compressed) to"

    def remove(self, cluster: Cluster) -> None:
        """Remove the folder because its job could not be created."""
        delete_object(self._placed.cluster, self._key)
        cluster.delete("ConfigMap", f"{self._placed.name}-{storage.ROLE}-{self._id}", self._placed.namespace.name)


def compute_digest(selection: Selection) -> str:
    """Return a SHA-256 over a folder's paths, file contents, executable bits and links."""
    files = [f"{file.digest} {file.executable} {file.path}\n" for file in selection.files]
    links = [f"{(selection.root / name).readlink()} link {name}\n" for name in selection.links]
    return hashlib.sha256("".join((*files, *links)).encode(errors="surrogateescape")).hexdigest()


def is_bucket_record(record: Object) -> bool:
    """Return whether a record of a job's files refers to an object in the bucket."""
    return KEY in (record.get("data") or {})


def derive_object_key(record: Object, cluster: ClusterDescription, namespace: str) -> str:
    """Return the key of the object. Raises JobRefused if it is not the key of a folder of this namespace."""
    key: str = record["data"][KEY]
    pattern = storage.build_archive_prefix(re.escape(namespace), "[0-9a-f]{64}") + r"[0-9a-f]{8}\.tar\.gz"
    if not cluster.bucket or not re.fullmatch(pattern, key):
        raise JobRefused([Problem(KEY, f"{format_value(key)} is not the key of a folder of namespace {namespace}.")])
    return key


def delete_object(cluster: ClusterDescription, key: str) -> None:
    """Delete an object from the stack's bucket. If it cannot be deleted, it remains until it expires."""
    s3, bucket = Clients(cluster.region).s3, cluster.bucket
    try:
        call_s3(cluster, lambda: s3.delete_object(Bucket=bucket, Key=key, ExpectedBucketOwner=cluster.account))
    except CommandError as error:
        say(f"{NAME}: s3://{bucket}/{key} was not deleted and expires by itself: {error}")


def _upload_file(s3: Any, file: IO[bytes], bucket: str, key: str, owner: Mapping[str, str]) -> None:
    from boto3.exceptions import S3UploadFailedError  # slow to import

    try:
        s3.upload_fileobj(file, bucket, key, ExtraArgs=owner)
    except S3UploadFailedError as error:
        raise error.__context__ or error from None  # the original error, which `query` can convert


def call_s3(cluster: ClusterDescription, call: Callable[[], Result]) -> Result:
    return query_aws_for_job(cluster.region, call, "workdir", f"s3://{cluster.bucket}")
