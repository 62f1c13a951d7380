"""Prints the progress of a job for its setting `progress`. Copy the function into your program: it needs nothing else."""

import os
import statistics
from collections.abc import Sequence


def report(step: int, saved: float = 0.0, times: Sequence[float] = ()) -> None:
    """Print the step on rank 0, after each step and once after loading a checkpoint. `saved`: seconds that the last
    checkpoint took. `times`: seconds that each rank computed in this step before it waited for others, gathered from all
    ranks, such as with `comm.allgather` or `torch.distributed.all_gather_object`."""
    names = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
    if next((os.environ[name] for name in names if name in os.environ), "0") == "0":
        slowest = max(range(len(times)), key=times.__getitem__, default=None)
        median = statistics.median(times) if times else 0.0
        ratio = times[slowest] / median if slowest is not None and median > 0 else 1.0
        more = f" slowest={slowest} ratio={ratio:.2f}" if slowest is not None else ""
        print(f"gpumpi-progress step={step} saved={saved:.3f}{more}", flush=True)
