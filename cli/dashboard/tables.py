"""Rows of the dashboard's tables. All functions are pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

from cli import records
from cli.cost.spending import Spending, Spent
from cli.health.model import NodeHealth
from cli.job_state import JobState
from cli.job_times import duration
from cli.job_waits import shortened
from cli.records import JobRecord
from cli.status.model import JobLine, PoolStatus, QueueStatus

UNKNOWN: Final = "?"
JOBS_SHOWN, ENDED_SHOWN, NODES_SHOWN = 100, 10, 100
"""Maximum number of rows; a page with thousands of rows would be slow to read and to draw."""
NOT_REPORTED: Final = "not reported"

Tone = Literal["", "good", "doubtful", "bad"]
Row = dict[str, Any]
"""`key` identifies the row across refreshes; `cells` maps columns to `cell()`."""

PHASE_TONES: Final[Mapping[str, Tone]] = {"Running": "good", "Succeeded": "good", "Failed": "bad", "Queued": "doubtful"}
STATE_TONES: Final[Mapping[str, Tone]] = {
    "healthy": "good",
    "cordoned": "doubtful",
    "gone": "doubtful",
    "broken": "bad",
    "not ready": "bad",
}
SEVERITY: Final = ("not ready", "broken", "gone", "cordoned", "healthy")


def cell(text: object, note: str = "", tone: Tone = "", **more: Any) -> dict[str, Any]:
    """Return a cell: a line of text, a smaller second line, and on request a `meter` or `parts` of a bar."""
    return {"text": str(text), "note": note, "tone": tone, **more}


def _row(key: str, **cells: dict[str, Any]) -> Row:
    return {"key": key, "cells": cells}


def ago(at: datetime | None, now: datetime) -> str:
    return "" if at is None else f"{duration(max(0, int((now - at).total_seconds())))} ago"


# --- pools and queues ---------------------------------------------------------------------------------------------------


def pools(found: Sequence[PoolStatus], now: datetime) -> list[Row]:
    return [_pool(pool, now) for pool in found]


def _pool(pool: PoolStatus, now: datetime) -> Row:
    wanted = pool.there if pool.wanted is None else pool.wanted
    enough = pool.ready is not None and pool.ready == wanted
    bounds = f"{_shown(pool.minimum)} to {_shown(pool.maximum)}" if pool.maximum is not None else ""
    of = f" of {wanted}" if wanted is not None else ""
    notes = [*([pool.block.sentence(now)] if pool.block else []), *pool.problems]
    if (launch := pool.failed_launch) and not launch.is_over:
        notes.append(f"last failed launch {ago(launch.at, now)}: {launch.reason}")
    return _row(
        pool.name,
        pool=cell(pool.name, pool.instance_type),
        ready=cell(f"{_shown(pool.ready)}{of}", tone="good" if enough else "doubtful"),
        size=cell(bounds),
        gpus=_gpus(pool),
        notes=cell("; ".join(notes), tone="bad" if pool.problems or (launch and not launch.is_over) else ""),
    )


def _gpus(pool: PoolStatus) -> dict[str, Any]:
    if pool.gpus == 0:
        return cell("none")
    if pool.gpus is None or pool.gpus_used is None:
        return cell(UNKNOWN, tone="doubtful")
    return cell(f"{pool.gpus_used} of {pool.gpus}", meter={"value": pool.gpus_used, "max": pool.gpus})


def _shown(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)


def queues(found: Sequence[QueueStatus]) -> list[Row]:
    return [
        _row(
            f"{one.namespace}/{one.name}",
            queue=cell(one.name, f"namespace {one.namespace}"),
            admitted=cell(one.admitted),
            waiting=cell(one.waiting, tone="doubtful" if one.waiting else ""),
        )
        for one in found
    ]


# --- nodes --------------------------------------------------------------------------------------------------------------


def nodes(found: Sequence[NodeHealth], now: datetime) -> list[Row]:
    """Return the most serious ones first. Only healthy nodes are left out if there are too many."""
    rank = {state: number for number, state in enumerate(SEVERITY)}
    ordered = sorted(found, key=lambda one: (rank.get(one.state, 0), one.is_quiet, one.pool, one.name))
    loud = sum(not one.is_quiet for one in ordered)
    return [_node(one, now) for one in ordered[: max(NODES_SHOWN, loud)]]


def _node(node: NodeHealth, now: datetime) -> Row:
    shown = node.faults or node.warnings[:1]
    what = "; ".join(f"{one.reason}: {one.message}".rstrip(": ") for one in shown)
    usable, whole = node.gpus
    return _row(
        node.name,
        node=cell(node.name, " · ".join(filter(None, (node.instance_type, node.instance)))),
        pool=cell(node.pool),
        state=cell(node.words, ago(node.since, now), STATE_TONES.get(node.state, "doubtful")),
        gpus=cell(f"{usable} of {whole}" if whole else "none", tone="bad" if usable < whole else ""),
        what=cell(shortened(what), node.next),
        jobs=cell(", ".join(node.jobs)),
    )


# --- jobs ---------------------------------------------------------------------------------------------------------------


def jobs(lines: Sequence[JobLine], found: Sequence[JobRecord] | str, now: datetime) -> list[Row]:
    """Return the running jobs first, then those that start or wait."""
    order = ("Running", "Starting", "Ending", "Queued")
    ordered = sorted(lines, key=lambda line: order.index(line.state.phase) if line.state.phase in order else len(order))
    readable = [] if isinstance(found, str) else found
    rows = []
    for line in ordered:
        record = records.of_job(readable, line.state)
        rows.append(_job(line.state, line.waits_for or line.state.reason, record, now))
    return rows


def ended(found: Sequence[JobRecord], now: datetime) -> list[Row]:
    """Return the jobs that ended last, also deleted ones."""
    over = [(state, one) for one in found if (state := one.state()).ended is not None]
    over.sort(key=lambda pair: pair[0].ended or pair[0].created, reverse=True)
    return [_job(state, state.reason, record, now) for state, record in over[:ENDED_SHOWN]]


def _job(state: JobState, why: str, record: JobRecord | None, now: datetime) -> Row:
    size = f"{state.workers} worker{'' if state.workers == 1 else 's'}" if state.workers else ""
    place = (f"namespace {state.namespace}", size, state.pool and f"pool {state.pool}")
    parts = _parts(record, now)
    phases = ", ".join(f"{one['name'].lower()} {one['text']}" for one in parts)
    when = (f"ended {ago(state.ended, now)}" if state.ended else "", phases)
    return _row(
        f"{state.namespace}/{state.name}/{state.created.isoformat()}",
        job=cell(state.name, " · ".join(filter(None, place))),
        phase=cell(state.phase, shortened(why) or _last_restart(record), PHASE_TONES.get(state.phase, "")),
        time=cell(duration(state.seconds(now)), "; ".join(filter(None, when)), parts=parts),
        progress=progress(record, now),
        restarts=_restarts(state, record),
        hours=cell(f"{record.gpu_hours(now):,.2f}" if record else UNKNOWN),
    )


def _restarts(state: JobState, record: JobRecord | None) -> dict[str, Any]:
    failures = f"{state.failures} failed attempt{'' if state.failures == 1 else 's'}" if state.failures else ""
    if record is None:
        return cell(UNKNOWN, failures)
    number = int(record.content.get("restarts", 0))
    return cell(number, failures, "doubtful" if number else "")


def _last_restart(record: JobRecord | None) -> str:
    """Return why the attempt before the current one ended; empty for the first attempt."""
    attempts = record.content.get("attempts", ()) if record else ()
    causes = [one.get("cause", "") for one in attempts if one.get("outcome") in ("Failed", "Disrupted")]
    return shortened(f"restarted: {causes[-1]}") if causes and causes[-1] else ""


def progress(record: JobRecord | None, now: datetime) -> dict[str, Any]:
    """Return the last step in the record. A job reports steps only if its file has `progress`."""
    attempts = record.content.get("attempts", ()) if record else ()
    problem = str(record.content.get("progressProblem", "")) if record else ""
    steps = next((one["steps"] for one in reversed(attempts) if one.get("steps")), None)
    if steps is None:
        return cell(NOT_REPORTED, problem)
    return cell(f"step {steps['last']['step']:,}", problem or ago(_time(steps["until"]), now))


def _parts(record: JobRecord | None, now: datetime) -> list[dict[str, Any]]:
    """Return how long the job was in each phase, in the order in which it entered them."""
    if record is None:
        return []
    seconds: dict[str, float] = {}
    sums: Mapping[str, float] = record.content.get("seconds", {})
    for one in record.content.get("phases", ()):
        seconds.setdefault(one["phase"], float(sums.get(one["phase"], 0.0)))
        if one["to"] is None:
            seconds[one["phase"]] += max(0.0, (now - _time(one["from"])).total_seconds())
    long = {phase: number for phase, number in seconds.items() if number >= 1}
    return [{"name": phase, "seconds": round(number, 1), "text": duration(int(number))} for phase, number in long.items()]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)


# --- cost ---------------------------------------------------------------------------------------------------------------


def cost(spending: Spending) -> list[Row]:
    rows = [_spent(f"pool {name}", spent, spending.idle_gpu_hours.get(name)) for name, spent in spending.pools.items()]
    rows += [_spent(f"namespace {name}", spent, None) for name, spent in spending.namespaces.items()]
    return [*rows, _spent("all instances", spending.total, None)] if rows else []


def _spent(name: str, spent: Spent, idle: Any) -> Row:
    return _row(
        name,
        what=cell(name),
        hours=cell(f"{spent.instance_hours:,.2f}"),
        gpu=cell(f"{spent.gpu_hours:,.2f}", f"{idle:,.2f} without a job" if idle else ""),
        usd=cell(usd(spent), tone="doubtful" if spent.unknown else ""),
    )


def usd(spent: Spent) -> str:
    if spent.unknown and not spent.usd:
        return "unknown"
    return f"at least {spent.usd:,.2f}" if spent.unknown else f"{spent.usd:,.2f}"
