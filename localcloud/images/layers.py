"""Reproducible image layers: tar archives with the files that a build step added, changed or removed.

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
"""Prefix of whiteout files. The whiteout file `.wh.NAME` hides the file NAME of lower layers."""

EMPTY = ("dev/", "proc/", "sys/", "tmp/", "var/tmp/")
"""Folders whose contents are never part of an image."""
ONLY_FOLDERS = ("run/", "var/cache/apt/", "var/lib/apt/lists/", "var/log/")
"""Folders whose files, but not subfolders, are never part of an image."""
UNWANTED = (
    *("etc/.pwd.lock", "etc/group-", "etc/gshadow-", "etc/passwd-", "etc/shadow-", "etc/subgid-", "etc/subuid-"),
    *("var/cache/debconf/config.dat-old", "var/cache/debconf/templates.dat-old", "var/cache/ldconfig/aux-cache"),
    *("var/lib/dpkg/diversions-old", "var/lib/dpkg/statoverride-old", "var/lib/dpkg/status-old"),
)
"""Lock, backup and cache files, which images do not need and which differ between builds."""


@dataclass(frozen=True)
class Stamp:
    """File signature for change detection. Every change to a file's content or attributes updates its ctime
    (`changed`)."""

    inode: int
    mode: int
    owner: tuple[int, int]
    changed: int


Snapshot = Mapping[str, Stamp]


def take_snapshot(root: Path) -> Snapshot:
    """Return the signatures of all files in a root, keyed by path."""
    return {path: _read_signature(root / path) for path in _list_paths(root)}


def write_difference(root: Path, before: Snapshot, target: Path) -> None:
    """Write a layer with the changes to a root since the snapshot. With an empty snapshot, write the
    whole root."""
    after = take_snapshot(root)
    changed = [path for path, stamp in after.items() if before.get(path) != stamp and not _is_same_folder(path, before, stamp)]
    gone = [path for path in before if path not in after and _needs_whiteout(path, before, after)]
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted([*changed, *map(_build_whiteout_path, gone)]):
            if path.rpartition("/")[2].startswith(WHITEOUT):
                archive.addfile(_make_entry(path))
            else:
                _add_to_archive(archive, root / path, path)


def write_files(files: Mapping[str, tuple[Path, int]], target: Path) -> None:
    """Write a layer with `files`, which maps paths in the image to a source file and a mode. All files are owned by
    root.

    The layer has no entries for folders, because such entries would change the owner of existing folders. Unpacking creates
    missing folders.
    """
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for path, (source, mode) in sorted(files.items()):
            info = _make_entry(path)
            info.size, info.mode = source.stat().st_size, mode
            with source.open("rb") as content:
                archive.addfile(info, content)


def apply_layer(layer: Path, root: Path) -> None:
    """Apply a layer to a root, including file owners and whiteouts."""
    root.mkdir(exist_ok=True)
    with tarfile.open(layer) as archive:
        for member in archive:
            folder, _, name = member.name.rpartition("/")
            if name.startswith(WHITEOUT):
                _remove_path(root / folder / name.removeprefix(WHITEOUT))
                continue
            existing = root / member.name
            if existing.is_symlink() or (existing.exists() and not (existing.is_dir() and member.isdir())):
                _remove_path(existing)  # do not write through symbolic or hard links
            archive.extract(member, root, numeric_owner=True, filter="fully_trusted")


def _list_paths(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        relative = os.path.relpath(folder, root)
        prefix = "" if relative == "." else f"{relative}/"
        for name in (*folders, *files):
            path = prefix + name
            if _is_image_content(path, name in folders and not (root / path).is_symlink()):
                yield path


def _is_image_content(path: str, is_folder: bool) -> bool:
    return path not in UNWANTED and not path.startswith(EMPTY) and (is_folder or not path.startswith(ONLY_FOLDERS))


def _read_signature(path: Path) -> Stamp:
    status = path.lstat()
    return Stamp(status.st_ino, status.st_mode, (status.st_uid, status.st_gid), status.st_ctime_ns)


def _is_same_folder(path: str, before: Snapshot, now: Stamp) -> bool:
    """Return whether the path is a folder with unchanged attributes. Changes to the folder's contents are ignored."""
    was = before.get(path)
    return was is not None and stat.S_ISDIR(now.mode) and replace(was, changed=now.changed) == now


def _needs_whiteout(path: str, before: Snapshot, after: Snapshot) -> bool:
    """Return whether a removed file needs its own whiteout. If its folder was removed too, the folder's whiteout covers
    the file."""
    parent = path.rpartition("/")[0]
    return not parent or (parent in after and stat.S_ISDIR(after[parent].mode))


def _build_whiteout_path(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{WHITEOUT}{name}"


def _add_to_archive(archive: tarfile.TarFile, source: Path, path: str) -> None:
    info = _remove_user_names(archive.gettarinfo(source, path))
    if info.isreg():
        with source.open("rb") as content:
            archive.addfile(info, content)
    else:
        archive.addfile(info)


def _remove_user_names(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove this machine's user names. Keep mtimes, since compiled Python files refer to the mtime of their source."""
    info.uname = info.gname = ""
    info.mtime = int(info.mtime)
    return info


def _make_entry(path: str) -> tarfile.TarInfo:
    """Return a tar entry for a file that does not come from a root."""
    info = tarfile.TarInfo(path)
    info.mtime = MOMENT
    return info


def _remove_path(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for child in path.iterdir():
            _remove_path(child)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
