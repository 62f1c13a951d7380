"""The folder of a job without a writable shared volume: an archive in the stack's bucket, written with the caller's
permissions."""

import hashlib
import secrets
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

from cli.cluster_access import Cluster, Object
from cli.console import say
from cli.errors import CommandError, NotFound
from cli.exit_codes import FAILED, REFUSED
from cli.installation import NAME
from cli.workdir.selection import MIB, Selection, select
from cli.workdir.sending import archive
from infra.facts.clients import Clients, Denied, query
from infra.facts.model import FactsError
from infra.jobs import bucket_workdir
from infra.jobs.files import ROLE
from infra.jobs.pieces import Piece
from infra.jobs.pods import PlacedJob
from infra.naming import KEY_BUCKET_CONFIG, KEY_BUCKET_KEY

Result = TypeVar("Result")
BUCKET, KEY, REGION = "bucket", "object", "region"
"""Keys in the ConfigMap that records the folder."""


class FolderInBucket:
    """The folder of a job about to be submitted."""

    def __init__(self, placed: PlacedJob, folder: Path, limit_mib: int) -> None:
        """Choose the files to send. Raises CommandError, before creating anything, if they cannot be sent."""
        self._placed, self._id, self._selection = placed, secrets.token_hex(4), select(folder, limit_mib)
        self._key = f"{bucket_workdir.prefix(placed.namespace.name, digest(self._selection))}{self._id}.tar.gz"
        self._region = placed.cluster.region

    def used_by(self, pieces: Sequence[Piece]) -> list[Piece]:
        return bucket_workdir.used_by(pieces, self._placed, self._key)

    def create(self, cluster: Cluster) -> None:
        """Record the folder in a ConfigMap, and send the archive. On errors, delete both and raise CommandError."""
        bucket = _bucket(cluster, self._placed.namespace.name)
        record = bucket_workdir.record(self._placed, {BUCKET: bucket, KEY: self._key, REGION: self._region}, self._id)
        cluster.create(record)
        try:
            sent = self._send(bucket)
        except BaseException:
            self.remove(cluster)
            raise
        for left_out in self._selection.left_out:
            say(f"{NAME}: not sent: {left_out}")
        say(f"{NAME}: {sent} s3://{bucket}/{self._key}")

    def _send(self, bucket: str) -> str:
        """Send the archive, or copy the archive of another job with the same files. Return a message for the user."""
        s3 = Clients(self._region).s3
        files = len(self._selection.files)
        same = bucket_workdir.prefix(self._placed.namespace.name, digest(self._selection))
        listed = _asked(self._region, bucket, lambda: s3.list_objects_v2(Bucket=bucket, Prefix=same, MaxKeys=1))
        if found := listed.get("Contents"):
            source = {"Bucket": bucket, "Key": found[0]["Key"]}
            _asked(self._region, bucket, lambda: s3.copy_object(Bucket=bucket, Key=self._key, CopySource=source))
            return f"copied {files} unchanged files to"
        with tempfile.TemporaryFile(prefix="gpumpi-workdir-") as file:
            archive(self._selection, {one.path for one in self._selection.files}, file)
            size = file.tell()
            file.seek(0)
            _asked(self._region, bucket, lambda: _upload(s3, file, bucket, self._key))
        return f"sent {files} files ({size / MIB:.1f} MiB, compressed) to"

    def remove(self, cluster: Cluster) -> None:
        """Remove the folder because its job could not be created."""
        name, namespace = f"{self._placed.job.name}-{ROLE}-{self._id}", self._placed.namespace.name
        remove(cluster, cluster.get("ConfigMap", name, namespace))


def digest(selection: Selection) -> str:
    """Return a SHA-256 over a folder's paths, file contents, executable bits and links."""
    files = [f"{one.digest} {one.executable} {one.path}\n" for one in selection.files]
    links = [f"{(selection.root / name).readlink()} link {name}\n" for name in selection.links]
    return hashlib.sha256("".join((*files, *links)).encode(errors="surrogateescape")).hexdigest()


def is_record(record: Object) -> bool:
    """Return whether a record of a job's files refers to an object in a bucket."""
    return KEY in record["data"]


def remove(cluster: Cluster, record: Object) -> None:
    """Delete the object and its record. If the object cannot be deleted, it remains until it expires."""
    data, metadata = record["data"], record["metadata"]
    s3 = Clients(data[REGION]).s3
    try:
        _asked(data[REGION], data[BUCKET], lambda: s3.delete_object(Bucket=data[BUCKET], Key=data[KEY]))
    except CommandError as error:
        say(f"{NAME}: s3://{data[BUCKET]}/{data[KEY]} was not deleted and expires by itself: {error}")
    cluster.delete("ConfigMap", metadata["name"], metadata["namespace"])


def _bucket(cluster: Cluster, namespace: str) -> str:
    try:
        name: str = cluster.get("ConfigMap", KEY_BUCKET_CONFIG, namespace)["data"][KEY_BUCKET_KEY]
    except NotFound:
        raise CommandError(f"workdir: namespace {namespace} has no bucket; run `pulumi up` for its stack", REFUSED) from None
    return name


def _upload(s3: Any, file: IO[bytes], bucket: str, key: str) -> None:
    from boto3.exceptions import S3UploadFailedError  # slow to import

    try:
        s3.upload_fileobj(file, bucket, key)
    except S3UploadFailedError as error:
        raise error.__context__ or error from None  # the original error, which `query` can translate


def _asked(region: str, bucket: str, call: Callable[[], Result]) -> Result:
    try:
        return query(region, call)
    except Denied as error:
        raise CommandError(f"workdir: your AWS credentials lack {error} for s3://{bucket}", FAILED) from None
    except FactsError as error:
        raise CommandError(f"workdir: {error}", FAILED) from None
