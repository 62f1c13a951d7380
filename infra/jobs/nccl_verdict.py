"""Verdict of the smoke job's NCCL level, from each rank's NCCL log and from the result table of nccl-tests. Performs no I/O.

Published bandwidth thresholds are listed by instance type, and some of them are out of reach for any machine. This
module computes the minimum from the line rate, which EC2 reports as NetworkPerformance. tests/pure/test_nccl_floor.py
compares the minimum with all published results known to us.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.jobs.cluster import Transport
from infra.jobs.smoke_verdict import NOT_HERE, NOT_RUN, Check, build_check, format_count, join_items

RUN, NETWORK, GPUDIRECT, BANDWIDTH = "NCCL", "NCCL network", "GPUDirect", "NCCL bandwidth"
NAMES: Final = (RUN, NETWORK, GPUDIRECT, BANDWIDTH)

NetworkReport = dict[str, Any]
"""Report of one rank, as infra/jobs/in_pods/nccl.py prints it."""

NO_PROGRAM: Final = (
    "the image has no all_reduce_perf. Use an image with nccl-tests: --image NAME, or build one with "
    "`scripts/cluster image build mpi`"
)


@dataclass(frozen=True)
class NcclExpected:
    """Results that NCCL must reach on a healthy pool."""

    workers: int
    ranks: int
    network: Transport
    instance_type: str
    line_rate_gbps: float | None


def build_skipped_checks(result: str, why: str) -> list[Check]:
    """Return all checks of this level with the same result and reason."""
    return [Check(name, result, why) for name in NAMES]


def evaluate_reports(reports: Sequence[NetworkReport], expected: NcclExpected) -> list[Check]:
    """Return the checks. If all_reduce_perf did not run, report only that failure."""
    run = build_check(RUN, list(_find_run_failures(reports, expected)), _summarize_run(reports))
    if any(report["error"] for report in reports) or not reports:
        return [run, *(Check(name, NOT_RUN, "all_reduce_perf did not finish") for name in NAMES[1:])]
    return [run, _check_network(reports, expected), _check_gpudirect(reports, expected), _check_bandwidth(reports, expected)]


def _summarize_run(reports: Sequence[NetworkReport]) -> str:
    versions = sorted({report["version"] for report in reports if report["version"]})
    version = f", NCCL {join_items(versions)}" if versions else ""
    return f"all_reduce_perf ran on {format_count(len(reports), 'rank')} with correct sums{version}"


def _find_run_failures(reports: Sequence[NetworkReport], expected: NcclExpected) -> Iterator[str]:
    if not reports:
        yield "no rank reported"
        return
    if all(report["error"] == "all_reduce_perf is missing" for report in reports):
        yield NO_PROGRAM
        return
    broken = [report for report in reports if report["error"]]
    for report in broken[:8]:
        yield f"{report['host']} on node {report['node']}: " + ". ".join([report["error"], *report["warnings"]])
    if broken:
        return  # mpirun terminated the other ranks before they reported
    reported = sorted({report["nccl_rank"] for report in reports})
    if reported != list(range(expected.ranks)):
        yield f"{len(reports)} of {expected.ranks} ranks reported: {join_items(reported)}"
    results = _find_results(reports)
    if not results:
        yield "nccl-tests printed no result"
    if wrong := [size for size, _, is_wrong in results if is_wrong]:
        yield f"wrong sums at {join_items(wrong)} bytes"


def _check_network(reports: Sequence[NetworkReport], expected: NcclExpected) -> Check:
    """Check NCCL's log: the network that NCCL chose, and the network that each channel to another node uses."""
    if expected.workers < 2:
        return Check(NETWORK, NOT_RUN, "a single worker uses no network")
    efa = expected.network == "efa"
    network, text = ("Libfabric", "EFA") if efa else ("Socket", "TCP")
    faults = []
    for report in reports:
        chosen = {name.replace("AWS Libfabric", "Libfabric") for name in report["networks"]}
        chosen |= {_strip_gpudirect(path).replace("AWS Libfabric", "Libfabric") for path in report["paths"]}
        if chosen != {network}:
            faults.append(f"{_format_rank_location(report)} uses {join_items(sorted(chosen)) or '(none logged)'}, not {network}")
        elif efa and report["providers"] != ["efa"]:
            providers = join_items(report["providers"]) or "(none logged)"
            faults.append(f"{_format_rank_location(report)} uses the libfabric provider {providers}, not efa")
    if not faults and not any(report["paths"] for report in reports):
        faults = ["no rank logged a channel to another node"]
    how = f"`Using network {network}`" + (", `Selected provider is efa`" if efa else "")
    return build_check(NETWORK, faults[:8], f"{text} on every rank, according to NCCL's log: {how}")


