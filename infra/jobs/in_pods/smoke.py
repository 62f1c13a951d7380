"""Program of every rank of the smoke job: exchange messages with other ranks, then report node, GPUs and transports.

Rank 0 prints one JSON line per rank and the verdict, and exits with 1 if a check failed. The code before
this source defines `checks` and `Expected` (infra/jobs/smoke_verdict.py) and `CUDA_PROGRAM` (source of cuda.py).
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infra.jobs.smoke_verdict import Expected, run_checks

    CUDA_PROGRAM = ""

TALKATIVE = {
    "OMPI_MCA_bml_base_verbose": "20",
    "OMPI_MCA_btl_base_verbose": "20",
    "OMPI_MCA_pml_base_verbose": "20",
    "OMPI_MCA_mtl_base_verbose": "20",
    "OMPI_MCA_opal_common_ofi_verbose": "20",
    "I_MPI_DEBUG": "5",
    "MPIR_CVAR_DEBUG_SUMMARY": "1",
}
"""Makes each MPI library log the transports that it selects, because MPI has no call that returns them."""

TO_RANK = re.compile(r"Using (\w+) btl for send to \[\[\d+,\d+\],(\d+)\]")
"""Log line of Open MPI with pml ob1: one line per peer."""
OFI = re.compile(r"mtl:ofi:prov(?:ider)?: ([\w;-]+)|libfabric provider: ([\w;-]+)")
"""Log lines of Open MPI with mtl ofi, and of Intel MPI and MPICH, where only rank 0 logs."""
OTHER = re.compile(r"select: component (ucx|monitoring|v) selected")


@contextlib.contextmanager
def capture_output() -> Iterator[list[str]]:
    """Capture the output of the MPI library, which writes to file descriptors directly.

    If the library ends the process, print the last 4000 bytes.
    """
    text: list[str] = []
    sys.stdout.flush()
    with tempfile.TemporaryFile("w+b") as file:
        keep = [os.dup(1), os.dup(2)]
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.setsid()  # a signal that kills the rank is sent to its whole process group
            os.close(writer)
            if not os.read(reader, 1):
                file.seek(0)
                os.write(keep[1], file.read()[-4000:])
            os._exit(0)
        os.close(reader)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        yield text
        os.dup2(keep[0], 1)
        os.dup2(keep[1], 2)
        os.write(writer, b".")
        os.close(writer)
        os.wait()
        file.seek(0)
        text.extend(file.read().decode(errors="replace").splitlines())


def count_device_files(pattern: str, folder: str = "/dev") -> int:
    """Return the number of device files whose names match."""
    return sum(bool(re.fullmatch(pattern, path.name)) for path in Path(folder).glob("*"))


def count_assigned_gpus() -> int:
    """Return the number of GPUs that the device plugin assigned to this container."""
    devices = os.environ.get("NVIDIA_VISIBLE_DEVICES", "")
    return 0 if devices in ("", "none", "void", "all") else len(devices.split(","))


CUDA_SECONDS = 300
"""Time limit for all GPUs of a worker. A broken GPU or fabric can block the driver forever."""


def run_cuda_check() -> dict[str, Any]:
    """Run a kernel on every GPU, in a separate process: a driver that crashes or hangs must not end this rank."""
    process = subprocess.Popen([sys.executable, "-c", CUDA_PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = process.communicate(timeout=CUDA_SECONDS)
        report: dict[str, Any] = json.loads(output.splitlines()[-1])
        return report
    except subprocess.TimeoutExpired:
        process.kill()  # do not wait: a process that the driver blocks in the kernel does not exit
        return {"error": f"the CUDA driver did not answer within {CUDA_SECONDS} s", "gpus": []}
    except (ValueError, IndexError):
        last = (errors.decode(errors="replace").splitlines() or [""])[-1]
        return {"error": f"the CUDA driver terminated the process with {process.returncode}. {last}".strip(), "gpus": []}


EXCHANGED_BYTES, EXCHANGES = 64 << 20, 4


def build_rounds(hosts: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return rounds of host pairs for exchanges. Every host meets every other host, in at most one pair per round."""
    ring = [*hosts, *([""] if len(hosts) % 2 else [])]
    result = []
    for _ in range(len(ring) - 1):
        pairs = [(ring[i], ring[-1 - i]) for i in range(len(ring) // 2)]
        result.append([pair for pair in pairs if all(pair)])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return result


def measure_rates(world: Any, mpi: Any, hosts: Sequence[str], firsts: dict[str, int]) -> dict[str, float]:
    """Return the transfer rates in GB/s between this worker and each other one. One rank per worker takes part."""
    rank, rates_by_host = world.Get_rank(), {}
    own = bytearray(EXCHANGED_BYTES if firsts[hosts[rank]] == rank else 0)
    theirs = bytearray(len(own))
    for pairs in build_rounds(sorted(firsts)):
        world.Barrier()
        other = next((b if a == hosts[rank] else a for a, b in pairs if hosts[rank] in (a, b)), None)
        if other is None or not own:
            continue
        for turn in range(1 + EXCHANGES):  # the first exchange connects
            if turn == 1:
                started = mpi.Wtime()
            world.Sendrecv([own, mpi.BYTE], dest=firsts[other], recvbuf=[theirs, mpi.BYTE], source=firsts[other])
        rates_by_host[other] = EXCHANGES * len(own) / (mpi.Wtime() - started) / 1e9
    return rates_by_host


def parse_transports(text: list[str], remote_ranks: list[int]) -> list[str]:
    """Return the transports to ranks on other hosts, according to the library's log."""
    transports = set()
    for line in text:
        for btl, rank in TO_RANK.findall(line):
            if int(rank) in remote_ranks:
                transports.add(btl)
        for names in OFI.findall(line):
            provider = next(name for name in names if name)
            if provider != "none":
                transports.add(provider.split(";")[0])
        transports.update(OTHER.findall(line))
    return sorted(transports)


def main(expected: Expected) -> int:
    os.environ.update(TALKATIVE)
    with capture_output() as text:
        from mpi4py import MPI  # type: ignore[import-not-found]  # the import starts MPI

        world = MPI.COMM_WORLD
        rank, size = world.Get_rank(), world.Get_size()
        sums = array.array("d", [0.0]) * 1024
        world.Allreduce(array.array("d", [rank + 1.0]) * 1024, sums, op=MPI.SUM)
        hosts = world.allgather(socket.gethostname())
        # Send a message to the same slot of every other worker, so that every pair of workers communicates.
        for step in range(expected.slots, size, expected.slots):
            world.sendrecv(rank, dest=(rank + step) % size, source=(rank - step) % size)
        firsts = {host: hosts.index(host) for host in hosts}
        measured = measure_rates(world, MPI, hosts, firsts) if expected.level == "nccl" else {}
    gpu_files = count_device_files(r"nvidia\d+")
    report: dict[str, Any] = {
        "rank": rank,
        "size": size,
        "host": hosts[rank],
        "node": os.environ.get("GPUMPI_NODE", ""),
        "gpus": gpu_files or count_assigned_gpus(),
        "gpu_files": gpu_files,
        "efa_files": count_device_files(r"uverbs\d+", "/dev/infiniband"),
        "sum": sums[0] if len(set(sums)) == 1 else None,
        "transports": parse_transports(text, [other for other in range(size) if hosts[other] != hosts[rank]]),
        "library": MPI.Get_library_version().replace("\x00", "").splitlines()[0].strip(),
    }
    if firsts[hosts[rank]] == rank:
        report["rates"] = {host: round(rate, 3) for host, rate in measured.items()}
        if expected.level != "devices":
            report["cuda"] = run_cuda_check()
    return _print_verdict(world.gather(report), expected)


def _print_verdict(reports: list[dict[str, Any]] | None, expected: Expected) -> int:
    """Print all reports and the result of each check on rank 0; return the exit code."""
    if reports is None:
        return _silence_output(0)
    for report in reports:
        print(json.dumps(report))
    results = run_checks(reports, expected)
    for check in results:
        for line in [f"FAILED: {sentence}" for sentence in check.failures] or [f"{check.result}: {check.name}: {check.detail}"]:
            print("smoke:", line)
    return _silence_output(int(any(check.failures for check in results)))


def _silence_output(code: int) -> int:
    """Return the exit code, and discard what the MPI library logs when it shuts down."""
    sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    return code


if __name__ == "__main__":
    sys.exit(main(Expected(*json.loads(sys.argv[1]))))
