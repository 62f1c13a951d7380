"""The root that hosts start from: a small Debian with systemd, SSH and cloud-init, made once and kept in the user's cache.

It stands for Ubuntu's images, which no package registry has; docs/local-cloud.md says so. Nothing of this machine's own root
is in it.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Report = Callable[[str], None]

SUITE = "bookworm"
PACKAGES = (
    "ca-certificates",
    "cloud-init",
    "curl",
    "dbus",
    "iproute2",
    "kmod",
    "libpam-systemd",
    "openssh-server",
    "procps",
    "python3",
    "sudo",
    "systemd",
    "systemd-resolved",
    "systemd-sysv",
)
"""What a cloud image of Ubuntu has and our boot needs. What the AMI adds, its provisioners install."""

HOOKS = (
    # systemd-networkd carries out what cloud-init says of the network, as on Ubuntu.
    'chroot "$1" systemctl enable systemd-networkd',
    'printf "system_info: {network: {renderers: [networkd]}}\nlocale: false\n" > "$1"/etc/cloud/cloud.cfg.d/10-networkd.cfg',
    'ln -sf ../run/systemd/resolve/stub-resolv.conf "$1"/etc/resolv.conf',
    # No keys of one host for all, and no name of this machine: cloud-init makes both at first boot.
    'rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/hostname; : > "$1"/etc/machine-id',
)


class NoRoot(Exception):
    """It cannot be made here; the text says why."""


def folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = hashlib.sha256("\n".join((SUITE, *PACKAGES, *HOOKS)).encode()).hexdigest()[:12]
    return Path(base) / "gpumpi" / "roots" / f"debian-{SUITE}-{digest}"


def ensure(report: Report) -> Path:
    """The root's folder; makes it when the cache lacks it. To be mounted read-only, below something else."""
    target = folder()
    if target.exists():
        return target
    with _only_one(target):
        if not target.exists():
            _make(target, report)
    return target


def _make(target: Path, report: Report) -> None:
    program = shutil.which("mmdebstrap")
    if program is None:
        raise NoRoot("a local host's root is made with mmdebstrap; on Debian and Ubuntu: apt-get install mmdebstrap")
    if os.geteuid() != 0:
        raise NoRoot("a local host's root has files of many owners; only root can make it")
    report(f"making a Debian root for local hosts (once; kept in {target.parent})")
    started = time.monotonic()
    part = target.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    hooks = (f"--customize-hook={hook}" for hook in HOOKS)
    command = [program, "--variant=minbase", f"--include={','.join(PACKAGES)}", *hooks, SUITE, str(part)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(part, ignore_errors=True)
        raise NoRoot(f"mmdebstrap failed:\n{chr(10).join(done.stderr.strip().splitlines()[-8:])}")
    part.rename(target)
    report(f"made a Debian root for local hosts in {time.monotonic() - started:.0f} s")


@contextmanager
def _only_one(target: Path) -> Iterator[None]:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
