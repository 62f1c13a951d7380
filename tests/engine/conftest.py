"""A local cloud for tests with the real Pulumi engine: one per test process, started on first use."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.instance import LocalCloud
from testkit.projects import Project, call_control_api


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    local = LocalCloud(tmp_path_factory.mktemp("cloud") / "local")
    local.start(print)
    yield local
    local.stop()


@pytest.fixture
def project(cloud: LocalCloud, tmp_path: Path) -> Iterator[Project]:
    """A project without a program. The fixture deletes the project's stacks and resets the local AWS after the test."""
    yield Project(cloud, tmp_path / "project")
    call_control_api(cloud, "POST", "reset")
    shutil.rmtree(cloud.folder / "backend" / ".pulumi", ignore_errors=True)
