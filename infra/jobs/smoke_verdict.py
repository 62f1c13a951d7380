"""Verdict of the smoke job: checks, from the ranks' reports, where and how the ranks ran. Performs no I/O.

The same source runs inside the job (so that the job itself fails) and in the CLI. The source requires only Python 3.8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Dict, Tuple  # noqa: UP035  a pod's Python may be too old for dict[...] at run time

LAUNCHER = "-launcher"

LEVELS = ("devices", "cuda", "nccl")
"""Each level includes the checks of the levels before it."""

PASSED, FAILED, NOT_HERE, NOT_RUN = "passed", "failed", "not on this hardware", "not run"
"""Results of a check. Only `passed` is evidence that the checked feature works."""

SLOW = 0.5
"""A node is slow if its best exchange rate with any other node is below this share of the median over all nodes."""


@dataclass(frozen=True)
class Expected:
    """Results that a healthy cluster must give."""

    workers: int
    slots: int
    """Ranks per worker."""
    gpus: int
    """Number of GPUs that every rank must see: all GPUs of its worker."""
    transport: str
    """Transport between workers, as ranks report it: `efa`, `tcp` or, on InfiniBand, MPI's library (`ucx` or `mlx`)."""
    efa: int = 0
    """Number of EFA devices that every worker must have."""
    level: str = "devices"
    emulated: Sequence[str] = ()
    """Nodes with the label for emulated devices, whose device files and GPUs cannot be checked. All other nodes must
    have device files and GPUs."""


Report = Dict[str, Any]  # noqa: UP006
"""Report of one rank, with keys rank, size, host (the pod), node, gpus (number of device files, or of assigned GPUs if
there are no files), gpu_files, efa_files, sum, transports (to other hosts), library. The first rank on each host also
reports cuda (GPUs on which a kernel ran) and rates (GB/s to each other host).
"""


@dataclass(frozen=True)
class Check:
    """Result of one check."""

    name: str
    result: str
    detail: str
    failures: Tuple[str, ...] = ()  # noqa: UP006
    """One sentence for each deviation."""


def build_check(name: str, failures: Sequence[str], detail: str) -> Check:
    """Return the result of a check that ran: FAILED if there are failures, otherwise PASSED with the detail."""
    return Check(name, FAILED, "; ".join(failures), tuple(failures)) if failures else Check(name, PASSED, detail)


def run_checks(reports: Sequence[Report], expected: Expected) -> list[Check]:
    """Return the checks of the level. If no rank reported, report only that failure."""
    rows: dict[str, Callable[[Sequence[Report], Expected], Check]] = {
        "ranks": _check_ranks,
        "workers": _check_hosts,
        "GPU devices": _check_gpus,
        "EFA devices": _check_efa,
        "sum over all ranks": _check_sums,
        "MPI transport": _check_transport,
    }
    if expected.level != "devices":
        rows["CUDA kernel"] = _check_cuda
    if expected.level == "nccl":
        rows["slow node"] = _check_slow_node
    if not reports:
        rest = [Check(name, NOT_RUN, "no rank reported") for name in rows if name != "ranks"]
        return [build_check("ranks", ["no rank reported"], ""), *rest]
    return [check(reports, expected) for check in rows.values()]


def list_failures(reports: Sequence[Report], expected: Expected) -> list[str]:
    """Return one sentence per deviation from the expected results; an empty list if there are no deviations."""
    return [sentence for check in run_checks(reports, expected) for sentence in check.failures]


def _check_ranks(reports: Sequence[Report], expected: Expected) -> Check:
    faults = []
    ranks_expected = expected.workers * expected.slots
    numbers = Counter(report["rank"] for report in reports)
    missing = [rank for rank in range(ranks_expected) if rank not in numbers]
    if missing:
        faults.append(f"of {ranks_expected} ranks {len(missing)} did not report: {join_items(missing)}")
    twice = [rank for rank, times in numbers.items() if times > 1]
    if twice:
        faults.append(f"{len(reports)} processes ran independently: {format_count(len(twice), 'rank')} reported more than once")
    sizes = sorted({report["size"] for report in reports})
    if sizes != [ranks_expected]:
        faults.append(f"ranks report a world size of {join_items(sizes)}, not {ranks_expected}")
    return build_check("ranks", faults, f"{format_count(ranks_expected, 'rank')} reported")


