"""Programs from Debian packages: found on PATH, otherwise unpacked from the package into the cache.

`apt-get download` and `dpkg-deb --extract` need no root, install nothing and start no service.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from localcloud.tools.build import BuildError, Report, cache_folder, hold_lock

SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders of system programs, which may be missing from a user's PATH."""

PRIVATE_LIBRARIES = ("systemd", "pulseaudio")
"""Folders of private libraries, which installed programs load from an absolute path below /usr/lib."""


@dataclass(frozen=True)
class Package:
    """A Debian package and the programs needed from it."""

    name: str
    programs: tuple[str, ...]
    folders: tuple[str, ...] = ("usr/bin", "usr/sbin")
    """Folders in the package that contain the programs."""
    installed: tuple[str, ...] = ()
    """Folders to search for the installed package, instead of the folders on PATH."""
    links: tuple[tuple[str, str], ...] = ()
    """Symlinks that installing the package would create: (program, link target in the package)."""
    alone: bool = False
    """Whether the programs work without the packages on which this package depends, such as files for web pages."""


CONTAINERD = Package("containerd", ("containerd", "containerd-shim-runc-v2", "ctr"))
RUNC = Package("runc", ("runc",))
CNI_PLUGINS = Package(
    "containernetworking-plugins",
    ("host-local", "loopback", "portmap", "ptp"),
    folders=("usr/lib/cni",),
    installed=("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"),
)
_XTABLES = ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore")
IPTABLES = Package("iptables", _XTABLES, links=tuple((name, "usr/sbin/xtables-nft-multi") for name in _XTABLES))
CONNTRACK = Package("conntrack", ("conntrack",))
NFTABLES = Package("nftables", ("nft",))
NSPAWN = Package("systemd-container", ("systemd-nspawn",))
DNSMASQ = Package("dnsmasq-base", ("dnsmasq",))
PROMETHEUS = Package("prometheus", ("prometheus", "promtool"), alone=True)
PACKAGES = (CONTAINERD, RUNC, CNI_PLUGINS, IPTABLES, CONNTRACK, NFTABLES, NSPAWN, DNSMASQ, PROMETHEUS)


def ensure_package(package: Package, report: Report) -> Path:
    """Return a folder that contains the package's programs. Raises BuildError, which explains how to install the
    package."""
    return _find_installed(package) or _unpack_package(package, report)


def _find_installed(package: Package) -> Path | None:
    """Return an installed folder that contains all programs of the package, or None. CNI plugins set `installed`, so
    they are never looked up on PATH."""
    beside = package.installed or (*os.environ.get("PATH", os.defpath).split(os.pathsep), *SYSTEM_FOLDERS)
    return next((Path(folder) for folder in beside if folder and _has_all_programs(Path(folder), package)), None)


def _has_all_programs(folder: Path, package: Package) -> bool:
    return all(os.access(folder / program, os.X_OK) for program in package.programs)


def _unpack_package(package: Package, report: Report) -> Path:
    target = cache_folder() / f"{package.name}-{_get_system_id()}" / "bin"
    if _has_all_programs(target, package):
        return target
    _require_debian(package)
    with hold_lock(target.parent):
        if not _has_all_programs(target, package):
            report(f"fetching the Debian package {package.name} (once; unpacked into {cache_folder()}, not installed)")
            root = target.parent / "root"
            _download_and_unpack(package, root, target.parent / "debs")
            _create_bin_folder(package, root, target)
    return target


def _get_system_id() -> str:
    """Return the OS release and architecture for the cache path: other releases may need other libraries."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    version = release.get("VERSION_ID") or release.get("VERSION_CODENAME") or "unknown"
    return f"{release.get('ID', 'linux')}-{version}-{platform.machine()}"


def _require_debian(package: Package) -> None:
    if missing := [program for program in ("apt-get", "dpkg-deb") if shutil.which(program) is None]:
        raise BuildError(
            f"{', '.join(package.programs)}: not found on PATH. They are fetched automatically only on Debian-based systems "
            f"({' and '.join(missing)} not found). Install them with your system's package manager"
        )


def _download_and_unpack(package: Package, root: Path, downloads: Path) -> None:
    """Download and unpack the package and any required libraries that are not installed on this machine."""
    for folder in (root, downloads):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for options in _iterate_apt_options(downloads.parent):
        packages = [package.name] if package.alone else _list_missing_packages(package.name, options)
        if packages and _run([*_build_apt_command(options), "download", *packages], downloads)[0] == 0:
            break
    else:
        raise BuildError(
            f"{', '.join(package.programs)}: not found on PATH, and apt-get could not download the package {package.name}. "
            f"Install it (apt-get install {package.name}), or give this machine access to a Debian mirror"
        )
    for archive in sorted(downloads.glob("*.deb")):
        code, text = _run(["dpkg-deb", "--extract", str(archive), str(root)], downloads)
        if code:
            raise BuildError(f"{archive.name} cannot be unpacked: {text}")
    shutil.rmtree(downloads)


def _iterate_apt_options(folder: Path) -> Iterator[list[str]]:
    """Yield apt options that select the system's package lists, then options for fresh lists in `folder`."""
    yield []
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    (folder / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    own = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={folder}"]
    _run([*_build_apt_command(own), "update"], folder)
    yield own
    shutil.rmtree(lists, ignore_errors=True)


def _build_apt_command(options: list[str]) -> list[str]:
    # Run as the current user: apt's sandbox user cannot write to the cache folder.
    return ["apt-get", "--quiet", "-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=true", *options]


def _list_missing_packages(name: str, options: list[str]) -> list[str]:
    """Return the packages that a minimal installation would add, and the package itself; empty if apt-get fails."""
    code, text = _run(
        [*_build_apt_command(options), "--simulate", "--no-install-recommends", "install", "--reinstall", name], Path("/")
    )
    if code:
        return []
    installed = [line.split()[1] for line in text.splitlines() if line.startswith("Inst ")]
    return [*dict.fromkeys([*installed, name])]


def _create_bin_folder(package: Package, root: Path, target: Path) -> None:
    """Create a folder with a symlink for each program, or with wrapper scripts if libraries were unpacked."""
    programs = {path.name: path for folder in package.folders for path in (root / folder).glob("*")}
    programs |= {name: root / file for name, file in package.links}
    libraries = [folder for folder in (root / "usr/lib").glob("*-linux-gnu*") if folder.is_dir()]
    libraries += [own for folder in libraries for name in PRIVATE_LIBRARIES if (own := folder / name).is_dir()]
    part = target.with_name("bin.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    for program in package.programs:
        if program not in programs:
            raise BuildError(f"the Debian package {package.name} does not contain {program}. Install a version that does")
        _make_program(part / program, programs[program], libraries)
    shutil.rmtree(target, ignore_errors=True)  # an older version of this project may have created the folder with fewer programs
    part.replace(target)


def _make_program(path: Path, program: Path, libraries: list[Path]) -> None:
    if not libraries:
        path.symlink_to(program)
        return
    plugins = [f'XTABLES_LIBDIR="{folder / "xtables"}"' for folder in libraries if (folder / "xtables").exists()]
    ways = ":".join(str(folder) for folder in libraries)
    settings = " ".join([f'LD_LIBRARY_PATH="{ways}"', *plugins])
    # `-a` sets argv[0], which selects the command of a multi-call program such as xtables-nft-multi.
    path.write_text(f'#!/bin/bash\nexport {settings}\nexec -a {path.name} "{program}" "$@"\n')
    path.chmod(0o755)


def _run(command: list[str], folder: Path) -> tuple[int, str]:
    result = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout
