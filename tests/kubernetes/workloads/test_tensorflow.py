"""The TensorFlow benchmark on two nodes."""

import re
from pathlib import Path

import pytest

from testkit.job_cluster import JobCluster
from tests.kubernetes.workloads.submitting import run_job, write_variant

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.mission_only]

SMALL = ["--model=resnet50", "--batch=2", "--image-size=32", "--steps=4", "--warm-up=1", "--every=2"]


@pytest.mark.mission("B", "tensorflow-benchmarks")
def test_images_per_second_are_printed_per_rank_and_in_total(job_cluster: JobCluster, tmp_path: Path) -> None:
    done = run_job(job_cluster, write_variant(tmp_path, "tensorflow-benchmarks", SMALL))
    assert done.code == 0, done.out + done.err
    assert "resnet50, 2 images of 32 x 32 per rank and step; 2 ranks; 4 steps after 1 to warm up" in done.out
    ranks = re.findall(r"^rank (\d) on (\S+): (\d+\.\d\d) images/sec$", done.out, re.MULTILINE)
    assert [(rank, host) for rank, host, _ in ranks] == [(str(n), f"tensorflow-benchmarks-worker-{n}") for n in range(2)]
    total = re.search(r"^total images/sec: (\d+\.\d\d)$", done.out, re.MULTILINE)
    assert total and float(total[1]) == pytest.approx(sum(float(each) for *_, each in ranks), abs=0.02)
