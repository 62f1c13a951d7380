"""User namespaces of containers: root in a container is an unprivileged user of this machine.

A container shares read-only files with this machine and with other containers through ID-mapped mounts, on which files
have the container's IDs: https://docs.kernel.org/filesystems/idmappings.html
"""

import ctypes
import os
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from localcloud.machine import network

FIRST_ID = 0x60000000
"""User and group on this machine that are root in a container. It is in the range that systemd reserves for containers:
https://systemd.io/UIDS-GIDS/"""
ID_COUNT = 65536

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
"""Numbers of system calls, which are the same on all architectures. The C library of Debian 12 has no functions for
them."""
_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
_MOUNT_ATTR_IDMAP = 0x00100000


def mount_with_mapped_ids(folders: Mapping[Path, Path]) -> None:
    """Mount each folder at its mount point (mount point -> folder), so that the container owns what root owns."""
    with _open_user_namespace() as namespace:
        for target, source in folders.items():
            target.mkdir(parents=True, exist_ok=True)
            mount_id_mapped(source, target, namespace)


def mount_id_mapped(source: Path, target: Path, namespace: int) -> None:
    """Mount a folder at a mount point, with the IDs that a user namespace maps. `namespace`: its file descriptor.

    https://man7.org/linux/man-pages/man2/mount_setattr.2.html
    """
    tree = _call_kernel(_OPEN_TREE, _AT_FDCWD, os.fsencode(source), _OPEN_TREE_CLONE | os.O_CLOEXEC)
    try:
        attributes = struct.pack("QQQQ", _MOUNT_ATTR_IDMAP, 0, 0, namespace)
        _call_kernel(_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, attributes, len(attributes))
        _call_kernel(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    finally:
        os.close(tree)


def check_support(folder: Path) -> None:
    """Check that an overlay of a folder with mapped IDs can be mounted in `folder`, without leaving anything behind.
    Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        lower, mapped, upper, scratch, root = (Path(work, name) for name in ("lower", "mapped", "upper", "work", "root"))
        for path in (lower, upper, scratch, root):
            path.mkdir()

        def try_overlay() -> None:
            mount_with_mapped_ids({mapped: lower})
            network.mount_overlay(root, f"lowerdir={mapped},upperdir={upper},workdir={scratch}")

        network.run_with_private_mounts(try_overlay)


@contextmanager
def _open_user_namespace() -> Iterator[int]:
    """Yield a file descriptor of a user namespace with the containers' mapping."""
    command = ["unshare", "--user", "sh", "-c", "echo; read end"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        if not process.stdout.readline():
            raise OSError(process.stderr.read().decode().strip())
        for kind in ("uid", "gid"):
            Path(f"/proc/{process.pid}/{kind}_map").write_text(f"0 {FIRST_ID} {ID_COUNT}\n")
        descriptor = os.open(f"/proc/{process.pid}/ns/user", os.O_RDONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _call_kernel(number: int, *arguments: int | bytes) -> int:
    result = int(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
