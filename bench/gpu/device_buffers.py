"""Test a CUDA-aware MPI with GPU buffers, and compare its speed with a plain copy and with staging through host memory.

    mpiexec -n 2 python3 device_buffers.py [--memory host] [--bytes 65536,16777216] [--repeats 20] [--json FILE]

Two ranks exchange and sum GPU buffers and check every received byte. For each size, the program then times a transfer of
the GPU buffer by MPI and a copy within GPU memory without MPI. It also times an MPI transfer through host memory, with a
copy before and after it. `--memory host` uses host memory instead, for machines without a GPU; the figures then do not
describe GPU performance.

Requires numpy and mpi4py. GPU memory also requires the CUDA runtime library, from the CUDA toolkit or from
nvidia-cuda-runtime-cu12 on PyPI. Exit code 1: a rank received wrong data. Exit code 2: the benchmark could not run.
"""

import argparse
import ctypes
import importlib.util
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

BYTES = (4096, 65536, 1 << 20, 16 << 20, 256 << 20)
REPEATS = 20
WARM_UP = 3
"""Untimed warm-up rounds, in which MPI registers its own memory and opens the other rank's memory."""
LARGEST_SUMMED = 1 << 16
"""Upper bound of the values in a test pattern, chosen so that float32 represents sums over ranks exactly."""


class CannotRun(Exception):
    """The benchmark cannot run on this machine; the message gives the reason."""


class Buffer(Protocol):
    """Buffer of float32 values that can be passed to MPI."""

    mpi: Any

    def write(self, values: np.ndarray) -> None: ...

    def read(self, values: np.ndarray) -> None: ...

    def copy(self, other: "Buffer") -> None:
        """Copy synchronously from another buffer in the same kind of memory."""


class HostBuffer:
    """Host memory in place of GPU memory, for machines without a GPU."""

    def __init__(self, count: int) -> None:
        self.mpi = np.zeros(count, np.float32)

    def write(self, values: np.ndarray) -> None:
        np.copyto(self.mpi, values)

    def read(self, values: np.ndarray) -> None:
        np.copyto(values, self.mpi)

    def copy(self, other: Buffer) -> None:
        np.copyto(self.mpi, other.mpi)


class Cuda:
    """The CUDA runtime library and the GPU that this rank uses."""

    TO_DEVICE, TO_HOST, WITHIN = 1, 2, 3
    """cudaMemcpyKind: https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html"""

    def __init__(self, local_rank: int) -> None:
        """Create the GPU's context. Call this before MPI is initialized, so that MPI finds the context. Raises
        CannotRun.
        """
        self.library = _load_runtime()
        self.library.cudaGetErrorString.restype = ctypes.c_char_p
        self.library.cudaMemcpy.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        count = ctypes.c_int()
        self.call("cudaGetDeviceCount", ctypes.byref(count))
        if not count.value:
            raise CannotRun("CUDA found no GPU. Use --memory host on a machine without a GPU")
        self.device = local_rank % count.value
        self.call("cudaSetDevice", ctypes.c_int(self.device))
        self.call("cudaFree", ctypes.c_void_p())  # creates the context

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code:
            raise CannotRun(
                f"{name} failed with {code}: {self.library.cudaGetErrorString(code).decode()}. Use --memory host without a GPU"
            )

    def read_pci_bus_id(self) -> str:
        """Return the GPU's PCI bus ID, which is the same for all ranks that share the GPU."""
        name = ctypes.create_string_buffer(32)
        self.call("cudaDeviceGetPCIBusId", name, ctypes.c_int(len(name)), ctypes.c_int(self.device))
        return name.value.decode()

    def allocate_pinned(self, count: int) -> np.ndarray:
        """Return pinned host memory for copies at full speed. The driver frees it when the process ends."""
        address = ctypes.c_void_p()
        self.call("cudaMallocHost", ctypes.byref(address), ctypes.c_size_t(4 * count))
        assert address.value
        return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address.value))


class DeviceBuffer:
    """Buffer in GPU memory."""

    def __init__(self, cuda: Cuda, count: int) -> None:
        self.cuda, self.bytes, self.address = cuda, 4 * count, ctypes.c_void_p()
        cuda.call("cudaMalloc", ctypes.byref(self.address), ctypes.c_size_t(self.bytes))
        # mpi4py reads the address from this attribute and passes it to MPI:
        # https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": (count,),
            "typestr": "<f4",
            "data": (self.address.value, False),
            "strides": None,
        }
        self.mpi = self

    def write(self, values: np.ndarray) -> None:
        self._copy_memory(self.address, values.ctypes.data, Cuda.TO_DEVICE)

    def read(self, values: np.ndarray) -> None:
        self._copy_memory(values.ctypes.data, self.address, Cuda.TO_HOST)

    def copy(self, other: Buffer) -> None:
        assert isinstance(other, DeviceBuffer)
        self._copy_memory(self.address, other.address, Cuda.WITHIN)

    def close(self) -> None:
        self.cuda.call("cudaFree", self.address)

    def _copy_memory(self, to: Any, source: Any, kind: int) -> None:
        self.cuda.call("cudaMemcpy", to, source, self.bytes, kind)
        self.cuda.call("cudaDeviceSynchronize")  # copies within the GPU are asynchronous


