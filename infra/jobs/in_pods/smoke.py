"""Program of every rank of the smoke job: exchange messages with other ranks, then report node, GPUs and transports.

Rank 0 prints one JSON line per rank and the verdict, and exits with 1 if a check failed. `failures` and `Expected` are
defined in infra/jobs/smoke_verdict.py, whose source is put before this one.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infra.jobs.smoke_verdict import Expected, failures

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
def captured() -> Iterator[list[str]]:
    """Capture the output of the MPI library, which writes to file descriptors directly.

    If the library ends the process, print the last 4000 bytes.
    """
    text: list[str] = []
    sys.stdout.flush()
    with tempfile.TemporaryFile("w+b") as file:
        keep = [os.dup(1), os.dup(2)]
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.setsid()  # whatever kills the rank kills its process group
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


def gpus() -> int:
    """Return the number of GPUs in this container, from its device files or else from NVIDIA_VISIBLE_DEVICES."""
    devices = [path for path in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    if devices:
        return len(devices)
    told = os.environ.get("NVIDIA_VISIBLE_DEVICES", "")
    return 0 if told in ("", "none", "void", "all") else len(told.split(","))


def transports(text: list[str], others: list[int]) -> list[str]:
    """Return the transports to ranks on other hosts, according to the library's log."""
    found = set()
    for line in text:
        for btl, rank in TO_RANK.findall(line):
            if int(rank) in others:
                found.add(btl)
        for names in OFI.findall(line):
            provider = next(name for name in names if name)
            if provider != "none":
                found.add(provider.split(";")[0])
        found.update(OTHER.findall(line))
    return sorted(found)


def main(expected: Expected) -> int:
    os.environ.update(TALKATIVE)
    with captured() as text:
        from mpi4py import MPI  # type: ignore[import-not-found]  # the import starts MPI

        world = MPI.COMM_WORLD
        rank, size = world.Get_rank(), world.Get_size()
        sums = array.array("d", [0.0]) * 1024
        world.Allreduce(array.array("d", [rank + 1.0]) * 1024, sums, op=MPI.SUM)
        hosts = world.allgather(socket.gethostname())
        # Send a message to the same slot of every other worker, so that every pair of workers communicates.
        for step in range(expected.slots, size, expected.slots):
            world.sendrecv(rank, dest=(rank + step) % size, source=(rank - step) % size)
    report: dict[str, Any] = {
        "rank": rank,
        "size": size,
        "host": hosts[rank],
        "node": os.environ.get("GPUMPI_NODE", ""),
        "gpus": gpus(),
        "sum": sums[0] if len(set(sums)) == 1 else None,
        "transports": transports(text, [other for other in range(size) if hosts[other] != hosts[rank]]),
        "library": MPI.Get_library_version().replace("\x00", "").splitlines()[0].strip(),
    }
    reports = world.gather(report)
    if rank:
        return _quietly(0)
    for one in reports:
        print(json.dumps(one))
    found = failures(reports, expected)
    for sentence in found:
        print("smoke: FAILED:", sentence)
    if not found:
        print(f"smoke: ok: {size} ranks on {expected.workers} nodes, {expected.gpus} GPUs each, by {expected.transport}")
    return _quietly(1 if found else 0)


def _quietly(code: int) -> int:
    """Return the exit code, and discard what the MPI library logs when it shuts down."""
    sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    return code


if __name__ == "__main__":
    sys.exit(main(Expected(*json.loads(sys.argv[1]))))
