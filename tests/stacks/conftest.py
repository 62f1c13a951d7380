"""A local cloud for whole stacks: one per test process, reset after each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.instance import LocalCloud


@pytest.fixture(scope="session")
def running_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    cloud = LocalCloud(tmp_path_factory.mktemp("cloud") / "local")
    cloud.start(print)
    yield cloud
    cloud.stop()


@pytest.fixture
def cloud(running_cloud: LocalCloud) -> Iterator[LocalCloud]:
    yield running_cloud
    running_cloud.control().clear_faults()
    running_cloud.reset()


@pytest.fixture(scope="session")
def stacks_folder() -> Path:
    return Path(__file__).parents[2] / "stacks"
