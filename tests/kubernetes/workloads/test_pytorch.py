"""PyTorch DDP on two nodes trains and saves checkpoints. After SIGTERM, the job exits cleanly; a later run resumes."""

import re
import secrets
from pathlib import Path

import pytest

from testkit.job_cluster import JobCluster
from tests.kubernetes.workloads.submitting import cancel_on_exit, write_variant

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.mission_only]

NAME = "pytorch-ddp"
EPOCH = re.compile(r"epoch (\d+): loss \d+\.\d{4}, accuracy on unseen points \d\.\d{4}$")


@pytest.mark.mission("E", "torchrun")
@pytest.mark.mission("E", "pytorch-ddp")
def test_after_sigterm_on_one_node_all_ranks_save_and_the_job_resumes_at_the_next_step(
    job_cluster: JobCluster, tmp_path: Path
) -> None:
    file = write_variant(tmp_path, NAME, ["--hold", "2"], slots=2)
    text = file.read_text().replace("/shared/pytorch-ddp", f"/shared/pytorch-ddp-{secrets.token_hex(3)}")
    file.write_text(text)
    lines: list[str] = []
    with cancel_on_exit(job_cluster, NAME), job_cluster.run_in_background("submit", str(file), "--follow") as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            if "epoch 2:" in line and len(parse_epochs(lines)) == 2:
                evict_second_pod(job_cluster)
        code = process.wait()
        errors = process.stderr.read() if process.stderr else ""
    whole = "\n".join(lines) + errors
    assert code == 0, whole
    assert parse_epochs(lines) == [1, 2, 3, 4, 5, 6], whole
    ended = re.search(r"SIGTERM: ended in epoch 3 after step (\d+), saved to /shared/", whole)
    assert ended, whole
    assert re.search(rf"resuming from \S+: 2 epochs and {ended[1]} steps were completed", whole)
    verdict = re.search(r"4 ranks on 2 hosts by gloo, .* s, 6 epochs: accuracy (\S+), weights equal on all ranks", whole)
    assert verdict and float(verdict[1]) > 0.9, whole


def parse_epochs(lines: list[str]) -> list[int]:
    return [int(match[1]) for line in lines if (match := EPOCH.search(line))]


def evict_second_pod(cluster: JobCluster) -> None:
    """Delete the second pod with SIGTERM and a grace period, as a node drain would."""
    (pod,) = cluster.list_objects("pods", f"gpumpi.io/job={NAME},batch.kubernetes.io/job-completion-index=1")
    done = cluster.kubectl("delete", "pod", pod["metadata"]["name"], "-n", pod["metadata"]["namespace"], "--wait=false")
    assert done.code == 0, done.err
