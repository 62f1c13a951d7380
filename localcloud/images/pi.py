#!/usr/bin/env python3
"""Emulator of mpi-operator's example program `pi`, with the same output."""

import numpy  # type: ignore[import-not-found]  # only in the image, as mpi4py
from mpi4py import MPI  # type: ignore[import-not-found]

TESTS = 10_000_000

world = MPI.COMM_WORLD
if world.rank == 0:
    print(f"Workers: {world.size}", flush=True)
print(f"Rank {world.rank} on host {MPI.Get_processor_name()}", flush=True)

points = numpy.random.default_rng(world.rank).uniform(-1.0, 1.0, (2, TESTS))
inside = int(((points**2).sum(axis=0) <= 1.0).sum())
total = world.reduce(inside, op=MPI.SUM, root=0)
if world.rank == 0:
    print(f"pi is approximately {4 * total / TESTS / world.size:.16f}", flush=True)
