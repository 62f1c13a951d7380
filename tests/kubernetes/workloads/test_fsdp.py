"""FSDP2 on two nodes trains a GPT, loses a pod, and resumes from shards that all ranks saved."""

import re
import secrets
from pathlib import Path

import pytest

from testkit.job_cluster import JobCluster
from tests.kubernetes.workloads.submitting import cancel_on_exit, kill_worker, write_variant

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.mission_only]

NAME = "pytorch-fsdp"
HELD = 25
STEP = re.compile(r"step (\d+): loss (\d+\.\d{4})$", re.MULTILINE)


def test_a_killed_training_resumes_from_its_shards_and_repeated_steps_have_the_same_losses(
    job_cluster: JobCluster, tmp_path: Path
) -> None:
    file, folder = write_variant(tmp_path, NAME, ["--hold", str(HELD)], slots=2), f"{NAME}-{secrets.token_hex(3)}"
    file.write_text(file.read_text().replace(f"/shared/{NAME}", f"/shared/{folder}"))
    lines: list[str] = []
    with cancel_on_exit(job_cluster, NAME), job_cluster.run_in_background("submit", str(file), "--follow") as process:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:
            lines.append(line)
            if line.startswith(f"step {HELD}:") and len(STEP.findall("".join(lines))) == HELD:
                kill_worker(job_cluster, f"gpumpi.io/job={NAME},batch.kubernetes.io/job-completion-index=1")
        code, errors = process.wait(), process.stderr.read()
    whole = "".join(lines)
    assert code == 0, whole + errors
    resumed = re.search(r"^resuming from /shared/\S+: (\d+) steps were completed$", whole, re.MULTILINE)
    assert resumed, whole + errors
    before, after = (STEP.findall(part) for part in (whole[: resumed.start()], whole[resumed.end() :]))
    first, last = int(resumed[1]), int(before[-1][0])
    # The grace period of one second may suffice to save a checkpoint on SIGTERM. Otherwise the job resumes from the last
    # background checkpoint.
    assert first in (10, 20, last) and HELD <= last <= HELD + 2, whole
    assert [int(step) for step, _ in before + after] == [*range(1, last + 1), *range(first + 1, 61)]
    assert after[: last - first] == before[first:], "the losses of the repeated steps"
    verdict = re.search(
        r"4 ranks on 2 hosts by gloo, .* 60 steps: loss on unseen text (\S+); rank 0 holds (\d+) of (\d+) p", whole
    )
    assert verdict and float(verdict[1]) < 1 and int(verdict[2]) == pytest.approx(int(verdict[3]) / 4, rel=0.01)
    (left,) = job_cluster.cloud.folder.glob(f"file-systems/*/gpumpi-jobs-mpi-jobs/{folder}")
    assert sorted(path.name for path in left.iterdir()) == ["step-50", "step-60"]
    assert len(list(left.glob("step-60/*.distcp"))) == 4, "one file per rank"
