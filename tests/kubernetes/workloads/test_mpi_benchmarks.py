"""MPI latency, bandwidth and allreduce between two nodes; the job saves the results on the shared volume."""

import json
import re
import secrets
from pathlib import Path
from xml.etree import ElementTree

import pytest

from testkit.job_cluster import JobCluster
from tests.kubernetes.workloads.submitting import run_job, write_variant

pytestmark = pytest.mark.xdist_group("jobs")

NAME = "mpi-benchmarks"
SIZES = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536]


@pytest.mark.mission_only
def test_benchmarks_measure_latency_bandwidth_and_allreduce_and_save_results_on_the_volume(
    job_cluster: JobCluster, tmp_path: Path
) -> None:
    folder = f"{NAME}-{secrets.token_hex(3)}"
    file = write_variant(tmp_path, NAME, ["--largest", str(SIZES[-1])], slots=2)
    file.write_text(file.read_text().replace(f"/shared/{NAME}/", f"/shared/{folder}/"))
    done = run_job(job_cluster, file)
    assert done.code == 0, done.out + done.err
    assert re.search(r"^4 ranks on 2 hosts, host buffers, Open MPI v5", done.out, re.MULTILINE), done.out
    rows = re.findall(r"^ +(\d+) +([\d.]+) +([\d.]+) +([\d.]+)$", done.out, re.MULTILINE)
    assert [int(row[0]) for row in rows] == SIZES
    assert all(float(figure) > 0 for row in rows for figure in row)
    assert "allreduce is right for all sizes" in done.out
    (left,) = job_cluster.cloud.folder.glob(f"file-systems/*/gpumpi-jobs-mpi-jobs/{folder}")
    figures = json.loads((left / "figures.json").read_text())
    assert [row["bytes"] for row in figures["rows"]] == SIZES
    assert len(set(figures["hosts"])) == 2
    drawing = ElementTree.parse(left / "figures.svg").getroot()
    assert len(drawing.findall("{*}polyline")) == 3
