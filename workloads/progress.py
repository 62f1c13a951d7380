"""Prints a job's progress for its `progress` setting. Copy the function into your program: it has no dependencies."""

import os


def report(step: int, saved: float = 0.0) -> None:
    """Print the step on rank 0. Call this after each step, and once after loading a checkpoint. `saved`: how many
    seconds the last checkpoint took.
    """
    names = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
    if next((os.environ[name] for name in names if name in os.environ), "0") == "0":
        print(f"gpumpi-progress step={step} saved={saved:.3f}", flush=True)
