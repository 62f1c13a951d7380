"""A node's file system: its own /etc, /run and /var, and the machine's programs.

Bind mounts over kernel files such as /proc/meminfo make the node report the memory of its instance type.

All mounts are in the node's mount namespace and disappear with its last process. Each node has its own /var/lib/kubelet
and other standard paths, so upstream DaemonSets with hostPath volumes work.
"""

import os
import shlex
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from localcloud.kubernetes.nodes.hardware import Bind

OWN = ("etc", "run", "var")
"""Top-level folders that are private to each node."""
KERNEL = ("proc", "sys")
EXTENDED = "opt"
"""Top-level folder in which a node sees the machine's entries and can create its own: device plugins create /opt/aws.
"""
_ETC = (
    *("alternatives", "ca-certificates", "ethertypes", "group", "host.conf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"),
    *("localtime", "networks", "nsswitch.conf", "os-release", "passwd", "protocols", "rpc", "services", "ssl"),
)
"""Files in /etc that the machine's programs need. None of them contains secrets."""
_FOLDERS = (
    *("etc/cni/net.d", "etc/kubernetes/manifests"),
    *("var/cache", "var/lib/cni", "var/lib/containerd", "var/lib/kubelet", "var/log/containers", "var/log/pods", "var/tmp"),
)
_KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Kernel settings that a kubelet would otherwise change for the whole machine and never restore.
https://github.com/kubernetes/kubernetes/blob/v1.35.0/staging/src/k8s.io/component-helpers/node/util/sysctl/sysctl.go"""


@dataclass(frozen=True)
class Root:
    """Folders and symlinks that nodes share with this machine, from the top level of its file system and from /opt."""

    folders: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    """Path and target of each symlink, such as `bin` and `usr/bin`."""


def read_machine_root() -> Root:
    """Read this machine's root folder, except lost+found and the folders that nodes do not share."""
    top = sorted(os.scandir("/"), key=lambda entry: entry.name)
    skipped = {*OWN, *KERNEL, "lost+found"}
    inside = sorted(os.scandir(f"/{EXTENDED}"), key=lambda entry: entry.name) if Path(f"/{EXTENDED}").is_dir() else []
    outside = [entry for entry in top if entry.name != EXTENDED and (entry.name not in skipped or entry.is_symlink())]
    entries = [*outside, *inside]
    folders = [entry.path.lstrip("/") for entry in entries if entry.is_dir(follow_symlinks=False)]
    links = [(entry.path.lstrip("/"), str(Path(entry.path).readlink())) for entry in entries if entry.is_symlink()]
    return Root(tuple(folders), tuple(links))


def write_node_files(folder: Path, name: str, addresses: Sequence[str], name_server: str) -> None:
    """Write the contents of the node's own /etc and /var to `folder`."""
    for subfolder in _FOLDERS:
        (folder / subfolder).mkdir(parents=True, exist_ok=True)
    (folder / "var" / "tmp").chmod(0o1777)
    for link, target in (("var/run", "/run"), ("var/lock", "/run/lock")):
        (folder / link).symlink_to(target)
    for entry in _ETC:
        _copy_path(Path("/etc") / entry, folder / "etc" / entry)
    etc = folder / "etc"
    hosts = [f"{address} {name}" for address in addresses]
    (etc / "hosts").write_text("\n".join(["127.0.0.1 localhost", *hosts]) + "\n")
    (etc / "hostname").write_text(f"{name}\n")
    (etc / "resolv.conf").write_text(f"nameserver {name_server}\n")


def write_machine_id(folder: Path, machine_id: str) -> None:
    (folder / "etc" / "machine-id").write_text(f"{machine_id}\n")


def write_kernel_settings(folder: Path) -> tuple[Bind, ...]:
    """Write fake sysctl files that already contain the values a kubelet wants, so that the kubelet changes nothing."""
    folder.mkdir(parents=True)
    binds = []
    for number, (name, value) in enumerate(_KERNEL_SETTINGS.items()):
        file = folder / str(number)
        file.write_text(f"{value}\n")
        binds.append(Bind(file, Path("/proc/sys") / name))
    return tuple(binds)


def _copy_path(source: Path, target: Path) -> None:
    if source.is_symlink():
        target.symlink_to(source.readlink())
    elif source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("private"))
    elif source.exists():
        shutil.copyfile(source, target)


def build_boot_script(
    *, folder: Path, own: Path, root: Root, binds: Iterable[Bind], visible: Iterable[Path], hostname: str
) -> str:
    """Return the script of the node's PID 1. The script creates the node's root file system, enters it, and then reaps
    orphaned processes.

    `own` contains the node's /etc and /var. `visible` lists machine paths that must stay visible on the node.
    """
    top = folder / "root"
    lines = [
        "#!/bin/sh",
        "# PID 1 of the node, in its own namespaces.",
        "set -eu",
        f"root={shlex.quote(str(top))}",
        'mkdir "$root"',
        'mount -t tmpfs -o mode=0755,size=16m node "$root"',
        f'mkdir "$root/{EXTENDED}"',
    ]
    for name in root.folders:
        lines += [f'mkdir "$root"/{shlex.quote(name)}', f'mount --rbind /{shlex.quote(name)} "$root"/{shlex.quote(name)}']
    lines += [f'ln -s {shlex.quote(target)} "$root"/{shlex.quote(name)}' for name, target in root.links if name not in OWN]
    lines += [
        'mkdir "$root/etc" "$root/var" "$root/run" "$root/proc" "$root/sys"',
        *(f'mount --bind {shlex.quote(str(own / name))} "$root/{name}"' for name in ("etc", "var")),
        'mount -t tmpfs -o mode=0755 run "$root/run"',
        'mkdir "$root/run/lock" "$root/run/netns"',
        'mount -t proc proc "$root/proc"',
        'mount -t sysfs sysfs "$root/sys"',
        'mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"',
    ]
    for path in visible:
        if path.parts[1] in OWN:
            quoted = shlex.quote(str(path))
            lines += [f'mkdir -p "$root"{quoted}', f'mount --rbind {quoted} "$root"{quoted}']
    for bind in binds:
        target = f'"$root"{shlex.quote(str(bind.target))}'
        lines.append(f"if [ -e {target} ]; then mount --bind {shlex.quote(str(bind.source))} {target}; fi")
    lines += [
        'cd "$root"',
        "mkdir .machine",
        "pivot_root . .machine",
        "umount -l /.machine",
        "rmdir /.machine",
        "# Mounts must propagate between CSI drivers and the container runtime, in both directions.",
        "mount --make-rshared /",
        f"echo {shlex.quote(hostname)} > /proc/sys/kernel/hostname",
        f"touch {shlex.quote(str(folder / 'booted'))}",
        "sleep infinity &",
        "# Reaps orphaned processes, too.",
        "wait",
    ]
    return "\n".join(lines) + "\n"
