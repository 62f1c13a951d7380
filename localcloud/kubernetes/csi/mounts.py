"""Mount and unmount with system calls, because a node's mount namespace may not contain the programs mount and
umount."""

import ctypes
import os
import threading
from pathlib import Path

from localcloud.machine import user_namespaces

CLIENT = 1000
"""User and group ID of processes in pods that act as the owner of an ID-mapped mount. Images for jobs usually run as this
user, the first one that Linux distributions create."""

_BIND, _READ_ONLY, _REMOUNT, _DETACH = 4096, 1, 32, 2
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_library = ctypes.CDLL(None, use_errno=True)
_proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
"""The /proc of this process, kept open because a node's /proc does not show this process and its children."""
_own = os.open("self", os.O_PATH | os.O_DIRECTORY, dir_fd=_proc)


def enter_mount_namespace(pid: int) -> None:
    """Enter the mount namespace of the process `pid`. The calling process must be single-threaded."""
    assert threading.active_count() == 1, "a multithreaded process cannot change its mount namespace"
    descriptor = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    try:
        _call_libc("setns", descriptor, _CLONE_NEWNS)
    finally:
        os.close(descriptor)
    os.chdir("/")


def bind(source: Path, target: Path, *, read_only: bool, owner: tuple[int, int] | None = None) -> None:
    """Create the target and bind-mount a folder there. Do nothing if the target is already a mount point.

    `owner`: user and group ID in the folder as which processes of CLIENT act, like clients of an access point. All other
    processes can create nothing, and see the files of other users as those of nobody.
    """
    target.mkdir(parents=True, exist_ok=True, mode=0o750)
    if is_mounted(target):
        return
    if owner is None or owner == (CLIENT, CLIENT):
        _call_libc("mount", os.fsencode(source), os.fsencode(target), None, _BIND, None)
    else:
        _mount_id_mapped(source, target, *owner)
    if read_only:
        try:
            _call_libc("mount", None, os.fsencode(target), None, _BIND | _REMOUNT | _READ_ONLY, None)
        except OSError:
            unmount(target)
            raise


def _mount_id_mapped(source: Path, target: Path, user: int, group: int) -> None:
    namespace = _create_user_namespace(user, group)
    try:
        user_namespaces.mount_id_mapped(source, target, namespace)
    finally:
        os.close(namespace)


def _create_user_namespace(user: int, group: int) -> int:
    """Return the descriptor of a user namespace that maps the IDs to CLIENT. Only a process in a new namespace has one, so a
    child creates it, and ends after this process has opened it."""
    ready, created = os.pipe()
    ended, end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        os.write(created, bytes([ctypes.get_errno() if _library.unshare(_CLONE_NEWUSER) == -1 else 0]))
        os.read(ended, 1)
        os._exit(0)
    try:
        (code,) = os.read(ready, 1)
        if code:
            raise OSError(code, f"unshare: {os.strerror(code)}. Access points with a user need user namespaces")
        for file, number in (("uid_map", user), ("gid_map", group)):
            descriptor = os.open(f"{child}/{file}", os.O_WRONLY, dir_fd=_proc)
            try:
                os.write(descriptor, f"{number} {CLIENT} 1\n".encode())
            finally:
                os.close(descriptor)
        return os.open(f"{child}/ns/user", os.O_RDONLY, dir_fd=_proc)
    finally:
        for descriptor in (end, ready, created, ended):
            os.close(descriptor)
        os.waitpid(child, 0)


def unmount(target: Path) -> None:
    """Unmount the target and remove the mount point. Do nothing if the target does not exist."""
    while is_mounted(target):
        _call_libc("umount2", os.fsencode(target), _DETACH)
    if target.exists():
        target.rmdir()


def is_mounted(target: Path) -> bool:
    """Look for the target in mountinfo. Comparing device numbers would miss a bind mount from the file system of the
    target's parent folder."""
    with open(os.open("mountinfo", os.O_RDONLY, dir_fd=_own)) as mounts:  # noqa: PTH123
        return any(_decode_octal(line.split()[4]) == str(target) for line in mounts)


def _decode_octal(text: str) -> str:
    """Decode a path from mountinfo, where the kernel writes whitespace and backslashes as octal escapes."""
    for code in (r"\040", r"\011", r"\012", r"\134"):
        text = text.replace(code, chr(int(code[1:], 8)))
    return text


def _call_libc(name: str, *arguments: object) -> None:
    if getattr(_library, name)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
