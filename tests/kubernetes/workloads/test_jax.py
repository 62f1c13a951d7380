"""JAX on two nodes trains, loses a pod, and resumes from its checkpoint."""

import re
import secrets
from pathlib import Path

import pytest

from testkit.job_cluster import JobCluster
from tests.kubernetes.workloads.submitting import cancel_on_exit, kill_worker, write_variant

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.mission_only]

NAME = "jax-mnist"
EPOCH = re.compile(r"^epoch (\d+): loss (\d+\.\d{4})$", re.MULTILINE)


def test_a_killed_training_resumes_after_its_last_epoch(job_cluster: JobCluster, tmp_path: Path) -> None:
    file = write_variant(tmp_path, NAME, ["--hold", "2"], slots=2)
    file.write_text(file.read_text().replace(f"/shared/{NAME}", f"/shared/{NAME}-{secrets.token_hex(3)}"))
    lines: list[str] = []
    with cancel_on_exit(job_cluster, NAME), job_cluster.run_in_background("submit", str(file), "--follow") as process:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:
            lines.append(line)
            if line.startswith("epoch 2:"):
                (worker,) = [pod for pod in job_cluster.pods(NAME, "worker") if pod["metadata"]["name"].endswith("-1")]
                kill_worker(job_cluster, f"gpumpi.io/job={NAME}", worker["metadata"]["name"])
        code, errors = process.wait(), process.stderr.read()
    whole = "".join(lines)
    assert code == 0, whole + errors
    epochs = EPOCH.findall(whole)
    assert [int(epoch) for epoch, _ in epochs] == list(range(1, 9)), whole
    assert float(epochs[-1][1]) < float(epochs[1][1]) < float(epochs[0][1]), "the loss keeps falling"
    assert re.search(r"^resuming from /shared/\S+: 2 epochs were completed$", whole, re.MULTILINE), whole
    verdict = re.search(r"4 processes on 2 hosts by cpu, .* s, 8 epochs: accuracy (\S+), weights equal on all", whole)
    assert verdict and float(verdict[1]) > 0.9, whole
