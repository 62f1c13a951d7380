"""Run the commands in docs/guides/coming-from.md in the order of the page."""

from pathlib import Path

import pytest

from testkit.job_cluster import JobCluster
from tests.docs.coming_from import SYSTEMS, write_examples

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("job_cleanup")]

WITHOUT_PYTORCH = ("MPIJob", "Slurm and ParallelCluster")
RESULTS = {"pi": "pi is approximately 3.14", "sums": "sum 2\n", "ddp": "weights equal on all ranks"}
RESULTS |= dict.fromkeys(("trainjob", "sky", "hyperpod"), RESULTS["ddp"])
"""Maps a job to the text that its log must contain."""


@pytest.mark.parametrize("system", [pytest.param(WITHOUT_PYTORCH[0], marks=pytest.mark.mission_only), WITHOUT_PYTORCH[1]])
def test_jobs_of_other_systems_give_the_same_results_with_our_commands(
    job_cluster: JobCluster, tmp_path: Path, system: str
) -> None:
    check_section(job_cluster, tmp_path, system)


@pytest.mark.mission_only
@pytest.mark.mission("E", "torchrun")
@pytest.mark.parametrize("system", [system for system in SYSTEMS if system not in WITHOUT_PYTORCH])
def test_pytorch_jobs_of_other_systems_give_the_same_results_with_our_commands(
    job_cluster: JobCluster, tmp_path: Path, system: str
) -> None:
    check_section(job_cluster, tmp_path, system)


def check_section(job_cluster: JobCluster, tmp_path: Path, system: str) -> None:
    """Run the commands in a system's section, and check that each job's log contains the expected result."""
    log = ""
    for command in write_examples(system, tmp_path):
        done = job_cluster.cluster(*command.arguments)
        assert done.code == 0, f"{command.arguments}\n{done.out}{done.err}"
        if command.output:
            command.output.write_text(done.out)
        if "--follow" in command.arguments:
            log = done.out
        if command.verb == "cancel":
            assert RESULTS[command.arguments[1]] in log, log
