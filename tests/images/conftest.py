"""Unpacked images for tests that inspect them or run commands in them."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from localcloud.images import build, layers
from localcloud.images.archive import list_layer_paths
from localcloud.images.catalogue import INTEL_MPI, JOB_IMAGES, OPENMPI_5, Image
from localcloud.images.root import ImageError, check_requirements


def check_image_support() -> str | None:
    try:
        check_requirements()
    except ImageError as error:
        return str(error)
    return None


needs_roots = pytest.mark.skipif(check_image_support() is not None, reason=str(check_image_support()))
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changing file owners and creating namespaces need root")


@contextmanager
def unpack_image(image: Image) -> Iterator[Path]:
    """Unpack an image's root file system, which contains 10,000 files, in memory if possible."""
    layout = build.ensure_image(image, print)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None, prefix="gpumpi-image-") as folder:
        root = Path(folder) / "root"
        for layer in list_layer_paths(layout):
            layers.apply_layer(layer, root)
        yield root


SHORT = (OPENMPI_5, INTEL_MPI)
"""Job images that `make test` tests here; `make mission` tests all of them. tests/kubernetes runs jobs with every MPI."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(one, marks=() if one in SHORT else pytest.mark.mission_only) for one in JOB_IMAGES],
    ids=lambda image: image.name,
)
def image(request: pytest.FixtureRequest) -> Image:
    """A job image. Tests run once per job image, and each image contains a different MPI."""
    chosen: Image = request.param
    return chosen


@pytest.fixture(scope="module")
def root_folder(image: Image) -> Iterator[Path]:
    with unpack_image(image) as folder:
        yield folder
