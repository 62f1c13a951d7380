"""Fixtures: a checkout per test process, which tests must not change, and a local cloud for the stack tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.instance import LocalCloud
from tests.cli.checkout import Checkout


@pytest.fixture(scope="session")
def shared_checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout.make(tmp_path_factory.mktemp("checkout") / "gpumpi")


@pytest.fixture
def checkout(shared_checkout: Checkout) -> Iterator[Checkout]:
    yield shared_checkout
    changes = shared_checkout.list_changes()
    shared_checkout.restore()
    assert changes == "", "the command line must not touch the user's files"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Folder of a local cloud that the test may start; the path contains spaces, so shell scripts must quote it."""
    folder = tmp_path / "a local cloud"
    yield folder
    LocalCloud(folder).stop()


@pytest.fixture(scope="session")
def shared_cloud_home(shared_checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder of a running local cloud that many tests share."""
    folder = tmp_path_factory.mktemp("shared") / "cloud"
    shared_checkout.run_local("start", folder, "--no-kubernetes", "--no-hosts").assert_success()
    yield folder
    LocalCloud(folder).stop()


@pytest.fixture
def cloud_home(shared_cloud_home: Path, shared_checkout: Checkout) -> Iterator[Path]:
    yield shared_cloud_home
    shared_checkout.run_local("reset", shared_cloud_home).assert_success()
