"""Layers: a step's additions, changes and removals in a root, as tar archives that depend only on the content.

https://github.com/opencontainers/image-spec/blob/v1.1.0/layer.md
"""

import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from localcloud.images.root import MOMENT

WHITEOUT = ".wh."
"""A file with this prefix removes a lower layer's file, named by the rest of its name."""

EMPTY = ("dev/", "proc/", "sys/", "tmp/", "var/tmp/")
"""Folders whose content never belongs into an image."""
ONLY_FOLDERS = ("run/", "var/cache/apt/", "var/lib/apt/lists/", "var/log/")
"""Folders whose files never belong in an image."""
UNWANTED = (
    *("etc/.pwd.lock", "etc/group-", "etc/gshadow-", "etc/passwd-", "etc/shadow-", "etc/subgid-", "etc/subuid-"),
    *("var/cache/debconf/config.dat-old", "var/cache/debconf/templates.dat-old", "var/cache/ldconfig/aux-cache"),
    *("var/lib/dpkg/diversions-old", "var/lib/dpkg/statoverride-old", "var/lib/dpkg/status-old"),
)
"""Locks, backups and caches: unneeded, and they depend on the build time."""


@dataclass(frozen=True)
class Stamp:
    """Signature of a file for detecting changes: any change of content or attributes renews the change time."""

    inode: int
    mode: int
    owner: tuple[int, int]
    changed: int


Snapshot = Mapping[str, Stamp]


def snapshot(root: Path) -> Snapshot:
    """Content of a root by path."""
    return {path: _stamp(root / path) for path in _paths(root)}


def write_difference(root: Path, before: Snapshot, target: Path) -> None:
    """Write a layer of a root's changes since the snapshot; the whole root if the snapshot is empty."""
    after = snapshot(root)
    changed = [path for path, stamp in after.items() if before.get(path) != stamp and not _is_same_folder(path, before, stamp)]
    gone = [path for path in before if path not in after and _is_highest_gone(path, before, after)]
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted([*changed, *map(_whiteout, gone)]):
            if path.rpartition("/")[2].startswith(WHITEOUT):
                archive.addfile(_made(path))
            else:
                _add(archive, root / path, path)


def write_files(files: Mapping[str, tuple[Path, int]], target: Path) -> None:
    """Write a layer of given files: path in the image -> (file, mode). All belong to root.

    Folders are not included: an entry would change the owner of a lower layer's folder. Unpacking creates missing ones.
    """
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for path, (source, mode) in sorted(files.items()):
            info = _made(path)
            info.size, info.mode = source.stat().st_size, mode
            with source.open("rb") as content:
                archive.addfile(info, content)


def unpack(layer: Path, root: Path) -> None:
    """Apply a layer to a root, including owners and removals."""
    root.mkdir(exist_ok=True)
    with tarfile.open(layer) as archive:
        for member in archive:
            folder, _, name = member.name.rpartition("/")
            if name.startswith(WHITEOUT):
                _remove(root / folder / name.removeprefix(WHITEOUT))
                continue
            existing = root / member.name
            if existing.is_symlink() or (existing.exists() and not (existing.is_dir() and member.isdir())):
                _remove(existing)  # do not write through a symbolic or hard link
            archive.extract(member, root, numeric_owner=True, filter="fully_trusted")


def _paths(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        relative = os.path.relpath(folder, root)
        prefix = "" if relative == "." else f"{relative}/"
        for name in (*folders, *files):
            path = prefix + name
            if _belongs(path, name in folders and not (root / path).is_symlink()):
                yield path


def _belongs(path: str, is_folder: bool) -> bool:
    return path not in UNWANTED and not path.startswith(EMPTY) and (is_folder or not path.startswith(ONLY_FOLDERS))


def _stamp(path: Path) -> Stamp:
    status = path.lstat()
    return Stamp(status.st_ino, status.st_mode, (status.st_uid, status.st_gid), status.st_ctime_ns)


def _is_same_folder(path: str, before: Snapshot, now: Stamp) -> bool:
    """Whether the entry is unchanged; a folder's changed list of files does not count."""
    was = before.get(path)
    return was is not None and stat.S_ISDIR(now.mode) and replace(was, changed=now.changed) == now


def _is_highest_gone(path: str, before: Snapshot, after: Snapshot) -> bool:
    """Whether the missing file's folder still exists as a folder; otherwise the folder's own entry covers the file."""
    parent = path.rpartition("/")[0]
    return not parent or (parent in after and stat.S_ISDIR(after[parent].mode))


def _whiteout(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{WHITEOUT}{name}"


def _add(archive: tarfile.TarFile, source: Path, path: str) -> None:
    info = _plain(archive.gettarinfo(source, path))
    if info.isreg():
        with source.open("rb") as content:
            archive.addfile(info, content)
    else:
        archive.addfile(info)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Drop user names of this machine. Keep times: compiled Python files are valid for a source of that very second."""
    info.uname = info.gname = ""
    info.mtime = int(info.mtime)
    return info


def _made(path: str) -> tarfile.TarInfo:
    """Entry that is not a file of a root."""
    info = tarfile.TarInfo(path)
    info.mtime = MOMENT
    return info


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for child in path.iterdir():
            _remove(child)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
