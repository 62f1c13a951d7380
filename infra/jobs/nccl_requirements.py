"""Requirements for NCCL between nodes: GPUDirect by instance type, and bus bandwidth by line rate. Pure.

Published thresholds are listed by instance type, and some of them are out of reach for any machine. This module
computes the minimum from the line rate, which EC2 reports as NetworkPerformance. tests/pure/test_nccl_floor.py compares
the minimum with all published results that we know of.
"""

import re
from typing import Final

_GPUDIRECT: Final = re.compile(
    r"p4de?\.24xlarge"
    r"|p5(?!\.4xlarge)[a-z]*\..+"
    r"|p([6-9]|\d\d)[\w-]*\..+"
    r"|g7e\.(12|24|48)xlarge"
)
"""Instance types on which aws-ofi-nccl itself refuses to run without GPUDirect (`gdr_required`). The plugin runs
without GPUDirect on p3dn, g5, g6*, p5.4xlarge and smaller g7e: https://github.com/aws/aws-ofi-nccl,
src/platform-aws.cpp at 2daf7d3, read 2026-11-22."""

JUDGED_BYTES: Final = 2 << 30
"""Message size from which the result shows bandwidth rather than latency: two p5.48xlarge reach 289 GB/s at 128 MiB and
437 GB/s at 1 GiB. https://github.com/awslabs/awsome-distributed-ai, micro-benchmarks/nccl-tests/README.md at 95b939c"""

TWO_NODES, MORE_NODES = 1.0, 0.9
"""Fractions of the line rate. Two nodes: NCCL's tree algorithm may exceed the line rate
(https://github.com/NVIDIA/nccl-tests/issues/22), and every published result of a healthy pair does. More nodes: 16
p5en.48xlarge reach 0.925 of the line rate (awsome-distributed-ai, slurm/topology-aware-nccl-tests/README.md).
"""

_FAST_GBPS: Final = 1600.0


def gpudirect_required(instance_type: str) -> bool:
    """Return whether NCCL must use GPUDirect on this type.

    >>> [gpudirect_required(one) for one in ("p5.48xlarge", "p5.4xlarge", "p6-b200.48xlarge", "g7e.8xlarge", "g5.48xlarge")]
    [True, False, True, False, False]
    """
    return _GPUDIRECT.fullmatch(instance_type) is not None


def floor(instance_type: str, nodes: int, line_rate_gbps: float) -> float | None:
    """Return the minimum bus bandwidth of large messages between nodes in GB/s; None if no published result justifies a
    minimum.

    Results at the line rate exist for types with GPUDirect and NVLink. On other types, PCIe or host memory may be
    slower than the network: in one report, two g7e.12xlarge reach 17.7 of 50 GB/s with GPUDirect (2026-05-08, NOT
    VERIFIED).
    """
    if not gpudirect_required(instance_type) or instance_type.startswith("g"):
        return None
    return line_rate_gbps / 8 * (TWO_NODES if nodes == 2 else MORE_NODES)


def largest_message(line_rate_gbps: float | None) -> str:
    """Return the largest message to send, in the notation of nccl-tests. Fast networks reach their line rate only above
    2 GiB: the best results of p5, p5en and p6 are at 8 and 16 GiB."""
    return "16G" if (line_rate_gbps or 0) >= _FAST_GBPS else "2G"
