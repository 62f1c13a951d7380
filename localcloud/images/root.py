"""Root file systems: minimal Debian systems built with mmdebstrap and modified by the provisioners of `amis/`.

Provisioners run in their own namespaces and do not change this machine. They can access only the root, the files of
`amis/`, the downloads and this machine's DNS settings.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from localcloud.tools import debian
from localcloud.tools.build import BuildError, Report
from localcloud.tools.debian import Package

PROJECT = Path(__file__).parents[2]
AMIS = PROJECT / "amis"
MOMENT = 1767225600
"""2026-01-01, the timestamp of generated files. It is fixed so that builds are reproducible."""

MMDEBSTRAP = Package("mmdebstrap", ("mmdebstrap", "mmtarfilter"))
"""mmdebstrap runs mmtarfilter to exclude files from packages."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

_PREFERENCE = "etc/apt/preferences.d/no-usrmerge"
_HOOKS = (
    "--setup-hook=for folder in bin lib lib64 sbin; do mkdir -p $1/usr/$folder; ln -s usr/$folder $1/$folder; done",
    rf"--setup-hook=printf 'Package: usrmerge\nPin: release *\nPin-Priority: -1\n' > $1/{_PREFERENCE}",
    f"--customize-hook=rm $1/{_PREFERENCE}",
)
"""Hooks that create /bin, /lib, /lib64 and /sbin as symlinks to folders in /usr. Otherwise, mmdebstrap installs
`usrmerge`, which requires 50 MB of Perl."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
WHEELS_ONLY = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/tmp/downloads", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
"""Environment variables that restrict pip to downloaded files."""
_NOT_READ = tuple(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("doc", "info", "locale", "man"))
"""dpkg options that exclude files not needed in containers. Licenses (`copyright`) are kept."""
OPTIONS = ("--variant=minbase", *_HOOKS, *_NOT_READ, "--dpkgopt=path-include=/usr/share/doc/*/copyright")

_WITH_US = ("setpriv", "--pdeathsig", "TERM")
"""Command prefix that terminates the started program if the builder is killed."""

# Script that runs in new mount, PID, IPC and UTS namespaces, so that a failed build leaves no mounts behind.
_ENTER = """
set -e
root=$1 amis=$2 downloads=$3; shift 3
hostname localhost
mount -t proc proc "$root/proc"
mount --bind /sys "$root/sys"; mount -o remount,bind,ro "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom; do : > "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
ln -s /proc/self/fd "$root/dev/fd"
for stream in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${stream%:*}" "$root/dev/${stream#*:}"; done
mkdir "$root/dev/shm"; mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mkdir "$root/tmp/amis" "$root/tmp/downloads"
mount --bind -o ro "$amis" "$root/tmp/amis"
mount --bind -o ro "$downloads" "$root/tmp/downloads"
mount --bind -o ro "$(readlink -f /etc/resolv.conf)" "$root/etc/resolv.conf"
exec chroot "$root" "$@"
"""


class ImageError(Exception):
    """An image cannot be built on this machine. The message contains the reason and the fix."""


def check_requirements() -> None:
    """Raise ImageError if this machine cannot build roots."""
    if os.geteuid() != 0:
        raise ImageError("building container images requires root. Start the local cloud as root, or without Kubernetes")
    for program in ("setpriv", "unshare"):
        if shutil.which(program) is None:
            raise ImageError(f"{program} is not on PATH, but image provisioners need it. Install the package util-linux")


def build_root(folder: Path, suite: str, report: Report, packages: Sequence[str] = ()) -> None:
    """Build a minimal Debian system in a new folder, with these additional packages."""
    try:
        programs = debian.ensure_package(MMDEBSTRAP, report)
    except BuildError as error:
        raise ImageError(str(error)) from error
    include = [f"--include={','.join(packages)}"] if packages else []
    command = [*_WITH_US, str(programs / "mmdebstrap"), "--quiet", "--mode=root", *OPTIONS, *include, suite, str(folder)]
    path = os.pathsep.join((str(programs), os.environ.get("PATH", os.defpath)))
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(MOMENT), "PATH": path}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        keys = "" if KEYRING.exists() else f" ({KEYRING} is missing; install the package debian-archive-keyring)"
        raise ImageError(f"mmdebstrap could not build Debian {suite}{keys}:\n{get_last_lines(result.stderr)}")
    resolver = folder / "etc/resolv.conf"
    resolver.unlink(missing_ok=True)  # mmdebstrap copies this machine's file; systemd-resolved later creates a symlink
    resolver.write_text("")
    (folder / "etc/hostname").unlink(missing_ok=True)


def wrap_command(root: Path, command: Sequence[str], environment: Mapping[str, str], downloads: Path) -> list[str]:
    """Return the command line that runs `command` as root inside the root file system, with `amis/` in /tmp/amis and
    wheels in /tmp/downloads."""
    inside = {"PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", **environment}
    variables = [f"{name}={value}" for name, value in inside.items()]
    namespaces = ["--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--ipc", "--uts"]
    enter = ["sh", "-c", _ENTER, "enter", str(root), str(AMIS), str(downloads), "/usr/bin/env", "-i", *variables]
    return [*_WITH_US, "unshare", *namespaces, *enter, *command]


def run_in_root(
    root: Path, command: Sequence[str], environment: Mapping[str, str], downloads: Path, *, within: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a command in a root file system and wait until the command exits. `within`: prefix of the command line."""
    whole = [*within, *wrap_command(root, command, environment, downloads)]
    return subprocess.run(whole, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def provision(root: Path, script: str, environment: Mapping[str, str], downloads: Path, *, within: Sequence[str] = ()) -> None:
    """Run one provisioner from `amis/` in a root. Raises ImageError if the provisioner fails."""
    proxies = {name: os.environ[name] for name in PROXIES if name in os.environ}
    settings = {**proxies, **WHEELS_ONLY, **environment}
    result = run_in_root(root, [f"/tmp/amis/provisioners/{script}"], settings, downloads, within=within)
    if result.returncode:
        raise ImageError(
            f"amis/provisioners/{script} failed with {result.returncode}:\n{get_last_lines(result.stdout + result.stderr)}"
        )


def get_last_lines(text: str, lines: int = 15) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
