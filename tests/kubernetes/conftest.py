"""One local cloud with Kubernetes for all tests of this folder; they carry `pytest.mark.xdist_group("kubernetes")`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.instance import LocalCloud
from localcloud.kubernetes import capability
from testkit.eks_clusters import Account, Running, remains
from testkit.job_cluster import JobCluster, bring_up


@pytest.fixture(scope="session")
def able() -> None:
    """Skips where this machine cannot run real nodes."""
    found = capability.examine()
    if not found.real_nodes:
        pytest.skip("; ".join(found.missing))


@pytest.fixture(scope="session")
def account(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """The account of a local cloud with real clusters."""
    cloud = LocalCloud(tmp_path_factory.mktemp("kubernetes") / "cloud")
    cloud.start(print, kubernetes=True)
    try:
        yield Account(cloud)
    finally:
        cloud.stop()
        assert remains(cloud) == []


@pytest.fixture(scope="session")
def cluster(account: Account) -> Running:
    """A cluster shared by many tests, which leave it unchanged."""
    made = account.create("shared")
    assert made.describe()["status"] == "ACTIVE", made.describe()["health"]
    return made


@pytest.fixture
def own_cloud(able: None, tmp_path: Path) -> Iterator[LocalCloud]:
    """A local cloud that the test may break."""
    cloud = LocalCloud(tmp_path / "cloud")
    try:
        yield cloud
    finally:
        cloud.stop()
        assert remains(cloud) == []


@pytest.fixture
def no_jobs_left(job_cluster: JobCluster) -> Iterator[None]:
    """Also after a failed test: leftovers that hold GPUs would block every other test."""
    yield
    for job in job_cluster.cluster("jobs", "--json").json:
        job_cluster.cluster("cancel", job["name"])


@pytest.fixture(scope="session")
def job_cluster(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobCluster]:
    """A cluster with the whole platform for all job tests. Each test uses its own job names and removes its jobs."""
    yield from bring_up(tmp_path_factory.mktemp("jobs"))
