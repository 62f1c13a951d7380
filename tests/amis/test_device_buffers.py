"""Test transfers between GPU buffers with a CUDA-aware Open MPI. Skipped on machines without a GPU or Open MPI."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from localcloud.processes import ROOT

PROGRAM = ROOT / "bench" / "gpu" / "device_buffers.py"
SIZES = [4096, 16 << 20]


def find_missing_requirement() -> str:
    """Return why the test cannot run here, or an empty string if it can."""
    if not Path("/dev/nvidiactl").exists():
        return "this machine has no NVIDIA GPU"
    info, mpiexec = shutil.which("ompi_info"), shutil.which("mpiexec")
    if not (info and mpiexec):
        return "this machine has a GPU but no Open MPI: bench/gpu/README.md explains how to build it"
    reported = subprocess.run([info, "--parsable", "--all"], capture_output=True, text=True, check=False).stdout
    if "mpi_built_with_cuda_support:value:true" not in reported:
        return "this machine has a GPU, but its Open MPI was compiled without CUDA"
    imported = subprocess.run(["python3", "-c", "import mpi4py, numpy"], cwd="/", capture_output=True, check=False)
    return "this machine has a GPU, but its python3 lacks mpi4py or numpy" if imported.returncode else ""


@pytest.mark.skipif(bool(find_missing_requirement()), reason=find_missing_requirement())
def test_two_ranks_exchange_gpu_buffers_and_compute_the_right_sums(tmp_path: Path) -> None:
    start = ["mpiexec", "--allow-run-as-root", "--oversubscribe", "-n", "2", "python3", str(PROGRAM)]
    options = ["--bytes", ",".join(map(str, SIZES)), "--repeats", "3", "--json", str(tmp_path / "seen.json")]
    done = subprocess.run([*start, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "seen.json").read_text())
    assert report["memory"] == "device" and all(report["gpus"])
    assert [(row["bytes"], row["right"]) for row in report["sizes"]] == [(size, True) for size in SIZES]
