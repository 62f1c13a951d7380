"""How fast ranks talk: latency and bandwidth between the first and the last rank, allreduce of all, by size of the message.

`mpirun -n 16 ... python3 measure.py --json FILE --plot FILE`. With `--buffers device` messages lie in the memory of GPUs:
that takes CuPy and an MPI that is CUDA-aware. Ends with another exit code than 0 where an allreduce gives a wrong sum.
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
from report import Row, chart, table

WINDOW = 16
"""Messages on their way at once, for bandwidth."""
LEAST, MOST, ENOUGH_BYTES = 4, 200, 64 << 20
"""Repetitions of a size: so many as make this many bytes, within bounds."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--buffers", choices=("host", "device"), default="host", help="where messages lie")
    parser.add_argument("--largest", type=int, default=4 << 20, help="bytes of the largest message")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--plot", type=Path, help="an SVG file")
    arguments = parser.parse_args()
    world = MPI.COMM_WORLD
    make = buffers_of(arguments.buffers)
    sizes = [4**power for power in range(32) if 4**power <= arguments.largest]
    hosts = world.allgather(socket.gethostname())
    rows = [measured(world, make, size) for size in sizes] if world.size > 1 else []
    right = world.allreduce(all(row.right for row in rows), op=MPI.LAND)
    if world.rank:
        return 0 if right and rows else 1
    if not rows:
        print("there is one rank only, and nobody to talk to: give the job two workers or more slots", flush=True)
        return 1
    about = f"{world.size} ranks on {len(set(hosts))} hosts, {arguments.buffers} buffers, {library()}"
    print(about, table(rows), sep="\n", flush=True)
    if arguments.json:
        content = {"about": about, "ranks": world.size, "hosts": hosts, "rows": [row.figures() for row in rows]}
        written(arguments.json, json.dumps(content, indent=1))
    if arguments.plot:
        written(arguments.plot, chart(rows, about))
    print("allreduce is right for all sizes" if right else "allreduce is WRONG", flush=True)
    return 0 if right else 1


def buffers_of(kind: str) -> Callable[[int], Any]:
    """What makes a buffer of so many bytes, all 1."""
    if kind == "host":
        return lambda size: numpy.ones(size, dtype="u1")
    import cupy  # only where there are GPUs

    cupy.cuda.Device(int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))).use()

    def made(size: int) -> Any:
        buffer = cupy.ones(size, dtype="u1")
        cupy.cuda.get_current_stream().synchronize()  # MPI knows nothing of streams
        return buffer

    return made


def measured(world: MPI.Comm, make: Callable[[int], Any], size: int) -> Row:
    repeats = max(LEAST, min(MOST, ENOUGH_BYTES // size))
    own, other = make(size), make(size)
    there_and_back = timed(world, lambda: ping(world, own, other), repeats)
    window = timed(world, lambda: flood(world, own, other), max(2, repeats // WINDOW))
    together = timed(world, lambda: world.Allreduce(own, other, op=MPI.SUM), repeats)
    right = bool((other == world.size % 256).all())
    return Row(size, there_and_back / 2 * 1e6, WINDOW * size / window / 1e6, together * 1e6, right)


def timed(world: MPI.Comm, act: Callable[[], object], repeats: int) -> float:
    """Seconds of one, of the slowest rank."""
    act()
    world.Barrier()
    began = MPI.Wtime()
    for _ in range(repeats):
        act()
    return float(world.allreduce(MPI.Wtime() - began, op=MPI.MAX)) / repeats


def ping(world: MPI.Comm, own: Any, other: Any) -> None:
    last = world.size - 1
    if world.rank == 0:
        world.Send(own, last)
        world.Recv(other, last)
    elif world.rank == last:
        world.Recv(other, 0)
        world.Send(own, 0)


def flood(world: MPI.Comm, own: Any, other: Any) -> None:
    last, answer = world.size - 1, bytearray(1)
    if world.rank == 0:
        MPI.Request.Waitall([world.Isend(own, last) for _ in range(WINDOW)])
        world.Recv(answer, last)
    elif world.rank == last:
        MPI.Request.Waitall([world.Irecv(other, 0) for _ in range(WINDOW)])
        world.Send(answer, 0)


def library() -> str:
    return MPI.Get_library_version().replace("\x00", "").splitlines()[0].partition(",")[0].strip()


def written(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    print(f"written: {file}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
