"""An EC2 cluster with Open MPI 5 in its AMI."""

import pytest

from localcloud.hosts import roots
from tests.hosts import lost_worker
from tests.hosts.cluster import HandMade

pytestmark = [pytest.mark.xdist_group("hosts"), pytest.mark.mission_only]


@pytest.fixture(scope="module")
def openmpi(skip_if_unsupported: None) -> str:
    """Build the AMI's layer now, because otherwise the first host builds it while the test waits for the workers."""
    roots.ensure_node_layer(print, "5")
    return "5"


def test_mpirun_of_open_mpi_5_uses_the_hostfile_of_the_join_service_by_default(cluster: HandMade) -> None:
    workers = cluster.await_workers()
    assert "5." in cluster.ssh(cluster.master, "mpirun --version").stdout.splitlines()[0]
    done = cluster.run_mpirun(cluster.master)
    assert done.returncode == 0, done.stderr
    hosts = [line.split()[0] for line in done.stdout.splitlines() if line.endswith(" 4 10")]
    assert sorted(hosts) == sorted(f"ip-{cluster.address(worker).replace('.', '-')}" for worker in workers for _ in range(2))


def test_a_run_that_loses_a_worker_finishes_on_the_replacement(cluster: HandMade) -> None:
    """After the loss of a worker, mpirun of Open MPI 5 may report success."""
    lost_worker.check_lost_worker(cluster)
