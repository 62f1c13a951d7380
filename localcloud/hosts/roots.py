"""Root file systems of hosts, built once and cached. The root file systems contain no files from this machine.

`bare`: a small Debian with systemd, SSH and cloud-init. It emulates the images of Canonical and Amazon, which are not
available from package registries (see docs/concepts/local-hosts.md).
`node`: a layer on top with the content of an EC2 cluster's AMI, built by the provisioners of `amis/`.
"""

import hashlib
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from localcloud.images import build, root
from localcloud.images.recipes import Provisioned, read_pinned_versions
from localcloud.images.root import AMIS, ImageError
from localcloud.tools.build import Report, hold_lock

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
"""Packages that Ubuntu's cloud images contain and that are needed at boot. The provisioners install the AMI's other
packages."""

NODE_SCRIPTS = (
    "install-python.sh",
    "install-mpi4py.sh",
    "install-openssh.sh",
    "create-user.sh",
    "install-openmpi.sh",
    "configure-node-ssh.sh",
    "configure-limits.sh",
    "install-join-service.sh",
    "configure-mpi-hosts.sh",
    "validate-mpi.sh",
)
NODE_SETTINGS: Mapping[str, str] = {"OPENMPI_SERIES": "4"}
"""Environment variables with which the provisioners build the default AMI: the Open MPI series to install."""

_SETTLE = r"""
systemctl enable systemd-networkd
printf 'system_info: {network: {renderers: [networkd]}}\nlocale: false\n' >/etc/cloud/cloud.cfg.d/10-networkd.cfg
rm -f /etc/ssh/ssh_host_*
: >/etc/machine-id
"""
"""Script that lets systemd-networkd apply cloud-init's network configuration, as on Ubuntu, and removes the SSH host
keys and the machine id."""

_OVERLAY = 'lower=$1 layer=$2; shift 2; mkdir -p "$layer.work" "$layer.root"; ' + (
    'mount -t overlay overlay -o "lowerdir=$lower,upperdir=$layer,workdir=$layer.work" "$layer.root"; exec "$@"'
)
"""Script that mounts the overlay and runs a command. The mounts disappear together with the script's mount
namespace."""
FORM = 1
"""Format version. Increase it when a code change makes the same recipe produce different root file systems."""


def get_roots_folder() -> Path:
    return build.cache_folder().parent / "roots"


def ensure_bare_root(report: Report) -> Path:
    """Return the bare root, for use as a read-only lower layer. Raises ImageError if the build fails."""
    recipe = repr((FORM, read_pinned_versions()["debian_suite"], root.OPTIONS, PACKAGES, _SETTLE))
    target = get_roots_folder() / f"bare-{_hash_recipe(recipe)}"
    with hold_lock(get_roots_folder() / "locks" / target.name):
        if not target.exists():
            _build_and_report_time(report, "a Debian root for local hosts", lambda: _build_bare_root(target, report))
    return target


def ensure_node_layer(report: Report, openmpi: str = NODE_SETTINGS["OPENMPI_SERIES"]) -> Path:
    """Return the node layer that contains this major version of Open MPI. Raises ImageError if the build fails."""
    below, settings = ensure_bare_root(report), {**NODE_SETTINGS, "OPENMPI_SERIES": openmpi}
    join = [file.read_text() for kind in ("*.py", "*.txt") for file in sorted((AMIS / "join").rglob(kind))]
    recipe = repr((below.name, Provisioned(NODE_SCRIPTS, tuple(settings.items())).render_recipe(), join))
    target = get_roots_folder() / f"node-{_hash_recipe(recipe)}"
    with hold_lock(get_roots_folder() / "locks" / target.name):
        if not target.exists():
            what = f"the EC2 cluster AMI for local hosts with Open MPI {openmpi}"
            _build_and_report_time(report, what, lambda: _build_node_layer(target, below, settings))
    return target


def _build_and_report_time(report: Report, what: str, make: Callable[[], None]) -> None:
    report(f"building {what} (once; kept in {get_roots_folder()})")
    started = time.monotonic()
    make()
    report(f"built {what} in {time.monotonic() - started:.0f} s")


def _build_bare_root(target: Path, report: Report) -> None:
    root.check_requirements()
    part = _create_empty_folder(target.with_name(f"{target.name}.part"))
    part.rmdir()
    root.build_root(part, read_pinned_versions()["debian_suite"], report, PACKAGES)
    done = root.run_in_root(part, ["/bin/sh", "-ec", _SETTLE], {}, AMIS)
    if done.returncode:
        raise ImageError(f"cannot configure the Debian root for local hosts:\n{root.get_last_lines(done.stderr)}")
    part.rename(target)


def _build_node_layer(target: Path, below: Path, own: Mapping[str, str]) -> None:
    root.check_requirements()
    layer = _create_empty_folder(target.with_name(f"{target.name}.part"))
    wheels = build.download_wheels()
    for script in NODE_SCRIPTS:
        root.provision(_get_mount_point(layer), script, own, wheels, within=_build_overlay_command(layer, [below]))
    run_in_overlay(
        layer, [below], ["/bin/sh", "-c", "apt-get clean; rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_*"], {}, wheels
    )
    for scratch in (".work", ".root"):
        shutil.rmtree(layer.with_name(layer.name + scratch))
    layer.rename(target)


def run_in_overlay(
    layer: Path, below: Sequence[Path], command: Sequence[str], environment: Mapping[str, str], wheels: Path
) -> "subprocess.CompletedProcess[str]":
    """Run a command in the merged root of `layer` and the layers `below` (top first). Changes go to `layer`."""
    return root.run_in_root(_get_mount_point(layer), command, environment, wheels, within=_build_overlay_command(layer, below))


def _build_overlay_command(layer: Path, below: Sequence[Path]) -> list[str]:
    lower = ":".join(map(str, below))
    return ["unshare", "--mount", "--propagation=private", "sh", "-ec", _OVERLAY, "overlay", lower, str(layer)]


def _get_mount_point(layer: Path) -> Path:
    """Return the mount point of the layer's overlay. The overlay is mounted only while a command runs in it."""
    return layer.with_name(f"{layer.name}.root")


def _create_empty_folder(path: Path) -> Path:
    for leftover in (path, *path.parent.glob(f"{path.name}.*")):
        shutil.rmtree(leftover, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def _hash_recipe(recipe: str) -> str:
    return hashlib.sha256(recipe.encode()).hexdigest()[:12]
