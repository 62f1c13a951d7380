"""Prints a job's progress for its `progress` setting. Copy the function into your program: it has no dependencies."""

import os
import statistics
from collections.abc import Sequence


def report(step: int, saved: float = 0.0, times: Sequence[float] = ()) -> None:
    """Print the step on rank 0. Call this after each step, and once after loading a checkpoint.

    `saved`: how many seconds the last checkpoint took. `times`: how many seconds each rank computed in this step before
    it waited for others, gathered from all ranks with `comm.allgather` or `torch.distributed.all_gather_object`.
    """
    names = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
    if next((os.environ[name] for name in names if name in os.environ), "0") == "0":
        slowest = max(range(len(times)), key=times.__getitem__, default=None)
        median = statistics.median(times) if times else 0.0
        ratio = times[slowest] / median if slowest is not None and median > 0 else 1.0
        more = f" slowest={slowest} ratio={ratio:.2f}" if slowest is not None else ""
        print(f"gpumpi-progress step={step} saved={saved:.3f}{more}", flush=True)
