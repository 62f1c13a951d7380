"""Concurrent builders build an image once; errors name the missing image, program or package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from localcloud.images import build, recipes, root
from localcloud.images.catalogue import Image
from localcloud.images.recipes import Packages, Root, Source
from localcloud.images.root import ImageError
from localcloud.tools import debian
from tests.images.conftest import needs_roots

SMALL = Image("docker.io/test/small:1", "two files", (Source("Makefile", "one"), Source("README.md", "two")))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "gpumpi" / "images"


def test_concurrent_builders_build_an_image_only_once(own_cache: Path) -> None:
    program = (
        "from tests.images.test_building import SMALL\n"
        "from localcloud.images import build\n"
        "print('at', build.ensure_image(SMALL, lambda line: print(line, flush=True)))\n"
    )
    builders = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [builder.communicate(timeout=240)[0].splitlines() for builder in builders]
    built_lines = [line for lines in said for line in lines if ": built " in line]
    assert len(built_lines) == 2, "each of the two layers is built once"
    assert {lines[-1] for lines in said} == {f"at {build.get_cached_path(SMALL)}"}
    assert not list(own_cache.glob(".making-*"))


def test_the_next_builder_removes_files_left_by_a_killed_builder(own_cache: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left, at_work = own_cache / f".making-{dead.pid}-x", own_cache / f".making-{os.getpid()}-x"
    left.mkdir(parents=True)
    at_work.mkdir()
    build.ensure_image(SMALL, print)
    assert not left.exists()
    assert at_work.exists()


def test_the_error_for_an_unknown_image_lists_the_known_images() -> None:
    with pytest.raises(ImageError, match=r"docker.io/test/a:6: no such local image\. Use one of: .*openmpi:5"):
        build.ensure_named_image("docker.io/test/a:6", print)


def test_the_error_for_a_missing_program_names_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageError) as error:
        root.check_requirements()
    assert str(error.value) == "setpriv is not on PATH, but image provisioners need it. Install the package util-linux"


def test_the_error_without_apt_names_the_programs_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(root, "check_requirements", lambda: None)
    monkeypatch.setattr(debian, "SYSTEM_FOLDERS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = r"mmdebstrap, mmtarfilter: not found on PATH\. They are fetched automatically only on Debian-based systems"
    with pytest.raises(ImageError, match=missing):
        build.ensure_image(Image("docker.io/test/debian:1", "", (Root(),)), print)


@needs_roots
@pytest.mark.mission_only
def test_a_debian_root_can_be_built_without_mmdebstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "_find_installed", lambda package: None)
    root.build_root(tmp_path / "debian", recipes.read_pinned_versions()["debian_suite"], print)
    assert (tmp_path / "debian/usr/bin/dpkg").exists()
    assert not (tmp_path / "debian/usr/share/man/man1").exists()


def test_the_error_without_root_tells_the_user_to_use_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ImageError) as error:
        root.check_requirements()
    assert str(error.value) == "building container images requires root. Start the local cloud as root, or without Kubernetes"


def test_python_packages_are_pinned_with_checksums() -> None:
    requirements = Packages(("boto3", "requests")).read_requirements()
    assert requirements.count("==") == 2
    assert requirements.count("--hash=sha256:") >= 4
