"""Files of EFS file systems: one folder per file system while it exists. Mounts bind that folder."""

import os
import shutil
from pathlib import Path
from typing import Any

from localcloud.aws import patching

_MODE = 0o755

_root: Path | None = None


def keep_in(folder: Path) -> None:
    """Store the files of file systems in this folder. Deletes leftovers of an earlier local cloud."""
    global _root
    _root = folder
    _forget_all()
    folder.mkdir(parents=True, exist_ok=True)


def root() -> Path | None:
    """Folder of all file systems; None if they are records without files."""
    return _root


def folder_of(file_system_id: str) -> Path:
    """A file system's root directory, created on first use."""
    if _root is None:
        raise FileNotFoundError("file systems have no files: the local AWS was started without a folder for file systems")
    folder = _root / file_system_id
    if not folder.exists():
        folder.mkdir()
        folder.chmod(_MODE)
    return folder


def root_of(access_point: Any) -> Path | None:
    """Root directory of an access point's clients; None if it does not exist and has no CreationInfo.

    EFS creates it at the first mount: https://docs.aws.amazon.com/efs/latest/ug/enforce-root-directory-access-point.html
    """
    directory: dict[str, Any] = access_point.root_directory
    creation = directory.get("CreationInfo")
    folder = folder_of(access_point.file_system_id)
    for name in directory.get("Path", "/").strip("/").split("/"):
        folder = folder / name
        if not _is_directory(folder):
            if not creation or folder.is_symlink() or folder.exists():
                return None
            folder.mkdir()
            folder.chmod(int(creation["Permissions"], 8))
            os.chown(folder, creation["OwnerUid"], creation["OwnerGid"])
    return folder


def directory_of(file_system_id: str, path: str) -> Path | None:
    """A directory of a file system; None if it does not exist."""
    folder = folder_of(file_system_id)
    for name in path.strip("/").split("/"):
        folder = folder / name
        if not _is_directory(folder):
            return None
    return folder


def _is_directory(folder: Path) -> bool:
    """Does not follow symbolic links: a client could point them at files of this machine."""
    return folder.name != ".." and folder.is_dir() and not folder.is_symlink()


def remove(file_system_id: str) -> None:
    if _root is not None:
        shutil.rmtree(_root / file_system_id, ignore_errors=True)


@patching.on_reset
def _forget_all() -> None:
    if _root is not None and _root.is_dir():
        for folder in _root.glob("fs-*"):
            shutil.rmtree(folder, ignore_errors=True)
