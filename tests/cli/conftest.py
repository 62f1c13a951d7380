"""Fixtures: a checkout per test process, which tests must not change, and a local cloud for the stack tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.instance import LocalCloud
from tests.cli.checkout import Checkout


@pytest.fixture(scope="session")
def one_checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout.make(tmp_path_factory.mktemp("checkout") / "gpumpi")


@pytest.fixture
def checkout(one_checkout: Checkout) -> Iterator[Checkout]:
    yield one_checkout
    changes = one_checkout.changes()
    one_checkout.restore()
    assert changes == "", "the command line must not touch the user's files"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Folder of a local cloud that the test may start; the path contains spaces, so shell scripts must quote it."""
    folder = tmp_path / "a local cloud"
    yield folder
    LocalCloud(folder).stop()


@pytest.fixture(scope="session")
def running_home(one_checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder of a running local cloud that many tests share."""
    folder = tmp_path_factory.mktemp("shared") / "cloud"
    one_checkout.local("start", folder, "--no-kubernetes", "--no-hosts").succeeded()
    yield folder
    LocalCloud(folder).stop()


@pytest.fixture
def cloud_home(running_home: Path, one_checkout: Checkout) -> Iterator[Path]:
    yield running_home
    one_checkout.local("reset", running_home).succeeded()
