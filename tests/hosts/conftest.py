"""One local cloud with hosts per test module. The tests in this folder need the mark
`pytest.mark.xdist_group("hosts")`."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.hosts import capability
from localcloud.instance import LocalCloud
from tests.hosts.cluster import HandMade, Ssh, find_leftovers


@pytest.fixture(scope="session")
def skip_if_unsupported() -> None:
    """Skip the test if this machine cannot run hosts."""
    report = capability.check_machine()
    if not report.hosts:
        pytest.skip("; ".join(report.missing))


@pytest.fixture(scope="module")
def openmpi() -> str:
    """Open MPI series of the hosts' AMI; a test module may override it."""
    return "4"


@pytest.fixture(scope="module")
def cluster(skip_if_unsupported: None, openmpi: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandMade]:
    """A head node and two workers in a separate local cloud. Stopping the cloud must leave nothing behind."""
    cloud = LocalCloud(tmp_path_factory.mktemp("hosts") / "cloud")
    short = Path(tempfile.mkdtemp(prefix="ssh"))  # the path of a Unix socket can have at most 107 characters
    cloud.start(print, hosts=True)
    try:
        yield HandMade(cloud, Ssh(cloud, short), openmpi)
    finally:
        cloud.stop()
        shutil.rmtree(short, ignore_errors=True)
    assert find_leftovers(cloud) == []