def _check_gpudirect(reports: Sequence[NetworkReport], expected: NcclExpected) -> Check:
    if expected.workers < 2:
        return Check(GPUDIRECT, NOT_RUN, "a single worker uses no network")
    if expected.network != "efa":
        return Check(GPUDIRECT, NOT_RUN, "NCCL uses TCP on this pool")
    if not expected.instance_type:
        return Check(GPUDIRECT, NOT_RUN, "the instance type of the pool is unknown")
    if not requires_gpudirect(expected.instance_type):
        return Check(GPUDIRECT, NOT_HERE, f"not available on this type ({expected.instance_type})")
    ours = [(report, [path for path in report["paths"] if _is_libfabric_path(path)]) for report in reports]
    if not any(paths for _, paths in ours):
        return Check(GPUDIRECT, NOT_RUN, "NCCL sent nothing over EFA")
    without = [report for report, paths in ours if any("with GPUDirect" not in path for path in paths)]
    faults = [f"{_format_rank_location(report)} sends over EFA without GPUDirect (no GDRDMA in NCCL's log)" for report in without]
    return build_check(GPUDIRECT, faults[:8], "every channel between nodes ends in /GDRDMA in NCCL's log")


def _check_bandwidth(reports: Sequence[NetworkReport], expected: NcclExpected) -> Check:
    results, rate = _find_results(reports), expected.line_rate_gbps
    if expected.workers < 2:
        return Check(BANDWIDTH, NOT_RUN, "a single worker uses no network")
    if not results:
        return Check(BANDWIDTH, NOT_RUN, "nccl-tests printed no result")
    size, bus, _ = max(results, key=lambda result: float(result[1]))
    reached = f"{bus:.1f} GB/s at {size} bytes on {format_count(expected.workers, 'node')}"
    if rate is None:
        return Check(BANDWIDTH, NOT_RUN, f"{reached}; not judged: the line rate of the pool's nodes is unknown")
    if expected.network != "efa":
        return Check(BANDWIDTH, NOT_RUN, f"{reached}; not judged: NCCL uses TCP on this pool")
    minimum = minimum_bandwidth(expected.instance_type, expected.workers, rate)
    if minimum is None:
        why = f"no published result shows what healthy nodes of type {expected.instance_type} reach"
        return Check(BANDWIDTH, NOT_RUN, f"{reached}, {bus / (rate / 8):.0%} of the line rate; not judged: {why}")
    large = [result for result in results if result[0] >= JUDGED_BYTES]
    if not large:
        why = f"cannot be judged below {JUDGED_BYTES} bytes, which did not fit into GPU memory"
        return build_check(BANDWIDTH, [f"{reached}; {why}"], "")
    size, bus, _ = max(large, key=lambda result: float(result[1]))
    share = f"{bus:.1f} GB/s at {size} bytes is {bus / (rate / 8):.0%} of the line rate"
    rule = f"{format_count(expected.workers, 'node')} must reach {minimum:g} GB/s"
    return build_check(BANDWIDTH, [] if bus >= minimum else [f"{share}; {rule}. Check the placement group"], f"{share}; {rule}")


def _find_results(reports: Sequence[NetworkReport]) -> list[Any]:
    """Return the result table of nccl-tests, which only rank 0 prints."""
    return next((report["results"] for report in reports if report["results"]), [])


def _format_rank_location(report: NetworkReport) -> str:
    return f"rank {report['nccl_rank']} in {report['host']} on node {report['node']}"


def _strip_gpudirect(path: str) -> str:
    return path.removesuffix(" with GPUDirect")


def _is_libfabric_path(path: str) -> bool:
    return _strip_gpudirect(path).endswith("Libfabric")


# --- requirements: GPUDirect by instance type, and bus bandwidth by line rate ------------------------------------------

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


def requires_gpudirect(instance_type: str) -> bool:
    """Return whether NCCL must use GPUDirect on this type.

    >>> [requires_gpudirect(one) for one in ("p5.48xlarge", "p5.4xlarge", "p6-b200.48xlarge", "g7e.8xlarge", "g5.48xlarge")]
    [True, False, True, False, False]
    """
    return _GPUDIRECT.fullmatch(instance_type) is not None


def minimum_bandwidth(instance_type: str, nodes: int, line_rate_gbps: float) -> float | None:
    """Return the minimum bus bandwidth of large messages between nodes in GB/s; None if no published result justifies a
    minimum.

    Results at the line rate exist for types with GPUDirect and NVLink. On other types, PCIe or host memory may be
    slower than the network: in one report, two g7e.12xlarge reach 17.7 of 50 GB/s with GPUDirect (2026-05-08, NOT
    VERIFIED).
    """
    if not requires_gpudirect(instance_type) or instance_type.startswith("g"):
        return None
    return line_rate_gbps / 8 * (TWO_NODES if nodes == 2 else MORE_NODES)


def choose_largest_message_size(line_rate_gbps: float | None) -> str:
    """Return the largest message to send, in the notation of nccl-tests. Fast networks reach their line rate only above
    2 GiB: the best results of p5, p5en and p6 are at 8 and 16 GiB."""
    return "16G" if (line_rate_gbps or 0) >= _FAST_GBPS else "2G"
