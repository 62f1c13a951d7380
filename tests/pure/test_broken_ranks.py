"""`local break JOB`: finds the processes of a rank, stops them, and lets them continue."""

import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from infra.jobs import mpi
from localcloud.kubernetes.nodes import ranks
from testkit.waiting import wait_until


@pytest.fixture
def rank_processes() -> Iterator[dict[int, psutil.Process]]:
    """Processes of ranks 0 and 1 of job `train`. A process of another job runs at the same time."""
    processes = []
    for job, rank in (("train", 0), ("train", 1), ("other", 0)):
        variables = {"MASTER_ADDR": mpi.host_name(job, "mpi-jobs", 0), "RANK": str(rank), "PATH": os.environ["PATH"]}
        processes.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=variables))
    try:
        yield {number: psutil.Process(process.pid) for number, process in enumerate(processes[:2])}
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def find_ranks() -> ranks.Ranks:
    return wait_until(lambda: ranks.of_job([psutil.Process()], "train"), lambda pids: set(pids) == {0, 1})


def is_stopped(process: psutil.Process) -> bool:
    return bool(process.status() == psutil.STATUS_STOPPED)


def test_suspended_rank_hangs_alone_and_can_be_resumed(rank_processes: dict[int, psutil.Process]) -> None:
    broken = ranks.BrokenRanks()
    broken.suspend_rank(find_ranks(), "train", 1)
    wait_until(lambda: is_stopped(rank_processes[1]))
    assert not is_stopped(rank_processes[0])
    broken.resume_ranks(find_ranks(), "train")
    wait_until(lambda: not is_stopped(rank_processes[1]))


def test_slow_rank_is_paused_and_resumed_repeatedly(rank_processes: dict[int, psutil.Process]) -> None:
    broken = ranks.BrokenRanks()
    broken.slow_down_rank(find_ranks(), "train", 0)
    for _ in range(2):
        wait_until(lambda: is_stopped(rank_processes[0]))
        wait_until(lambda: not is_stopped(rank_processes[0]))
    broken.resume_ranks(find_ranks(), "train")
    wait_until(lambda: not is_stopped(rank_processes[0]))


@pytest.mark.usefixtures("rank_processes")
def test_missing_rank_gets_one_line_error() -> None:
    with pytest.raises(ranks.NoSuchRank, match=r"^train: no rank 2\. Choose one of: 0, 1$"):
        ranks.BrokenRanks().suspend_rank(find_ranks(), "train", 2)
    with pytest.raises(ranks.NoSuchRank, match=r"^gone: no rank 0\. The job has no running rank\.$"):
        ranks.BrokenRanks().slow_down_rank({}, "gone", 0)


def test_processes_without_rank_number_are_not_ranks() -> None:
    launcher = {"MASTER_ADDR": mpi.host_name("train", "mpi-jobs", 0)}
    assert ranks.read_rank(launcher, "train") is None
    assert ranks.read_rank({**launcher, "PMI_RANK": "5"}, "train") == 5
