"""One local cloud with hosts for the tests of a module; they carry `pytest.mark.xdist_group("hosts")`."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.hosts import capability
from localcloud.instance import LocalCloud
from tests.hosts.cluster import HandMade, Ssh, remains


@pytest.fixture(scope="session")
def able() -> None:
    """Skip if this machine cannot run hosts."""
    found = capability.examine()
    if not found.hosts:
        pytest.skip("; ".join(found.missing))


@pytest.fixture(scope="module")
def openmpi() -> str:
    """Open MPI series on the hosts; a module may override it."""
    return "4"


@pytest.fixture(scope="module")
def cluster(able: None, openmpi: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandMade]:
    """A head node and two workers in their own local cloud. Checks that nothing remains after it stops."""
    cloud = LocalCloud(tmp_path_factory.mktemp("hosts") / "cloud")
    short = Path(tempfile.mkdtemp(prefix="ssh"))  # a socket's path has at most 107 characters
    cloud.start(print, hosts=True)
    try:
        yield HandMade(cloud, Ssh(cloud, short), openmpi)
    finally:
        cloud.stop()
        shutil.rmtree(short, ignore_errors=True)
    assert remains(cloud) == []