@dataclass(frozen=True)
class Row:
    """Results for one size. Rates are one-way, in 10^9 bytes per second; times are in microseconds."""

    bytes: int
    right: bool
    send_gb_s: float
    copy_gb_s: float
    staged_send_gb_s: float
    allreduce_us: float
    staged_allreduce_us: float


class Pair:
    """Pair of ranks that exchange and sum buffers."""

    def __init__(self, mpi: Any, cuda: Cuda | None, repeats: int) -> None:
        self.mpi, self.world, self.cuda, self.repeats = mpi, mpi.COMM_WORLD, cuda, repeats
        self.other = 1 - self.world.rank

    def measure_size(self, count: int) -> Row:
        """Check and time buffers of `count` float32 values."""
        own, theirs = (self._allocate_buffer(count) for _ in range(2))
        stage = [self.cuda.allocate_pinned(count) if self.cuda else np.zeros(count, np.float32) for _ in range(2)]
        right = self._check_send(own, theirs, count) and self._check_sum(own, theirs, count)
        size = 4 * count
        row = Row(
            bytes=size,
            right=bool(self.world.allreduce(right, op=self.mpi.LAND)),
            send_gb_s=size / self._measure_median_seconds(lambda: self._run_ping_pong(own.mpi, theirs.mpi)) * 2e-9,
            copy_gb_s=size / self._measure_median_seconds(lambda: theirs.copy(own)) * 1e-9,
            staged_send_gb_s=size / self._measure_median_seconds(lambda: self._run_staged_ping_pong(own, theirs, *stage)) * 2e-9,
            allreduce_us=1e6 * self._measure_median_seconds(lambda: self.world.Allreduce(own.mpi, theirs.mpi)),
            staged_allreduce_us=1e6 * self._measure_median_seconds(lambda: self._run_staged_allreduce(own, theirs, *stage)),
        )
        for buffer in (own, theirs):
            if isinstance(buffer, DeviceBuffer):
                buffer.close()
        return row

    def _allocate_buffer(self, count: int) -> Buffer:
        return DeviceBuffer(self.cuda, count) if self.cuda else HostBuffer(count)

    def _make_pattern(self, rank: int, count: int) -> np.ndarray:
        """Return a test pattern that differs between ranks and between adjacent elements."""
        return ((np.arange(count) * (7 + 6 * rank) + rank + 1) % LARGEST_SUMMED).astype(np.float32)

    def _check_send(self, own: Buffer, theirs: Buffer, count: int) -> bool:
        """Exchange the ranks' buffers and return whether both have the expected contents."""
        own.write(self._make_pattern(self.world.rank, count))
        theirs.write(np.full(count, -1, np.float32))
        self.world.Sendrecv(own.mpi, dest=self.other, recvbuf=theirs.mpi, source=self.other)
        return self._has_content(theirs, self._make_pattern(self.other, count)) and self._has_content(
            own, self._make_pattern(self.world.rank, count)
        )

    def _check_sum(self, own: Buffer, total: Buffer, count: int) -> bool:
        total.write(np.full(count, -1, np.float32))
        self.world.Allreduce(own.mpi, total.mpi)
        return self._has_content(total, self._make_pattern(0, count) + self._make_pattern(1, count))

    def _has_content(self, buffer: Buffer, expected: np.ndarray) -> bool:
        received = np.empty_like(expected)
        buffer.read(received)
        return bool(np.array_equal(received, expected))

    def _run_ping_pong(self, own: Any, theirs: Any) -> None:
        """Send a buffer from rank 0 to rank 1 and another buffer back."""
        if self.world.rank == 0:
            self.world.Send(own, dest=1)
            self.world.Recv(theirs, source=1)
        else:
            self.world.Recv(theirs, source=0)
            self.world.Send(own, dest=0)

    def _run_staged_ping_pong(self, own: Buffer, theirs: Buffer, out: np.ndarray, back: np.ndarray) -> None:
        """Like `_run_ping_pong`, but copy the data to host memory before each message and back to the buffer after it."""
        for sender in (0, 1):
            if self.world.rank == sender:
                own.read(out)
                self.world.Send(out, dest=self.other)
            else:
                self.world.Recv(back, source=self.other)
                theirs.write(back)

    def _run_staged_allreduce(self, own: Buffer, total: Buffer, part: np.ndarray, whole: np.ndarray) -> None:
        own.read(part)
        self.world.Allreduce(part, whole)
        total.write(whole)

    def _measure_median_seconds(self, action: Callable[[], None]) -> float:
        """Return the median duration of a round on this rank, in seconds. The report contains the value of rank 0."""
        seconds = []
        for _ in range(WARM_UP + self.repeats):
            self.world.Barrier()
            started = self.mpi.Wtime()
            action()
            seconds.append(self.mpi.Wtime() - started)
        return max(statistics.median(seconds[WARM_UP:]), 1e-9)


