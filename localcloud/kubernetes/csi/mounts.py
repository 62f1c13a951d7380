"""Mount and unmount with system calls, because a node's mount namespace may not contain the programs mount and
umount."""

import ctypes
import os
import threading
from pathlib import Path

_BIND, _READ_ONLY, _REMOUNT, _DETACH = 4096, 1, 32, 2
_CLONE_NEWNS = 0x00020000
_library = ctypes.CDLL(None, use_errno=True)
_own = os.open("/proc/self", os.O_PATH | os.O_DIRECTORY)
"""This process's folder in /proc, kept open because a node's /proc does not show this process."""


def enter_mount_namespace(pid: int) -> None:
    """Enter the mount namespace of the process `pid`. The calling process must be single-threaded."""
    assert threading.active_count() == 1, "a multithreaded process cannot change its mount namespace"
    descriptor = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    try:
        _call_libc("setns", descriptor, _CLONE_NEWNS)
    finally:
        os.close(descriptor)
    os.chdir("/")


def bind(source: Path, target: Path, *, read_only: bool) -> None:
    """Create the target and bind-mount a folder there. Do nothing if the target is already a mount point."""
    target.mkdir(parents=True, exist_ok=True, mode=0o750)
    if is_mounted(target):
        return
    _call_libc("mount", os.fsencode(source), os.fsencode(target), None, _BIND, None)
    if read_only:
        try:
            _call_libc("mount", None, os.fsencode(target), None, _BIND | _REMOUNT | _READ_ONLY, None)
        except OSError:
            unmount(target)
            raise


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
