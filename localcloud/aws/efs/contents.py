"""Files of EFS file systems, in one local folder per file system. Each mount is a bind mount of that folder or of a
folder in it."""

import os
import shutil
from pathlib import Path
from typing import Any

from localcloud.aws import patching

_MODE = 0o755

_root: Path | None = None


def set_root_folder(folder: Path) -> None:
    """Store the files of EFS file systems in this folder, after deleting the files of any earlier local cloud."""
    global _root
    _root = folder
    _remove_all_files()
    folder.mkdir(parents=True, exist_ok=True)


def get_root_folder() -> Path | None:
    """Return the folder that contains all file systems, or None if file systems cannot store files."""
    return _root


def get_file_system_root(file_system_id: str) -> Path:
    """Return a file system's root directory, creating it on first use."""
    if _root is None:
        raise FileNotFoundError("file systems cannot store files: the local AWS was started without --file-systems")
    folder = _root / file_system_id
    if not folder.exists():
        folder.mkdir()
        folder.chmod(_MODE)
    return folder


def get_access_point_root(access_point: Any) -> Path | None:
    """Return an access point's root directory, or None if the directory is missing and CreationInfo is not set.

    EFS creates the directory at the first mount:
    https://docs.aws.amazon.com/efs/latest/ug/enforce-root-directory-access-point.html
    """
    directory: dict[str, Any] = access_point.root_directory
    creation = directory.get("CreationInfo")
    folder = get_file_system_root(access_point.file_system_id)
    for name in directory.get("Path", "/").strip("/").split("/"):
        folder = folder / name
        if not _is_directory(folder):
            if not creation or folder.is_symlink() or folder.exists():
                return None
            folder.mkdir()
            folder.chmod(int(creation["Permissions"], 8))
            os.chown(folder, creation["OwnerUid"], creation["OwnerGid"])
    return folder


def find_directory(file_system_id: str, path: str) -> Path | None:
    """Return a directory of a file system, or None if it does not exist."""
    folder = get_file_system_root(file_system_id)
    for name in path.strip("/").split("/"):
        folder = folder / name
        if not _is_directory(folder):
            return None
    return folder


def _is_directory(folder: Path) -> bool:
    """Return whether the path is a directory and not a symbolic link.

    Symbolic links are not followed, because clients could create links to files of this machine.
    """
    return folder.name != ".." and folder.is_dir() and not folder.is_symlink()


def remove_files(file_system_id: str) -> None:
    if _root is not None:
        shutil.rmtree(_root / file_system_id, ignore_errors=True)


@patching.on_reset
def _remove_all_files() -> None:
    if _root is not None and _root.is_dir():
        for folder in _root.glob("fs-*"):
            shutil.rmtree(folder, ignore_errors=True)
