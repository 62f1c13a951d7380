"""Two local clouds with Kubernetes for the tests in this folder, one for each xdist group.

kubernetes: tests that create clusters and node groups with boto3 (fixtures `account` and `cluster`)
jobs: tests that run jobs on one cluster with the whole platform (fixture `job_cluster`)
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.instance import LocalCloud
from localcloud.kubernetes import capability
from testkit.eks_clusters import Account, Running, find_leftovers
from testkit.job_cluster import JobCluster, deploy_cluster


@pytest.fixture(scope="session")
def skip_if_unsupported() -> None:
    """Skip the test if this machine cannot run real nodes."""
    capabilities = capability.check_machine()
    if not capabilities.real_nodes:
        pytest.skip("; ".join(capabilities.missing))


@pytest.fixture(scope="session")
def account(skip_if_unsupported: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """The AWS account of a local cloud with real clusters."""
    cloud = LocalCloud(tmp_path_factory.mktemp("kubernetes") / "cloud")
    cloud.start(print, kubernetes=True)
    try:
        yield Account(cloud)
    finally:
        cloud.stop()
        assert find_leftovers(cloud) == []


@pytest.fixture(scope="session")
def cluster(account: Account) -> Running:
    """A cluster that many tests share and that no test may change."""
    shared_cluster = account.create("shared")
    assert shared_cluster.describe()["status"] == "ACTIVE", shared_cluster.describe()["health"]
    return shared_cluster


@pytest.fixture
def own_cloud(skip_if_unsupported: None, tmp_path: Path) -> Iterator[LocalCloud]:
    """A separate local cloud for a test that breaks its cloud."""
    cloud = LocalCloud(tmp_path / "cloud")
    try:
        yield cloud
    finally:
        cloud.stop()
        assert find_leftovers(cloud) == []


@pytest.fixture
def job_cleanup(job_cluster: JobCluster) -> Iterator[None]:
    """Cancel all jobs after the test, even if it failed: leftover jobs hold GPUs and would block other tests."""
    yield
    for job in job_cluster.cluster("jobs", "--json").json:
        job_cluster.cluster("cancel", job["name"])


@pytest.fixture(scope="session")
def job_cluster(skip_if_unsupported: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobCluster]:
    """A cluster with the whole platform, shared by all job tests. Each test uses its own job names and deletes its
    jobs.
    """
    yield from deploy_cluster(tmp_path_factory.mktemp("jobs"))
