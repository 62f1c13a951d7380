"""Debian's buildah with its own storage, which builds the recipes in `images/` without a daemon."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from localcloud.tools import debian
from localcloud.tools.build import BuildError
from localcloud.tools.debian import Package
from tests.images.conftest import check_image_support

BUILDAH: Final = Package("buildah", ("buildah",))

# buildah re-executes itself with an empty environment. Therefore only the dynamic linker's cache can point to the libraries that
# were unpacked with buildah. This script replaces the cache in a mount namespace that exists only while buildah runs.
_ENTER: Final = 'if [ -e "$1" ]; then mount --bind "$1" /etc/ld.so.cache; fi; shift; exec "$@"'


class Unusable(Exception):
    """buildah cannot be downloaded or cannot run commands on this machine."""


class Buildah:
    """Runs buildah. Stores images and containers in the test's own folder."""

    def __init__(self, folder: Path) -> None:
        if reason := check_image_support():
            raise Unusable(reason)
        try:
            self._program = debian.ensure_package(BUILDAH, print) / "buildah"
        except BuildError as error:
            raise Unusable(str(error)) from error
        self._folder, self._cache = folder, folder / "ld.so.cache"
        self._make_cache()
        settings = folder / "home/.config/containers"
        settings.mkdir(parents=True)
        (settings / "policy.json").write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}))
        storage = f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/storage"\nrunroot = "{folder}/run"\n'
        (folder / "storage.conf").write_text(storage)

    def _make_cache(self) -> None:
        folders = list(self._program.parent.parent.glob("root/usr/lib/*-linux-gnu*"))
        if not folders:
            return  # buildah is installed on this system, so the unpacked libraries are not needed
        listed = self._folder / "ld.so.conf"
        listed.write_text("\n".join([Path("/etc/ld.so.conf").read_text(), *map(str, folders)]) + "\n")
        ldconfig = shutil.which("ldconfig", path=os.pathsep.join(["/usr/sbin", "/sbin", os.environ["PATH"]])) or "ldconfig"
        subprocess.run([ldconfig, "-X", "-C", self._cache, "-f", listed], check=True)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "HOME": str(self._folder / "home"),
            "CONTAINERS_STORAGE_CONF": str(self._folder / "storage.conf"),
            "BUILDAH_ISOLATION": "chroot",
        }

    def build_command(self, *arguments: str) -> list[str]:
        enter = ["unshare", "--mount", "--propagation=private", "sh", "-ec", _ENTER, "enter", str(self._cache)]
        return [*enter, str(self._program), *arguments]

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.build_command(*arguments),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def run_checked(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        return done.stdout.strip()

    def require_commands(self, image: str) -> None:
        """Raise Unusable if buildah cannot run a command in a container of this image."""
        container = self.run_checked("from", image)
        done = self.run("run", container, "true")
        self.run_checked("rm", container)
        if done.returncode:
            raise Unusable(f"buildah cannot run commands on this machine: {done.stderr.strip()}")

    def inspect_image(self, image: str) -> dict[str, Any]:
        configuration: dict[str, Any] = json.loads(self.run_checked("inspect", "--type", "image", image))["OCIv1"]["config"]
        return configuration

    @contextmanager
    def mount_image(self, image: str) -> Iterator[Path]:
        """Yield the root file system of a new container of this image."""
        container = self.run_checked("from", image)
        try:
            yield Path(self.run_checked("mount", container))
        finally:
            self.run_checked("rm", container)
