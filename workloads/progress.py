"""Prints the progress of a job for its setting `progress`. Copy the function into your program: it needs nothing else."""

import os


def report(step: int, saved: float = 0.0) -> None:
    """Print the step on rank 0, after each step and once after loading a checkpoint. `saved`: seconds that the last
    checkpoint took."""
    names = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
    if next((os.environ[name] for name in names if name in os.environ), "0") == "0":
        print(f"gpumpi-progress step={step} saved={saved:.3f}", flush=True)