def _load_runtime() -> ctypes.CDLL:
    for name in _list_runtime_paths():
        with suppress(OSError):
            return ctypes.CDLL(name)
    raise CannotRun("libcudart.so was not found. Install the CUDA toolkit or nvidia-cuda-runtime-cu12, or use --memory host")


def _list_runtime_paths() -> Iterator[str]:
    package = importlib.util.find_spec("nvidia")
    for folder in package.submodule_search_locations or () if package else ():
        yield from (str(path) for path in sorted(Path(folder).glob("*/lib/libcudart.so.*")))
    yield from ("libcudart.so", "/usr/local/cuda/lib64/libcudart.so", "libcudart.so.13", "libcudart.so.12")


def check_mpi_is_cuda_aware() -> None:
    """Raise CannotRun unless MPI is CUDA-aware: any other MPI library would treat GPU addresses as host addresses."""
    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libmpi.so" in line}
    queries = [getattr(ctypes.CDLL(library), "MPIX_Query_cuda_support", None) for library in sorted(loaded)]
    if not any(query and query() for query in queries):
        raise CannotRun(
            "this MPI was compiled without CUDA. Build Open MPI with amis/provisioners/build-openmpi.sh, or use --memory host"
        )


def _start_mpi(memory: str) -> tuple[Any, Cuda | None]:
    # mpiexec sets one of these variables: the first in Open MPI, the second in Intel MPI and MPICH
    local_rank = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", os.environ.get("MPI_LOCALRANKID", "0")))
    cuda = Cuda(local_rank) if memory == "device" else None
    from mpi4py import MPI

    if MPI.COMM_WORLD.size != 2:
        raise CannotRun(f"needs 2 ranks (got {MPI.COMM_WORLD.size}). Start it with: mpiexec -n 2")
    if cuda:
        check_mpi_is_cuda_aware()
    return MPI, cuda


def _format_table(rows: list[Row]) -> Iterator[str]:
    titles = ("bytes", "right", "send GB/s", "plain copy", "send, staged", "allreduce us", "allreduce us, staged")
    yield "  ".join(title.rjust(12) for title in titles)
    for row in rows:
        rates = (row.send_gb_s, row.copy_gb_s, row.staged_send_gb_s)
        times = (row.allreduce_us, row.staged_allreduce_us)
        cells = (
            str(row.bytes),
            "yes" if row.right else "NO",
            *(f"{rate:.3f}" for rate in rates),
            *(f"{time_us:.1f}" for time_us in times),
        )
        yield "  ".join(cell.rjust(max(12, len(title))) for cell, title in zip(cells, titles, strict=True))


def _parse_sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part) for part in text.split(","))
    if any(size < 4 or size % 4 for size in sizes):
        raise argparse.ArgumentTypeError("sizes must be multiples of 4, the size of a float32 in bytes")
    return sizes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", choices=("device", "host"), default="device")
    parser.add_argument("--bytes", type=_parse_sizes, default=BYTES)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    chosen = parser.parse_args()
    try:
        mpi, cuda = _start_mpi(chosen.memory)
    except CannotRun as error:
        print(f"device_buffers: {error}", file=sys.stderr, flush=True)
        return 2
    try:
        pair = Pair(mpi, cuda, chosen.repeats)
        rows = [pair.measure_size(size // 4) for size in chosen.bytes]
        gpus = pair.world.gather(cuda.read_pci_bus_id() if cuda else None)
    except Exception as error:  # the other rank is waiting for this rank, so abort both
        print(f"device_buffers: {error}", file=sys.stderr, flush=True)
        mpi.COMM_WORLD.Abort(2)
    if pair.world.rank == 0:
        _print_report(mpi.Get_library_version().split(",")[0], gpus, rows, chosen)
    return 0 if all(row.right for row in rows) else 1


def _print_report(library: str, gpus: list[str | None], rows: list[Row], chosen: argparse.Namespace) -> None:
    names = sorted({gpu for gpu in gpus if gpu})
    where = f"GPU memory of {' and '.join(names)}" if names else "host memory"
    print(f"{library}, {where}")
    print("\n".join(_format_table(rows)), flush=True)
    if chosen.json:
        right = all(row.right for row in rows)
        results = {"memory": chosen.memory, "mpi": library, "gpus": gpus, "right": right, "sizes": [asdict(row) for row in rows]}
        chosen.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