def _check_hosts(reports: Sequence[Report], expected: Expected) -> Check:
    faults = []
    ranks = Counter(report["host"] for report in reports)
    for host in sorted(host for host in ranks if LAUNCHER in host):
        faults.append(f"{format_count(ranks[host], 'rank')} ran on the launcher {host}, which must not run any")
    workers = sorted(host for host in ranks if LAUNCHER not in host)
    if len(workers) != expected.workers:
        faults.append(
            f"ranks ran on {format_count(len(workers), 'worker')}, not {expected.workers}: {join_items(workers) or 'none'}"
        )
    for host in workers:
        if ranks[host] != expected.slots:
            faults.append(f"{host} has {format_count(ranks[host], 'rank')}, not {expected.slots}")
    nodes: dict[str, list[str]] = {}
    for host in workers:
        for node in sorted({report["node"] for report in reports if report["host"] == host}):
            nodes.setdefault(node, []).append(host)
    for node, hosts in sorted(nodes.items()):
        if not node:
            faults.append(f"{join_items(hosts)}: node unknown")
        elif len(hosts) > 1:
            faults.append(f"{join_items(hosts)} share the node {node}")
    return build_check(
        "workers", faults, f"one worker on each of {format_count(len(nodes), 'node')}: {join_items(sorted(nodes))}"
    )


def _check_gpus(reports: Sequence[Report], expected: Expected) -> Check:
    faults = {}
    for report in reports:
        host, files = report["host"], report["gpu_files"]
        if report["node"] in expected.emulated:
            files = report["gpus"]  # the emulated device plugin assigns GPUs but adds no device files
        if files == expected.gpus:
            continue
        faults[host] = f"{host} sees {format_count(files, 'GPU')}, not {expected.gpus}"
        if not files and report["gpus"]:
            faults[host] = (
                f"{host} was assigned {format_count(report['gpus'], 'GPU')}, but has no device files for them. "
                "Make the NVIDIA runtime containerd's default runtime on its node"
            )
    emulated = emulated_nodes(reports, expected)
    if not faults and not expected.gpus:
        return Check("GPU devices", NOT_HERE, "the pool has no GPUs")
    if not faults and emulated:
        return Check(
            "GPU devices", NOT_HERE, f"the GPUs of {join_items(emulated)} are emulated: assigned, but without device files"
        )
    detail = f"{format_count(expected.gpus, 'device file')} (/dev/nvidia0, ...) on each worker"
    return build_check("GPU devices", [faults[host] for host in sorted(faults)], detail)


def _check_efa(reports: Sequence[Report], expected: Expected) -> Check:
    if not expected.efa:
        return Check("EFA devices", NOT_HERE, "the pool has no EFA")
    emulated = emulated_nodes(reports, expected)
    files = {report["host"]: report["efa_files"] for report in reports if report["node"] not in expected.emulated}
    faults = [
        f"{host} sees {format_count(files[host], 'EFA device')}, not {expected.efa}"
        for host in sorted(files)
        if files[host] != expected.efa
    ]
    if emulated and not faults:
        return Check("EFA devices", NOT_HERE, f"the EFA devices of {join_items(emulated)} are emulated")
    return build_check(
        "EFA devices", faults, f"{format_count(expected.efa, 'device file')} (/dev/infiniband/uverbs*) on each worker"
    )


def _check_sums(reports: Sequence[Report], expected: Expected) -> Check:
    ranks = expected.workers * expected.slots
    right = ranks * (ranks + 1) // 2
    wrong = sorted(report["rank"] for report in reports if report["sum"] != right)
    faults = [f"allreduce returned a wrong sum on rank {join_items(wrong)}; expected {right}"] if wrong else []
    return build_check("sum over all ranks", faults, f"{right} on every rank")


