"""A local cloud for the tests with the real engine: started for the first that needs it, one per test process."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.instance import LocalCloud
from testkit.projects import Project, control


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    local = LocalCloud(tmp_path_factory.mktemp("cloud") / "local")
    local.start(print)
    yield local
    local.stop()


@pytest.fixture
def project(cloud: LocalCloud, tmp_path: Path) -> Iterator[Project]:
    """A project without a program yet; its stacks and what they left in AWS go with the test."""
    yield Project(cloud, tmp_path / "project")
    control(cloud, "POST", "reset")
    shutil.rmtree(cloud.folder / "backend" / ".pulumi", ignore_errors=True)
