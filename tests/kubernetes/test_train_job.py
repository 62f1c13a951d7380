"""A TrainJob on a cluster with Kubeflow Trainer and JobSet. Only `make mission` runs this test, because Trainer and
JobSet are built from source.
"""

from pathlib import Path

import pytest
from tenacity import RetryError

from localcloud.stack import LocalStack
from testkit.job_cluster import SOURCE, STACK, JobCluster
from testkit.waiting import wait_until
from tests.kubernetes.test_foreign import (
    CPU,
    NAMESPACE,
    apply_manifest,
    build_manifest,
    collect_diagnostics,
    find_job,
    foreign_job_cleanup,
)

__all__ = ["foreign_job_cleanup"]

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.mission_only, pytest.mark.usefixtures("foreign_job_cleanup")]


@pytest.fixture
def trainer_installed(job_cluster: JobCluster, tmp_path: Path) -> None:
    """Install Trainer. The fixture does not uninstall Trainer, because Trainer does not affect later tests."""
    name = f"Pulumi.{STACK}.yaml"
    with_trainer = (SOURCE / name).read_text().replace("platform:\n", "platform:\n    trainer: true\n")
    (tmp_path / name).write_text(with_trainer)
    stack = LocalStack(job_cluster.cloud, STACK, tmp_path)
    stack.prepare()
    result = stack.run("up")
    assert result.ok, result.output[-4000:]


MEET = """
import os, select, socket
rank, address = int(os.environ["PET_NODE_RANK"]), (os.environ["PET_MASTER_ADDR"], int(os.environ["PET_MASTER_PORT"]))
if rank == 0:
    with socket.create_server(("", address[1])) as server:
        peer, _ = server.accept()
        print("rank 0 of", os.environ["PET_NNODES"], "hears", peer.recv(99).decode(), flush=True)
else:
    while True:
        try:
            socket.create_connection(address).sendall(b"rank 1")
            break
        except OSError:
            select.select([], [], [], 0.2)  # rank 0 does not listen yet
"""


def test_a_train_job_runs_on_two_nodes(job_cluster: JobCluster, trainer_installed: None) -> None:
    trainer = {
        "image": "docker.io/mpioperator/mpi-pi:openmpi",
        "numNodes": 2,
        "command": ["python3", "-c", MEET],
        "resourcesPerNode": CPU,
    }
    manifest = build_manifest(
        "trainer.kubeflow.org/v1alpha1", "TrainJob", "train", runtimeRef={"name": "torch-distributed"}, trainer=trainer
    )
    name = apply_manifest(job_cluster, manifest)
    try:
        job = wait_until(lambda: find_job(job_cluster, name), lambda job: job["phase"] in ("Succeeded", "Failed"))
    except RetryError:
        pytest.fail(collect_diagnostics(job_cluster))
    assert (job["phase"], job["launcher"], job["workers"]) == ("Succeeded", "trainjob", 2), collect_diagnostics(job_cluster)
    assert "rank 0 of 2 hears rank 1" in job_cluster.cluster("logs", name, "-n", NAMESPACE).out
    (workload,) = job_cluster.list_objects("workloads", namespace=NAMESPACE)
    assert workload["metadata"]["ownerReferences"][0]["kind"] == "TrainJob"
