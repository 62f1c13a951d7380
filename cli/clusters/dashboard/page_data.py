"""Build the JSON data for the dashboard's page. All functions are pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from cli.clusters.dashboard import tables
from cli.clusters.dashboard.tables import Row, Tone
from cli.clusters.status.cluster_status import UNKNOWN, Status
from cli.jobs.records import JobRecord
from cli.nodes.health.node_health import NodeHealth
from cli.stacks.cost.spending import Spending
from infra.platform.job_controller.in_pod.phases import Phase

VERSION: Final = 1
NO_GPU_METRICS: Final = "GPU utilization: no data source. The table shows the GPUs that jobs hold, not how busy they are."


@dataclass(frozen=True)
class Seen:
    """Data read at one point in time. If a query failed, its field contains the reason as a string."""

    at: datetime
    status: Status
    nodes: Sequence[NodeHealth] | str
    records: Sequence[JobRecord] | str
    spending: Spending | str
    unknown: tuple[str, ...] = ()
    """Other data that could not be read, and why."""
    stale: str = ""
    """Why the last attempt to read failed; empty if it succeeded. After a failure, the other fields except `spending`
    are from the last successful attempt.
    """


def page(data: Seen, now: datetime) -> dict[str, Any]:
    """Return the document that the page shows. In each section, the page shows `rows` in this order or, if there are
    none, the text `empty`.
    """
    status = data.status
    return {
        "version": VERSION,
        "title": status.cluster or "unknown cluster",
        "about": _about(status),
        "at": data.at.isoformat(),
        "clock": f"{data.at.astimezone(UTC):%H:%M:%S} UTC",
        "stale": data.stale,
        "tiles": [_node_tile(data), _gpu_tile(status), _job_tile(status), _cost_tile(data.spending)],
        "problems": list(status.problems),
        "unknown": list(dict.fromkeys((*status.unknown, *data.unknown))),
        "jobs": _jobs(data, now),
        "ended": _ended(data, now),
        "nodes": _nodes(data, now),
        "pools": _section([tables.pool(pool, now) for pool in status.pools], "no pools could be read", [NO_GPU_METRICS]),
        "queues": _section(tables.queues(status.queues), "no queue" if _knows(status, "Workload") else "no queue could be read"),
        "cost": _cost(data.spending),
    }


def _about(status: Status) -> list[str]:
    kubernetes = f"Kubernetes {status.version}" if status.version else ""
    return [part for part in (status.state, kubernetes, status.address) if part]


def _section(rows: Sequence[Row], empty: str, notes: Sequence[str] = (), more: str = "") -> dict[str, Any]:
    return {"rows": list(rows), "empty": empty, "notes": list(notes), "more": more}


# --- sections -----------------------------------------------------------------------------------------------------------


def _jobs(data: Seen, now: datetime) -> dict[str, Any]:
    if data.status.kind == "ec2":
        return _section([], "an EC2 cluster keeps no records of jobs; `scripts/cluster jobs -s STACK` lists its runs")
    lines = data.status.jobs
    rows = tables.jobs(lines[: tables.JOBS_SHOWN], data.records, now)
    more = len(lines) - len(rows)
    if isinstance(data.records, str):
        notes = [f"phases, goodput, restarts, progress and GPU hours: {data.records}"]
    else:
        notes = [sentence] if (sentence := tables.goodput(lines[: tables.JOBS_SHOWN], data.records, now)) else []
    empty = "no job is queued or running" if _knows_jobs(data.status) else "no jobs could be read"
    return _section(rows, empty, notes, f"{more} more jobs: `scripts/cluster jobs -A`" if more else "")


def _ended(data: Seen, now: datetime) -> dict[str, Any]:
    rows = [] if isinstance(data.records, str) else tables.ended(data.records, now)
    empty = data.records if isinstance(data.records, str) else "no job has ended"
    counts = ", ".join(f"{number} {phase.lower()}" for phase, number in data.status.ended.items())
    return _section(rows, empty, [f"ended and not deleted: {counts}"] if counts else [])


def _nodes(data: Seen, now: datetime) -> dict[str, Any]:
    if isinstance(data.nodes, str):
        return _section([], data.nodes)
    rows = tables.nodes(data.nodes, now)
    more = len(data.nodes) - len(rows)
    return _section(rows, "the cluster has no nodes", more=f"{more} more nodes, all of them healthy" if more else "")


def _cost(spending: Spending | str) -> dict[str, Any]:
    if isinstance(spending, str):
        return _section([], spending)
    what = "Instances only, at today's prices: no traffic, storage or control plane."
    unknown = [f"unknown: {sentence}" for sentence in dict.fromkeys(spending.unknown)]
    return _section(tables.cost(spending), "no instance has run", [what, *unknown])


# --- tiles --------------------------------------------------------------------------------------------------------------


def _tile(label: str, value: str, note: str = "", tone: Tone = "") -> dict[str, str]:
    return {"label": label, "value": value, "note": note, "tone": tone}


def _node_tile(data: Seen) -> dict[str, str]:
    if isinstance(data.nodes, str):
        pools = [pool for pool in data.status.pools if pool.ready is not None]
        if not pools:
            return _tile("Healthy nodes", UNKNOWN, "could not be read", "doubtful")
        ready, there = sum(pool.ready or 0 for pool in pools), sum(pool.nodes or 0 for pool in pools)
        return _tile(
            "Ready nodes", f"{ready} of {there}", "their health could not be read", "good" if ready == there else "doubtful"
        )
    counts = Counter[str](node.state for node in data.nodes)
    healthy = counts.pop("healthy", 0)
    note = ", ".join(f"{number} {state}" for state, number in sorted(counts.items())) or "none broken"
    bad = counts["broken"] + counts["not ready"]
    return _tile(
        "Healthy nodes", f"{healthy} of {len(data.nodes)}", note, "bad" if bad else "doubtful" if counts.total() else "good"
    )


def _gpu_tile(status: Status) -> dict[str, str]:
    pools = [pool for pool in status.pools if pool.gpus]
    if not status.pools or any(pool.gpus is None or pool.gpus_used is None for pool in status.pools):
        return _tile("GPUs held", UNKNOWN, "could not be read", "doubtful")
    if not pools:
        return _tile("GPUs held", "none", "no pool has GPUs")
    used, every = sum(pool.gpus_used or 0 for pool in pools), sum(pool.gpus or 0 for pool in pools)
    return _tile("GPUs held", f"{used} of {every}", f"{every - used} free")


def _knows_jobs(status: Status) -> bool:
    return bool(status.jobs) or (_knows(status, "Jobs") and status.kind != "ec2")


def _knows(status: Status, kind: str) -> bool:
    """Return whether an empty list means that no objects of this kind exist. It does not if `unknown` reports that the
    kind could not be listed.
    """
    return bool(status.cluster) and not any(kind in sentence for sentence in status.unknown)


def _job_tile(status: Status) -> dict[str, str]:
    if not _knows_jobs(status):
        return _tile("Jobs running", UNKNOWN, "see below")
    counts = Counter(line.state.phase for line in status.jobs)
    waiting = ", ".join(f"{number} {phase.lower()}" for phase, number in sorted(counts.items()) if phase != Phase.RUNNING)
    return _tile("Jobs running", str(counts[Phase.RUNNING]), waiting or "none waiting")


def _cost_tile(spending: Spending | str) -> dict[str, str]:
    if isinstance(spending, str):
        return _tile("Cost so far", UNKNOWN, "see below")
    since = f"USD since {spending.since.astimezone(UTC):%Y-%m-%d}"
    return _tile("Cost so far", tables.usd(spending.total), since, "doubtful" if spending.total.unknown else "")
