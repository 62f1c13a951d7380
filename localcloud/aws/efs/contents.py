"""The files of file systems: a folder each, as long as the file system exists. Whatever mounts one binds it from here."""

import os
import shutil
from pathlib import Path
from typing import Any

from localcloud.aws import patching

_MODE = 0o755

_root: Path | None = None


def keep_in(folder: Path) -> None:
    """Let file systems have files, in this folder. What an earlier local cloud left there goes."""
    global _root
    _root = folder
    _forget_all()
    folder.mkdir(parents=True, exist_ok=True)


def root() -> Path | None:
    """Where all of them are; None: file systems are records without files."""
    return _root


def folder_of(file_system_id: str) -> Path:
    """A file system's own root, made when it is first looked at."""
    if _root is None:
        raise FileNotFoundError("file systems have no files: the local AWS was started without a folder for them")
    folder = _root / file_system_id
    if not folder.exists():
        folder.mkdir()
        folder.chmod(_MODE)
    return folder


def root_of(access_point: Any) -> Path | None:
    """The directory that clients of an access point see as their root; None: it is not there, and nobody said how to make it.

    EFS makes it at the first mount: https://docs.aws.amazon.com/efs/latest/ug/enforce-root-directory-access-point.html
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
    """A directory of a file system; None: it has none there."""
    folder = folder_of(file_system_id)
    for name in path.strip("/").split("/"):
        folder = folder / name
        if not _is_directory(folder):
            return None
    return folder


def _is_directory(folder: Path) -> bool:
    """Links lead nowhere: whoever writes into a file system could point them at this machine's files."""
    return folder.name != ".." and folder.is_dir() and not folder.is_symlink()


def remove(file_system_id: str) -> None:
    if _root is not None:
        shutil.rmtree(_root / file_system_id, ignore_errors=True)


@patching.on_reset
def _forget_all() -> None:
    if _root is not None and _root.is_dir():
        for folder in _root.glob("fs-*"):
            shutil.rmtree(folder, ignore_errors=True)
