"""`scripts/cluster acceptance` on a cluster with real nodes and emulated devices."""

import json
from pathlib import Path

import pytest

from testkit.job_cluster import SOURCE, STACK, JobCluster, build_python_command, write_job_file

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("job_cleanup")]

FOREVER = build_python_command("import signal; print('runs', flush=True); signal.pause()")
NEED_HARDWARE = {
    *("NVIDIA driver, CUDA and EFA versions", "smoke: GPU devices", "smoke: EFA devices", "smoke: CUDA kernel"),
    *("smoke: NCCL", "smoke: NCCL network", "smoke: NCCL bandwidth"),
}


@pytest.mark.mission_only
def test_acceptance_checks_a_cluster_and_refuses_to_run_beside_another_job(job_cluster: JobCluster, tmp_path: Path) -> None:
    command = ("acceptance", "-s", STACK, "--config-dir", str(SOURCE), "--output", str(tmp_path))
    assert job_cluster.cluster("submit", write_job_file(tmp_path, "foreign", command=FOREVER)).code == 0
    refused = job_cluster.cluster(*command, "--yes")
    assert refused.code == 3 and "did not create are running: job foreign in namespace mpi-jobs" in refused.err
    assert job_cluster.cluster("cancel", "foreign").code == 0
    unasked = job_cluster.cluster(*command)
    assert unasked.code == 3 and "stdin is not a terminal. Add --yes" in unasked.err
    assert "cost of what runs: " in unasked.err and list(tmp_path.glob("acceptance-*")) == []

    done = job_cluster.cluster(*command, "--yes", "--json")
    assert done.code == 0, done.out + done.err
    assert done.err.splitlines()[0].startswith("cost of what runs: 5.10 USD/h")
    report = done.json
    assert (report["ok"], report["complete"], report["notes"]) == (True, True, [])
    assert "label gpumpi.io/emulated-devices" in report["devices"]
    results = {row["name"]: row["result"] for row in report["rows"]}
    assert {name for name, result in results.items() if result == "not on this hardware"} == NEED_HARDWARE
    assert {result for name, result in results.items() if name not in NEED_HARDWARE} == {"passed"}
    assert results.keys() >= {"AMI and Kubernetes versions", "device plugins and advertised devices", "smoke: sum over all ranks"}
    assert results["a job that loses a worker still finishes"] == "passed"
    left_out = {row["name"]: row["reason"] for row in report["leftOut"]}
    assert left_out["scale from zero and back"] == "platform.autoscaler is false"
    assert left_out["smoke: GPUDirect"] == "g5.8xlarge has no GPUDirect RDMA"
    assert job_cluster.cluster("jobs", "--json").json == [], "acceptance deletes its jobs"
    (file,) = tmp_path.glob("acceptance-jobs-*.json")
    assert json.loads(file.read_text()) == report and file.with_suffix(".md").exists()
