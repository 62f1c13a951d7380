"""ChainerMN trains a digit classifier on two nodes with every MPI launcher. A failing rank ends the job."""

import re
from pathlib import Path
from typing import Any

import pytest

from testkit.job_cluster import JobCluster
from tests.kubernetes.workloads.submitting import get_job_file, run_job, write_variant

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.mission_only]

EPOCH = re.compile(r"^ +(\d+)(?: +\d+\.\d{4}){4}$", re.MULTILINE)
VERDICT = re.compile(r"^(\d+) ranks on (\d+) hosts, (\d+) epochs in .* s: accuracy (0\.\d+), weights (\w+) on all", re.MULTILINE)


@pytest.mark.mission("A", "chainermn-mnist")
@pytest.mark.parametrize("changes", [{}, {"launcher": "standalone", "slots": 2}], ids=["mpijob", "standalone"])
def test_chainermn_training_converges_and_all_ranks_have_equal_weights(
    job_cluster: JobCluster, tmp_path: Path, changes: dict[str, Any]
) -> None:
    file = write_variant(tmp_path, "chainermn-mnist", **changes) if changes else get_job_file("chainermn-mnist")
    done = run_job(job_cluster, file)
    assert done.code == 0, done.out + done.err
    assert [int(epoch) for epoch in EPOCH.findall(done.out)] == list(range(1, 11))
    match = VERDICT.search(done.out)
    assert match, done.out
    ranks, hosts, epochs, accuracy, weights = match.groups()
    assert (int(ranks), hosts, epochs, weights) == (2 * changes.get("slots", 1), "2", "10", "equal")
    assert float(accuracy) > 0.9


@pytest.mark.parametrize("launcher", ["mpijob", "standalone"])
def test_an_exception_on_one_rank_ends_the_job_on_all_nodes(job_cluster: JobCluster, tmp_path: Path, launcher: str) -> None:
    """Rank 0 waits for rank 1 in an allreduce. Without ChainerMN's exception hook, only the deadline would end the
    job.
    """
    file = write_variant(
        tmp_path, "chainermn-mnist", ["--fail", "1"], launcher=launcher, maxRestarts=0, activeDeadlineSeconds=120
    )
    done = run_job(job_cluster, file)
    assert done.code == 1
    assert "RuntimeError: requested by --fail, on chainermn-mnist-worker-1" in done.out
    assert "MPI_ABORT was invoked on rank 1" in done.out
    assert [int(epoch) for epoch in EPOCH.findall(done.out)] in ([1], [1, 2]), "rank 0 may end before it prints the second epoch"
    assert "DeadlineExceeded" not in done.out + done.err
