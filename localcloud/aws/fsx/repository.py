"""Synchronizes linked directories with their buckets, as FSx's automatic import and export do.

If the local AWS stores files, a thread compares each linked directory with its bucket. Exported objects record the
file's owner and permissions. Imported files have the owner and permissions that are recorded in their object:
https://docs.aws.amazon.com/fsx/latest/LustreGuide/posix-metadata-support.html
"""

import logging
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from localcloud.aws import patching
from localcloud.aws.call import backend_of
from localcloud.aws.efs import contents
from localcloud.aws.fsx.states import Association

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.5
_IMPORT, _EXPORT = "AutoImportPolicy", "AutoExportPolicy"
_METADATA = "x-amz-meta-"
_DIRECTORY_MODE, _FILE_MODE = 0o755, 0o755

_linked: dict[str, Association] = {}
"""Available associations of all accounts and Regions."""
_stopping: threading.Event | None = None
"""Event that stops the running thread; None if no thread is running."""


def find_bucket_problem(association: Association) -> str:
    """Return the reason why FSx cannot use the bucket, or "" if FSx can use the bucket."""
    s3 = backend_of("s3", association.account, association.region)
    bucket = s3.buckets.get(association.bucket)
    if bucket is None:
        return f"Amazon FSx is unable to access the S3 bucket {association.bucket}: the bucket does not exist."
    if bucket.region_name != association.region:
        return f"The S3 bucket {association.bucket} is in {bucket.region_name}, not in {association.region}."
    return ""


def link(association: Association) -> None:
    """Create the directory, import the objects if the association requests it, and keep the directory and the bucket in
    sync.
    """
    if contents.get_root_folder() is None:
        return
    get_linked_folder(association).mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    _linked[association.association_id] = association
    synchronize(association, importing=bool(association.record["BatchImportMetaDataOnCreate"]))
    _start_sync_thread()


def unlink_directory(association: Association) -> None:
    """Synchronize one last time, then stop. Files and objects are kept."""
    if _linked.pop(association.association_id, None) is not None:
        synchronize(association)


def delete_directory(association: Association) -> None:
    """Delete the files of the linked directory."""
    if contents.get_root_folder() is not None:
        shutil.rmtree(get_linked_folder(association), ignore_errors=True)


def get_linked_folder(association: Association) -> Path:
    return contents.get_file_system_root(association.record["FileSystemId"]) / str(association.record["FileSystemPath"]).strip(
        "/"
    )


def synchronize(association: Association, *, importing: bool = False) -> None:
    """Import and export the changes since the last call that the association's policies include.

    With `importing`, import new objects even if the import policy does not include them.
    """
    bucket = backend_of("s3", association.account, association.region).buckets.get(association.bucket)
    folder = get_linked_folder(association)
    if bucket is None or not folder.is_dir():
        association.lifecycle = "MISCONFIGURED" if bucket is None else association.lifecycle
        return
    imports = association.events(_IMPORT) | ({"NEW"} if importing else set())
    objects, files = _list_objects(association, bucket), dict(_list_files(folder))
    for path in sorted(objects.keys() | files.keys() | association.synced.keys()):
        with suppress(FileNotFoundError):  # a job may delete a file during this loop
            _synchronize_path(association, path, objects.get(path), files.get(path), imports)


def _synchronize_path(
    association: Association, path: str, s3_object: Any | None, file: str | None, imports: frozenset[str] | set[str]
) -> None:
    """Synchronize one path for the events that the association's policies include.

    If both the object and the file changed, importing takes precedence over exporting.
    """
    before = association.synced.get(path)
    etag = s3_object.etag if s3_object is not None else None
    changed = etag is not None and (before is None or before[0] != etag)
    if changed and ("NEW" if before is None else "CHANGED") in imports:
        association.synced[path] = (str(etag), _import_object(get_linked_folder(association) / path, s3_object))
        return
    if etag is None and before is not None and file == before[1] and "DELETED" in imports:
        _delete_path(get_linked_folder(association) / path)
        del association.synced[path]
        return
    exports = association.events(_EXPORT)
    if file is not None and (before is None or before[1] != file):
        if (before is None and s3_object is None and "NEW" in exports) or (before is not None and "CHANGED" in exports):
            association.synced[path] = (_export_file(association, get_linked_folder(association) / path, path), file)
    elif file is None and before is not None and etag == before[0] and "DELETED" in exports:
        s3 = backend_of("s3", association.account, association.region)
        s3.delete_object(association.bucket, f"{association.prefix}{path}")
        del association.synced[path]
    elif file is None and etag is None:
        association.synced.pop(path, None)


