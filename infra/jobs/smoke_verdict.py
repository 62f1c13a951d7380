"""Verdict of the smoke job: checks the ranks' reports for where and how the ranks ran. Pure.

The same source runs inside the job (so that the job itself fails) and in the CLI. It needs only Python 3.8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Dict  # noqa: UP035  a pod's Python may be too old for dict[...] at run time

LAUNCHER = "-launcher"


@dataclass(frozen=True)
class Expected:
    """Results that a healthy cluster must give."""

    workers: int
    slots: int
    """Ranks per worker."""
    gpus: int
    """GPUs that every rank must see: those of its worker."""
    transport: str
    """Transport of messages between workers: `efa` or `tcp`."""


Report = Dict[str, Any]  # noqa: UP006
"""Report of one rank, with keys rank, size, host (the pod), node, gpus, sum, transports (to other hosts), library."""


def failures(reports: Sequence[Report], expected: Expected) -> list[str]:
    """Return one sentence per deviation from the expected results; an empty list if there is none."""
    if not reports:
        return ["no rank reported"]
    found = [*_ranks(reports, expected), *_hosts(reports, expected), *_gpus(reports, expected), *_sums(reports, expected)]
    if expected.workers > 1:
        found += _transport(reports, expected)
    return found


def _ranks(reports: Sequence[Report], expected: Expected) -> list[str]:
    found = []
    wanted = expected.workers * expected.slots
    numbers = Counter(report["rank"] for report in reports)
    missing = [rank for rank in range(wanted) if rank not in numbers]
    if missing:
        found.append(f"of {wanted} ranks {len(missing)} did not report: {_listed(missing)}")
    twice = [rank for rank, times in numbers.items() if times > 1]
    if twice:
        found.append(f"{len(reports)} processes ran independently: {_count(twice, 'rank')} reported more than once")
    sizes = sorted({report["size"] for report in reports})
    if sizes != [wanted]:
        found.append(f"ranks report a world size of {_listed(sizes)}, not {wanted}")
    return found


def _hosts(reports: Sequence[Report], expected: Expected) -> list[str]:
    found = []
    ranks = Counter(report["host"] for report in reports)
    for host in sorted(host for host in ranks if LAUNCHER in host):
        found.append(f"{_count([None] * ranks[host], 'rank')} on the launcher {host}, which must run none")
    workers = sorted(host for host in ranks if LAUNCHER not in host)
    if len(workers) != expected.workers:
        found.append(f"ranks ran on {_count(workers, 'worker')}, not {expected.workers}: {_listed(workers) or 'none'}")
    for host in workers:
        if ranks[host] != expected.slots:
            found.append(f"{host} has {_count([None] * ranks[host], 'rank')}, not {expected.slots}")
    nodes: dict[str, list[str]] = {}
    for host in workers:
        for node in sorted({report["node"] for report in reports if report["host"] == host}):
            nodes.setdefault(node, []).append(host)
    for node, hosts in sorted(nodes.items()):
        if not node:
            found.append(f"{_listed(hosts)}: node unknown")
        elif len(hosts) > 1:
            found.append(f"{_listed(hosts)} share the node {node}")
    return found


def _gpus(reports: Sequence[Report], expected: Expected) -> list[str]:
    seen = {report["host"]: report["gpus"] for report in reports if report["gpus"] != expected.gpus}
    return [f"{host} sees {_count([None] * gpus, 'GPU')}, not {expected.gpus}" for host, gpus in sorted(seen.items())]


def _sums(reports: Sequence[Report], expected: Expected) -> list[str]:
    wanted = expected.workers * expected.slots
    right = wanted * (wanted + 1) // 2
    wrong = sorted(report["rank"] for report in reports if report["sum"] != right)
    return [f"allreduce returned a wrong sum on rank {_listed(wrong)}; expected {right}"] if wrong else []


def _transport(reports: Sequence[Report], expected: Expected) -> list[str]:
    used = sorted({transport for report in reports for transport in report["transports"]})
    if not used:
        return ["no rank reported the transport of its messages between workers"]
    if used != [expected.transport]:
        return [f"messages between workers used {_listed(used)}, not {expected.transport}"]
    return []


def _listed(things: Sequence[Any]) -> str:
    shown = [str(thing) for thing in things[:8]]
    return ", ".join(shown) + (f" and {len(things) - 8} more" if len(things) > 8 else "")


def _count(things: Sequence[Any], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"