def _check_transport(reports: Sequence[Report], expected: Expected) -> Check:
    if expected.workers < 2:
        return Check("MPI transport", NOT_RUN, "a single worker has no other worker to send messages to")
    used = sorted({transport for report in reports for transport in report["transports"]})
    faults = []
    if not used:
        faults = ["no rank reported the transport of its messages between workers"]
    elif used != [expected.transport]:
        faults = [f"messages between workers used {join_items(used)}, not {expected.transport}"]
    return build_check("MPI transport", faults, f"messages between workers used {join_items(used)}, according to MPI's log")


def _check_cuda(reports: Sequence[Report], expected: Expected) -> Check:
    faults = []
    names: Counter[str] = Counter()
    for host in sorted({report["host"] for report in reports if report["node"] not in expected.emulated}):
        cuda = next((report["cuda"] for report in reports if report["host"] == host and report.get("cuda")), None)
        if cuda is None:
            faults.append(f"{host}: no rank tested its GPUs")
            continue
        gpus, error = cuda["gpus"], cuda["error"]
        if "missing" in error:
            error += ". Check its node's driver and container toolkit, and the image's NVIDIA_DRIVER_CAPABILITIES"
        if error:
            faults.append(f"{host}: {error}")
        elif len(gpus) != expected.gpus:
            faults.append(f"{host}: CUDA finds {format_count(len(gpus), 'GPU')}, not {expected.gpus}")
        elif len({gpu["bus"] for gpu in gpus}) < len(gpus):
            faults.append(f"{host}: CUDA finds the same GPU more than once: {join_items([gpu['bus'] for gpu in gpus])}")
        faults += [f"{host}: GPU {gpu['bus'] or number}: {gpu['error']}" for number, gpu in enumerate(gpus) if gpu["error"]]
        names.update(gpu["name"] for gpu in gpus)
    emulated = emulated_nodes(reports, expected)
    if emulated and not faults:
        return Check(
            "CUDA kernel", NOT_HERE, f"the GPUs of {join_items(emulated)} are emulated: there is no driver to run a kernel"
        )
    detail = ", ".join(f"{number} x {name}" for name, number in sorted(names.items()))
    return build_check("CUDA kernel", faults, f"a kernel wrote 1 MiB on every GPU, with correct results: {detail}")


def _check_slow_node(reports: Sequence[Report], expected: Expected) -> Check:
    """Compare the nodes by their best exchange rate with any other node: a slow node lowers only its own best rate."""
    name = "slow node"
    if expected.workers < 3:
        return Check(name, NOT_RUN, "a slow node can be identified only among three or more: use --workers 3")
    if emulated := emulated_nodes(reports, expected):
        return Check(name, NOT_HERE, f"{join_items(emulated)} share one machine's network")
    best = {report["host"]: max(report["rates"].values()) for report in reports if report.get("rates")}
    where = {report["host"]: report["node"] for report in reports}
    if missing := sorted(set(where) - set(best)):
        return build_check(name, [f"{join_items(missing)} measured no exchange with another worker"], "")
    median = sorted(best.values())[len(best) // 2]
    faults = [
        f"{host} on node {where[host]} exchanges at most {best[host]:.1f} GB/s with any other worker; the median is {median:.1f}"
        for host in sorted(best)
        if best[host] < SLOW * median
    ]
    slowest = min(best.values())
    return build_check(
        name, faults, f"with MPI from host memory, each node exchanges at least {slowest:.1f} GB/s; median {median:.1f}"
    )


def emulated_nodes(reports: Sequence[Report], expected: Expected) -> list[str]:
    """Return the nodes that ran ranks and whose devices are emulated."""
    return sorted({report["node"] for report in reports if report["node"] in expected.emulated})


def join_items(things: Sequence[Any]) -> str:
    shown = [str(thing) for thing in things[:8]]
    return ", ".join(shown) + (f" and {len(things) - 8} more" if len(things) > 8 else "")


def format_count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
