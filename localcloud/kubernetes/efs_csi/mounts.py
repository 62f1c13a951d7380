"""Mounting, as system calls: whoever enters a node's mount namespace finds none of the machine's programs to do it by."""

import ctypes
import os
import threading
from pathlib import Path

_BIND, _READ_ONLY, _REMOUNT, _DETACH = 4096, 1, 32, 2
_CLONE_NEWNS = 0x00020000
_library = ctypes.CDLL(None, use_errno=True)
_own = os.open("/proc/self", os.O_PATH | os.O_DIRECTORY)
"""Kept open: a node's /proc knows the node's processes only."""


def enter(pid: int) -> None:
    """Let this process, which must still have one thread only, see what the process with that pid sees mounted."""
    assert threading.active_count() == 1, "a process with threads cannot change its mount namespace"
    descriptor = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    try:
        _call("setns", descriptor, _CLONE_NEWNS)
    finally:
        os.close(descriptor)
    os.chdir("/")


def bind(source: Path, target: Path, *, read_only: bool) -> None:
    """Show a folder at the target, which is made; what is shown there already stays."""
    target.mkdir(parents=True, exist_ok=True, mode=0o750)
    if is_mounted(target):
        return
    _call("mount", os.fsencode(source), os.fsencode(target), None, _BIND, None)
    if read_only:
        try:
            _call("mount", None, os.fsencode(target), None, _BIND | _REMOUNT | _READ_ONLY, None)
        except OSError:
            unmount(target)
            raise


def unmount(target: Path) -> None:
    """And remove what it was mounted on; nothing there is fine."""
    while is_mounted(target):
        _call("umount2", os.fsencode(target), _DETACH)
    if target.exists():
        target.rmdir()


def is_mounted(target: Path) -> bool:
    """A bind mount may be of the same file system as its surroundings: only the list of mounts tells."""
    with open(os.open("mountinfo", os.O_RDONLY, dir_fd=_own)) as mounts:  # noqa: PTH123
        return any(_plain(line.split()[4]) == str(target) for line in mounts)


def _plain(text: str) -> str:
    """The kernel writes blanks and backslashes as octal numbers."""
    for code in (r"\040", r"\011", r"\012", r"\134"):
        text = text.replace(code, chr(int(code[1:], 8)))
    return text


def _call(name: str, *arguments: object) -> None:
    if getattr(_library, name)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
