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
NO_GPU_METRICS: Final = (
    "GPU utilization: there is no data source. The table shows the GPUs that jobs hold, not how busy they are."
)


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


def build_page(data: Seen, now: datetime) -> dict[str, Any]:
    """Return the document that the page shows. In each section, the page shows `rows` in this order or, if there are
    none, the text `empty`.
    """
    status = data.status
    return {
        "version": VERSION,
        "title": status.cluster or "unknown cluster",
        "about": _describe_cluster(status),
        "at": data.at.isoformat(),
        "clock": f"{data.at.astimezone(UTC):%H:%M:%S} UTC",
        "stale": data.stale,
        "tiles": [_build_node_tile(data), _build_gpu_tile(status), _build_job_tile(status), _build_cost_tile(data.spending)],
        "problems": list(status.problems),
        "unknown": list(dict.fromkeys((*status.unknown, *data.unknown))),
        "jobs": _build_job_section(data, now),
        "ended": _build_ended_section(data, now),
        "nodes": _build_node_section(data, now),
        "pools": _make_section(
            [tables.build_pool_row(pool, now) for pool in status.pools], "no pools could be read", [NO_GPU_METRICS]
        ),
        "queues": _make_section(
            tables.build_queue_rows(status.queues), "no queue" if _can_list_kind(status, "Workload") else "no queue could be read"
        ),
        "cost": _build_cost_section(data.spending),
    }


def _describe_cluster(status: Status) -> list[str]:
    kubernetes = f"Kubernetes {status.version}" if status.version else ""
    return [part for part in (status.state, kubernetes, status.address) if part]


def _make_section(rows: Sequence[Row], empty: str, notes: Sequence[str] = (), more: str = "") -> dict[str, Any]:
    return {"rows": list(rows), "empty": empty, "notes": list(notes), "more": more}


# --- sections -----------------------------------------------------------------------------------------------------------


def _build_job_section(data: Seen, now: datetime) -> dict[str, Any]:
    if data.status.kind == "ec2":
        return _make_section([], "an EC2 cluster keeps no records of jobs; `scripts/cluster jobs -s STACK` lists its runs")
    lines = data.status.jobs
    rows = tables.build_job_rows(lines[: tables.JOBS_SHOWN], data.records, now)
    more = len(lines) - len(rows)
    if isinstance(data.records, str):
        notes = [f"phases, goodput, restarts, progress and GPU hours: {data.records}"]
    else:
        notes = [sentence] if (sentence := tables.describe_goodput(lines[: tables.JOBS_SHOWN], data.records, now)) else []
    empty = "no job is queued or running" if _can_list_jobs(data.status) else "no jobs could be read"
    return _make_section(rows, empty, notes, f"{more} more jobs: `scripts/cluster jobs -A`" if more else "")


def _build_ended_section(data: Seen, now: datetime) -> dict[str, Any]:
    rows = [] if isinstance(data.records, str) else tables.build_ended_job_rows(data.records, now)
    empty = data.records if isinstance(data.records, str) else "no job has ended"
    counts = ", ".join(f"{number} {phase.lower()}" for phase, number in data.status.ended.items())
    return _make_section(rows, empty, [f"ended and not deleted: {counts}"] if counts else [])


def _build_node_section(data: Seen, now: datetime) -> dict[str, Any]:
    if isinstance(data.nodes, str):
        return _make_section([], data.nodes)
    rows = tables.build_node_rows(data.nodes, now)
    more = len(data.nodes) - len(rows)
    return _make_section(rows, "the cluster has no nodes", more=f"{more} more nodes, all of them healthy" if more else "")


def _build_cost_section(spending: Spending | str) -> dict[str, Any]:
    if isinstance(spending, str):
        return _make_section([], spending)
    what = "Instances only, at today's prices: no traffic, storage or control plane."
    unknown = [f"unknown: {sentence}" for sentence in dict.fromkeys(spending.unknown)]
    return _make_section(tables.build_cost_rows(spending), "no instance has run", [what, *unknown])


# --- tiles --------------------------------------------------------------------------------------------------------------


def _make_tile(label: str, value: str, note: str = "", tone: Tone = "") -> dict[str, str]:
    return {"label": label, "value": value, "note": note, "tone": tone}


def _build_node_tile(data: Seen) -> dict[str, str]:
    if isinstance(data.nodes, str):
        pools = [pool for pool in data.status.pools if pool.ready is not None]
        if not pools:
            return _make_tile("Healthy nodes", UNKNOWN, "could not be read", "doubtful")
        ready, there = sum(pool.ready or 0 for pool in pools), sum(pool.nodes or 0 for pool in pools)
        return _make_tile(
            "Ready nodes", f"{ready} of {there}", "their health could not be read", "good" if ready == there else "doubtful"
        )
    counts = Counter[str](node.state for node in data.nodes)
    healthy = counts.pop("healthy", 0)
    note = ", ".join(f"{number} {state}" for state, number in sorted(counts.items())) or "none broken"
    bad = counts["broken"] + counts["not ready"]
    return _make_tile(
        "Healthy nodes", f"{healthy} of {len(data.nodes)}", note, "bad" if bad else "doubtful" if counts.total() else "good"
    )


def _build_gpu_tile(status: Status) -> dict[str, str]:
    pools = [pool for pool in status.pools if pool.gpus]
    if not status.pools or any(pool.gpus is None or pool.gpus_used is None for pool in status.pools):
        return _make_tile("GPUs held", UNKNOWN, "could not be read", "doubtful")
    if not pools:
        return _make_tile("GPUs held", "none", "no pool has GPUs")
    used, every = sum(pool.gpus_used or 0 for pool in pools), sum(pool.gpus or 0 for pool in pools)
    return _make_tile("GPUs held", f"{used} of {every}", f"{every - used} free")


def _can_list_jobs(status: Status) -> bool:
    return bool(status.jobs) or (_can_list_kind(status, "Jobs") and status.kind != "ec2")


def _can_list_kind(status: Status, kind: str) -> bool:
    """Return whether an empty list means that the cluster has no objects of this kind. False if `unknown` reports
    that the kind could not be listed.
    """
    return bool(status.cluster) and not any(kind in sentence for sentence in status.unknown)


def _build_job_tile(status: Status) -> dict[str, str]:
    if not _can_list_jobs(status):
        return _make_tile("Jobs running", UNKNOWN, "see below")
    counts = Counter(line.state.phase for line in status.jobs)
    waiting = ", ".join(f"{number} {phase.lower()}" for phase, number in sorted(counts.items()) if phase != Phase.RUNNING)
    return _make_tile("Jobs running", str(counts[Phase.RUNNING]), waiting or "none waiting")


def _build_cost_tile(spending: Spending | str) -> dict[str, str]:
    if isinstance(spending, str):
        return _make_tile("Cost so far", UNKNOWN, "see below")
    since = f"USD since {spending.since.astimezone(UTC):%Y-%m-%d}"
    return _make_tile("Cost so far", tables.format_usd(spending.total), since, "doubtful" if spending.total.unknown else "")
