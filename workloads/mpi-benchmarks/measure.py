"""Measure MPI by message size: latency and bandwidth from the first to the last rank, and an allreduce over all ranks.

Run it with `mpirun -n 16 ... python3 measure.py --json FILE --plot FILE`. `--buffers device` uses GPU memory, which requires
CuPy and a CUDA-aware MPI. The exit code is nonzero if an allreduce returns a wrong sum.
"""

import argparse
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
from mpi4py import MPI
from report import Row, render_chart, render_table

WINDOW = 16
"""Number of messages in flight while measuring bandwidth."""
MINIMUM, MAXIMUM, ENOUGH_BYTES = 4, 200, 64 << 20
"""Minimum and maximum repetitions per size. Between these limits, a measurement sends about ENOUGH_BYTES."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--buffers", choices=("host", "device"), default="host", help="memory of the messages")
    parser.add_argument("--largest", type=int, default=4 << 20, help="size of the largest message in bytes")
    parser.add_argument("--json", type=Path, help="write the results to this JSON file")
    parser.add_argument("--plot", type=Path, help="write a chart to this SVG file")
    arguments = parser.parse_args()
    world = MPI.COMM_WORLD
    make = make_buffer_factory(arguments.buffers)
    sizes = [4**power for power in range(32) if 4**power <= arguments.largest]
    hosts = world.allgather(socket.gethostname())
    rows = [measure_size(world, make, size) for size in sizes] if world.size > 1 else []
    right = world.allreduce(all(row.right for row in rows), op=MPI.LAND)
    if world.rank:
        return 0 if right and rows else 1
    if not rows:
        print("there is only one rank. Use at least two workers or two slots", flush=True)
        return 1
    about = f"{world.size} ranks on {len(set(hosts))} hosts, {arguments.buffers} buffers, {describe_mpi_library()}"
    print(about, render_table(rows), sep="\n", flush=True)
    if arguments.json:
        content = {"about": about, "ranks": world.size, "hosts": hosts, "rows": [row.figures() for row in rows]}
        write_file(arguments.json, json.dumps(content, indent=1))
    if arguments.plot:
        write_file(arguments.plot, render_chart(rows, about))
    print("allreduce is right for all sizes" if right else "allreduce is WRONG", flush=True)
    return 0 if right else 1


def make_buffer_factory(kind: str) -> Callable[[int], Any]:
    """Return a function that creates a buffer of the given size in bytes, filled with 1."""
    if kind == "host":
        return lambda size: numpy.ones(size, dtype="u1")
    import cupy  # installed only in images for GPUs

    # Ranks may share a GPU. A rank that fails here would leave the others waiting.
    cupy.cuda.Device(int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0")) % cupy.cuda.runtime.getDeviceCount()).use()

    def make_buffer(size: int) -> Any:
        buffer = cupy.ones(size, dtype="u1")
        cupy.cuda.get_current_stream().synchronize()  # MPI is not aware of CUDA streams
        return buffer

    return make_buffer


def measure_size(world: MPI.Comm, make: Callable[[int], Any], size: int) -> Row:
    repeats = max(MINIMUM, min(MAXIMUM, ENOUGH_BYTES // size))
    own, other = make(size), make(size)
    round_trip = measure_average_seconds(world, lambda: run_ping_pong(world, own, other), repeats)
    window = measure_average_seconds(world, lambda: measure_flood(world, own, other), max(2, repeats // WINDOW))
    allreduce = measure_average_seconds(world, lambda: world.Allreduce(own, other, op=MPI.SUM), repeats)
    right = bool((other == world.size % 256).all())
    return Row(size, round_trip / 2 * 1e6, WINDOW * size / window / 1e6, allreduce * 1e6, right)


def measure_average_seconds(world: MPI.Comm, act: Callable[[], object], repeats: int) -> float:
    """Return the average seconds per call on the slowest rank."""
    act()
    world.Barrier()
    started = MPI.Wtime()
    for _ in range(repeats):
        act()
    return float(world.allreduce(MPI.Wtime() - started, op=MPI.MAX)) / repeats


def run_ping_pong(world: MPI.Comm, own: Any, other: Any) -> None:
    last = world.size - 1
    if world.rank == 0:
        world.Send(own, last)
        world.Recv(other, last)
    elif world.rank == last:
        world.Recv(other, 0)
        world.Send(own, 0)


def measure_flood(world: MPI.Comm, own: Any, other: Any) -> None:
    last, reply = world.size - 1, bytearray(1)
    if world.rank == 0:
        MPI.Request.Waitall([world.Isend(own, last) for _ in range(WINDOW)])
        world.Recv(reply, last)
    elif world.rank == last:
        MPI.Request.Waitall([world.Irecv(other, 0) for _ in range(WINDOW)])
        world.Send(reply, 0)


def describe_mpi_library() -> str:
    return MPI.Get_library_version().replace("\x00", "").splitlines()[0].partition(",")[0].strip()


def write_file(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    print(f"wrote {file}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