def _list_objects(association: Association, bucket: Any) -> dict[str, Any]:
    """Return the objects, keyed by their path below the linked directory."""
    from moto.s3.models import FakeDeleteMarker  # slow to import

    prefix = association.prefix
    return {
        key.removeprefix(prefix): version
        for key, version in bucket.keys.items()
        if key.startswith(prefix) and _is_valid_path(key.removeprefix(prefix)) and not isinstance(version, FakeDeleteMarker)
    }


def _is_valid_path(name: str) -> bool:
    """Return whether an object's key is a valid file path. FSx ignores objects with other keys."""
    return bool(name) and not any(part in ("", ".", "..") for part in name.rstrip("/").split("/"))


def _list_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the path and version of each file and empty directory below the folder; directories end with a slash."""
    for parent, directories, names in os.walk(folder):
        for name in directories:
            path = Path(parent, name)
            if not path.is_symlink() and not any(path.iterdir()):
                yield f"{path.relative_to(folder)}/", "directory"
        for name in names:
            path = Path(parent, name)
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue
            if path.is_file() and not path.is_symlink():
                yield str(path.relative_to(folder)), f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}"


def _import_object(path: Path, s3_object: Any) -> str:
    """Write the object as a file, or create the directory. Return the file's version."""
    metadata = s3_object.metadata
    owner = int(metadata.get(f"{_METADATA}file-owner", 0)), int(metadata.get(f"{_METADATA}file-group", 0))
    mode = int(metadata.get(f"{_METADATA}file-permissions", f"{_FILE_MODE:o}"), 8) & 0o7777
    if str(path).endswith("/") or s3_object.name.endswith("/"):
        path.mkdir(parents=True, exist_ok=True)
        version = "directory"
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.importing")
        part.write_bytes(s3_object.value)
        part.replace(path)
        status = path.lstat()
        version = f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}"
    path.chmod(mode)
    os.chown(path, *owner)
    log.info("imported %s from %s", path.name, s3_object.bucket_name)
    return version


def _export_file(association: Association, path: Path, name: str) -> str:
    """Write the file as an object, and return the object's ETag."""
    s3 = backend_of("s3", association.account, association.region)
    status = path.lstat()
    s3_object = s3.put_object(association.bucket, f"{association.prefix}{name}", b"" if path.is_dir() else path.read_bytes())
    s3_object.set_metadata(
        {
            f"{_METADATA}file-owner": str(status.st_uid),
            f"{_METADATA}file-group": str(status.st_gid),
            f"{_METADATA}file-permissions": f"{status.st_mode:07o}",
            f"{_METADATA}file-mtime": f"{status.st_mtime_ns}ns",
        }
    )
    log.info("exported %s to %s", name, association.bucket)
    return str(s3_object.etag)


def _delete_path(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _start_sync_thread() -> None:
    """Start the thread that keeps linked directories and buckets in sync. The caller holds the gateway's lock."""
    global _stopping
    if _stopping is None:
        _stopping = threading.Event()
        threading.Thread(target=_run_sync_loop, args=[_stopping], name="fsx-repository", daemon=True).start()


def _run_sync_loop(stopping: threading.Event) -> None:
    global _stopping
    from localcloud.aws import gateway

    while not stopping.wait(PAUSE_SECONDS):
        with gateway.LOCK:
            if stopping.is_set():
                return
            if not _linked:
                _stopping = None
                return
            for association in list(_linked.values()):
                try:
                    synchronize(association)
                except OSError as error:  # a job is changing files; the next round retries
                    log.warning("synchronizing %s: %r", association.association_id, error)


@patching.on_reset
def _stop_and_unlink_all() -> None:
    global _stopping
    _linked.clear()
    if _stopping is not None:
        _stopping.set()
        _stopping = None
