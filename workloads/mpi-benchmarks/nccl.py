"""Check NCCL's bus bandwidth. Every rank runs this program, which runs `all_reduce_perf` of NVIDIA's nccl-tests.

Rank 0 prints the table and whether the network is fast enough. The minimum is computed from the instance type's line rate
(EC2's NetworkPerformance, in GPUMPI_LINE_RATE_GBPS), not from a list of types. For two nodes, it is the line rate itself, which
NCCL's tree algorithm may even exceed (https://github.com/NVIDIA/nccl-tests/issues/22). For more nodes, it is 0.9 of it.
"""

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass

PROGRAM = "/opt/nccl-tests/all_reduce_perf"
LARGE = 2 << 30
"""Message size in bytes from which the result shows bandwidth rather than latency."""
TWO_NODES, MORE_NODES = 1.0, 0.9
_LINE = re.compile(
    r"^ *(?P<size>\d+) +\d+ +\w+ +\w+ +-?\d+"
    r" +[\d.]+ +[\d.]+ +(?P<bus>[\d.]+) +(?P<wrong>\S+) +[\d.]+ +[\d.]+ +(?P<bus_in_place>[\d.]+) +(?P<wrong_in_place>\S+)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Result:
    """Result for one message size, from one line of nccl-tests' output."""

    size: int
    """Message size in bytes."""
    bus: float
    """Bus bandwidth in GB/s, the higher of in-place and out-of-place."""
    wrong: bool


def results(output: str) -> "list[Result]":
    """Return the results in nccl-tests' output."""
    return [
        Result(
            int(line["size"]),
            max(float(line["bus"]), float(line["bus_in_place"])),
            any(line[key] not in ("0", "N/A") for key in ("wrong", "wrong_in_place")),
        )
        for line in _LINE.finditer(output)
    ]


def floor(nodes: int, line_rate_gbps: float) -> "float | None":
    """Return the minimum bandwidth of large messages in GB/s, or None for one node, which uses no network."""
    if nodes < 2:
        return None
    return line_rate_gbps / 8 * (TWO_NODES if nodes == 2 else MORE_NODES)


def verdict(found: "list[Result]", nodes: int, line_rate_gbps: "float | None") -> "tuple[bool, str]":
    """Return whether the network is fast enough, and an explanation."""
    if not found:
        return False, "nccl-tests printed no result"
    if wrong := [result.size for result in found if result.wrong]:
        return False, f"wrong sums at {wrong} bytes"
    best = max(found, key=lambda result: result.bus)
    reached = f"{best.bus:.1f} GB/s at {best.size} bytes on {nodes} node{'' if nodes == 1 else 's'}"
    if line_rate_gbps is None:
        return True, f"{reached}; not judged: EC2 publishes no line rate for this type"
    minimum = floor(nodes, line_rate_gbps)
    if minimum is None:
        return True, f"{reached}; not judged: one node uses no network"
    large = [result for result in found if result.size >= LARGE]
    if not large:
        return False, f"{reached}; cannot be judged below {LARGE} bytes. Set --largest to at least that size"
    best = max(large, key=lambda result: result.bus)
    share = f"{best.bus:.1f} GB/s at {best.size} bytes is {best.bus / (line_rate_gbps / 8):.0%} of the line rate"
    rule = f"{nodes} nodes must reach {minimum:g} GB/s"
    if best.bus >= minimum:
        return True, f"{share}; {rule}"
    return False, f"{share}; {rule}. Check that NCCL's log shows NET/OFI with GDRDMA, and check the placement group"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=PROGRAM)
    parser.add_argument("--largest", default="16G")
    rate = os.environ.get("GPUMPI_LINE_RATE_GBPS")
    parser.add_argument("--line-rate-gbps", type=float, default=float(rate) if rate else None, help="line rate of one node")
    arguments = parser.parse_args()
    try:
        rank, size, local = (int(os.environ[f"OMPI_COMM_WORLD_{name}"]) for name in ("RANK", "SIZE", "LOCAL_SIZE"))
    except KeyError as error:
        print(f"{error} is not set. Run this as an Open MPI rank, as workloads/mpi-benchmarks/job.yaml does", file=sys.stderr)
        return 1
    try:
        done = subprocess.run(
            [arguments.program, "-b", "8", "-e", arguments.largest, "-f", "2", "-g", "1"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        print(f"{arguments.program} is not in this image. Build it with amis/provisioners/build-nccl-tests.sh", file=sys.stderr)
        return 1
    if rank or done.returncode:
        return done.returncode
    print(done.stdout, flush=True)
    fine, why = verdict(results(done.stdout), size // local, arguments.line_rate_gbps)
    print(f"nccl: {'ok' if fine else 'FAILED'}: {why}", flush=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
