"""Finds ranks of jobs among the processes of local nodes, and makes them hang or run slowly, as a broken GPU or a
busy node would.
"""

import re
import signal
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import psutil

NUMBERS: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""Environment variables that contain the number of a process's rank: RANK (torchrun and rank.sh), OMPI_COMM_WORLD_RANK
(Open MPI), PMI_RANK (Intel MPI and MPICH)."""
SLOW_SECONDS, STOPPED_SHARE = 0.5, 0.8
"""A slow rank is stopped for the share STOPPED_SHARE of each period of SLOW_SECONDS."""

Ranks = Mapping[int, Sequence[psutil.Process]]


class NoSuchRank(ValueError):
    """The job has no such rank on these nodes. The message lists the existing ranks."""


def read_rank(environment: Mapping[str, str], job: str) -> int | None:
    """Return the number of a process's rank; None if the process is not a rank of the job.

    >>> read_rank({"MASTER_ADDR": "train-worker-0.train.mpi-jobs.svc", "OMPI_COMM_WORLD_RANK": "3"}, "train")
    3
    >>> read_rank({"MASTER_ADDR": "train-0.train.mpi-jobs.svc", "RANK": "1"}, "other")
    """
    name = re.escape(job)
    if not re.fullmatch(rf"{name}-(worker-)?\d+\.{name}\.[^.]+\.svc", environment.get("MASTER_ADDR", "")):
        return None
    numbers = (environment[key] for key in NUMBERS if environment.get(key, "").isdigit())
    return next(map(int, numbers), None)


def of_job(roots: Iterable[psutil.Process], job: str) -> Ranks:
    """Return the processes of each rank of a job. Search only the descendants of `roots`."""
    processes_by_rank: dict[int, list[psutil.Process]] = {}
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            for process in root.children(recursive=True):
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied, OSError):
                    number = read_rank(process.environ(), job)
                    if number is not None:
                        processes_by_rank.setdefault(number, []).append(process)
    return processes_by_rank


class BrokenRanks:
    """Ranks that are stopped or slowed down."""

    def __init__(self) -> None:
        self._slow: dict[str, threading.Event] = {}

    def suspend_rank(self, ranks: Ranks, job: str, rank: int) -> None:
        """Stop a rank. Raises NoSuchRank."""
        _send_signal(_find_processes(ranks, job, rank), signal.SIGSTOP)

    def slow_down_rank(self, ranks: Ranks, job: str, rank: int) -> None:
        """Pause a rank for a share of each period, until the rank ends or is restored. Raises NoSuchRank."""
        processes = _find_processes(ranks, job, rank)
        over = self._slow.setdefault(job, threading.Event())
        threading.Thread(target=_pause_periodically, args=(processes, over), daemon=True, name=f"slow {job} {rank}").start()

    def resume_ranks(self, ranks: Ranks, job: str) -> None:
        """Resume all ranks of a job."""
        over = self._slow.pop(job, None)
        if over is not None:
            over.set()
        for processes in ranks.values():
            _send_signal(processes, signal.SIGCONT)


def _find_processes(ranks: Ranks, job: str, rank: int) -> Sequence[psutil.Process]:
    if rank not in ranks:
        names = ", ".join(map(str, sorted(ranks)))
        fix = f"Choose one of: {names}" if names else "The job has no running rank."
        raise NoSuchRank(f"{job}: no rank {rank}. {fix}")
    return ranks[rank]


def _send_signal(processes: Iterable[psutil.Process], number: signal.Signals) -> bool:
    """Send a signal. Return whether any process received the signal. psutil does not signal a later process that reuses
    the pid.
    """
    sent = False
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
            sent = True
    return sent


def _pause_periodically(processes: Sequence[psutil.Process], over: threading.Event) -> None:
    while _send_signal(processes, signal.SIGSTOP) and not over.wait(SLOW_SECONDS * STOPPED_SHARE):
        _send_signal(processes, signal.SIGCONT)
        if over.wait(SLOW_SECONDS * (1 - STOPPED_SHARE)):
            return
    _send_signal(processes, signal.SIGCONT)
