"""Rows of the dashboard's tables. All functions are pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from cli.clusters.status.cluster_status import JobLine, PoolStatus, QueueStatus
from cli.jobs import records
from cli.jobs.goodput import time_account
from cli.jobs.goodput.time_account import PHASES, Account
from cli.jobs.records import JobRecord
from cli.jobs.state import JobState
from cli.jobs.times import duration, moment
from cli.jobs.waits import shortened
from cli.nodes.health.node_health import SEVERITIES, NodeHealth
from cli.stacks.cost.spending import Spending, Spent

UNKNOWN: Final = "?"
JOBS_SHOWN, ENDED_SHOWN, NODES_SHOWN = 100, 10, 100
"""Maximum number of rows. A page with thousands of rows would be slow to load and hard to read."""
NOT_REPORTED: Final = "not reported"

Tone = Literal["", "good", "doubtful", "bad"]
Row = dict[str, Any]
"""`key` identifies the row across refreshes; `cells` maps columns to `cell()`."""

PHASE_TONES: Final[Mapping[str, Tone]] = {"Running": "good", "Succeeded": "good", "Failed": "bad", "Queued": "doubtful"}


def cell(text: object, note: str = "", tone: Tone = "", **more: Any) -> dict[str, Any]:
    """Return a cell: a line of text, a smaller second line and, optionally, a `meter` or the `parts` of a bar."""
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
    """Return the nodes, the most serious ones first. If there are more than NODES_SHOWN, omit only healthy nodes."""
    rank = {state: number for number, state in enumerate(SEVERITIES)}
    ordered = sorted(found, key=lambda one: (rank[one.state], one.is_quiet, one.pool, one.name))
    loud = sum(not one.is_quiet for one in ordered)
    return [_node(one, now) for one in ordered[: max(NODES_SHOWN, loud)]]


def _node(node: NodeHealth, now: datetime) -> Row:
    usable, whole = node.gpus
    return _row(
        node.name,
        node=cell(node.name, " · ".join(filter(None, (node.instance_type, node.instance)))),
        pool=cell(node.pool),
        state=cell(node.words, ago(node.since, now), SEVERITIES[node.state]),
        gpus=cell(f"{usable} of {whole}" if whole else "none", tone="bad" if usable < whole else ""),
        what=cell(shortened(node.what), node.next),
        jobs=cell(", ".join(node.jobs)),
    )


# --- jobs ---------------------------------------------------------------------------------------------------------------


def jobs(lines: Sequence[JobLine], found: Sequence[JobRecord] | str, now: datetime) -> list[Row]:
    """Return the running jobs, then those that are starting or waiting."""
    order = ("Running", "Starting", "Ending", "Queued")
    ordered = sorted(lines, key=lambda line: order.index(line.state.phase) if line.state.phase in order else len(order))
    readable = [] if isinstance(found, str) else found
    rows = []
    for line in ordered:
        record = records.of_job(readable, line.state)
        rows.append(_job(line.state, line.waits_for or line.state.reason, record, now))
    return rows


def ended(found: Sequence[JobRecord], now: datetime) -> list[Row]:
    """Return the jobs that ended most recently, including deleted ones."""
    return [_job(state, state.reason, record, now) for state, record in _last_ended(found)]


def _last_ended(found: Sequence[JobRecord]) -> list[tuple[JobState, JobRecord]]:
    over = [(state, one) for one in found if (state := one.state()).ended is not None]
    over.sort(key=lambda pair: pair[0].ended or pair[0].created, reverse=True)
    return over[:ENDED_SHOWN]


def goodput(lines: Sequence[JobLine], found: Sequence[JobRecord], now: datetime) -> str:
    """Return the goodput of the jobs in `lines` and the recently ended ones as a sentence; empty if none has left the
    queue.
    """
    exist = [record for line in lines if (record := records.of_job(found, line.state))]
    shown = {one.key: one for one in (*exist, *(record for _, record in _last_ended(found)))}
    every = [one for record in shown.values() if (one := time_account.of_job(record.content, now)).goodput is not None]
    blind = sum(one.lost_is_unknown for one in every)
    if not every:
        return ""
    sentence = f"Goodput of these and the most recently ended jobs: {time_account.total(every).share}, weighted by GPUs."
    return f"{sentence} Lost time is unknown for {blind} of {len(every)} jobs, and counts as training." if blind else sentence


def _job(state: JobState, why: str, record: JobRecord | None, now: datetime) -> Row:
    size = f"{state.workers} worker{'' if state.workers == 1 else 's'}" if state.workers else ""
    place = (f"namespace {state.namespace}", size, state.pool and f"pool {state.pool}")
    spent = time_account.of_job(record.content, now) if record else None
    share = f"goodput {spent.share}" if spent and spent.share else ""
    when = (f"ended {ago(state.ended, now)}" if state.ended else "", share, _phases(spent))
    return _row(
        f"{state.namespace}/{state.name}/{state.created.isoformat()}",
        job=cell(state.name, " · ".join(filter(None, place))),
        phase=cell(state.phase, _why(why, record), PHASE_TONES.get(state.phase, "")),
        time=cell(duration(state.seconds(now)), "; ".join(filter(None, when)), parts=_parts(spent)),
        progress=progress(record, now),
        restarts=_restarts(state, record),
        hours=cell(f"{record.gpu_hours(now):,.2f}" if record else UNKNOWN),
    )


def _why(reason: str, record: JobRecord | None) -> str:
    """Return why a job waits, ended or restarted. Omit problems with a job's progress, because the progress cell shows
    them.
    """
    problem = _progress_problem(record)
    return shortened(reason if reason != problem else "") or _last_restart(record)


def _restarts(state: JobState, record: JobRecord | None) -> dict[str, Any]:
    failures = f"{state.failures} failed attempt{'' if state.failures == 1 else 's'}" if state.failures else ""
    if record is None:
        return cell(UNKNOWN, failures)
    number = int(record.content.get("restarts", 0))
    hangs = sum(bool(one.get("hang")) for one in record.content.get("attempts", ()))
    hung = f"{hangs} hang{'' if hangs == 1 else 's'}" if hangs else ""
    return cell(number, ", ".join(filter(None, (failures, hung))), "doubtful" if number or hangs else "")


def _last_restart(record: JobRecord | None) -> str:
    """Return why the last failed attempt failed, in the same words as `jobs` prints; empty if no attempt has failed."""
    attempts = list(record.content.get("attempts", ())) if record else []
    failed = [one for one in attempts if one.get("outcome") in ("Failed", "Disrupted") and one.get("cause")]
    if record is None or not failed:
        return ""
    cause, is_hang = failed[-1]["cause"], bool(failed[-1].get("hang"))
    if record.content["ended"] and failed[-1] is attempts[-1]:
        return shortened(cause)
    return shortened(f"restarted after a {cause}" if is_hang else f"restarted: {cause}")


def progress(record: JobRecord | None, now: datetime) -> dict[str, Any]:
    """Return a cell with the last step in the record. A job reports steps only if its file sets `progress`."""
    attempts = record.content.get("attempts", ()) if record else ()
    problem = _progress_problem(record)
    steps = next((one["steps"] for one in reversed(attempts) if one.get("steps")), None)
    tone: Tone = "doubtful" if problem else ""
    if steps is None:
        return cell(NOT_REPORTED, problem, tone)
    return cell(f"step {steps['last']['step']:,}", problem or ago(moment(steps["until"]), now), tone)


def _progress_problem(record: JobRecord | None) -> str:
    return record.slow or str(record.content.get("progressProblem", "")) if record else ""


def _parts(spent: Account | None) -> list[dict[str, Any]]:
    """Return the parts of a job's bar: its phases in a fixed order."""
    seconds = {phase: spent.spent[phase].total_seconds() for phase in PHASES} if spent else {}
    return [{"name": phase, "seconds": round(number, 1)} for phase, number in seconds.items() if number >= 1]


def _phases(spent: Account | None) -> str:
    """Return the phases as text. Without steps, lost time is unknown, as in `goodput`."""
    words = {one["name"]: duration(round(one["seconds"])) for one in _parts(spent)}
    if spent and spent.lost_is_unknown and spent.share:
        words["lost"] = UNKNOWN
    return ", ".join(f"{phase} {words[phase]}" for phase in PHASES if phase in words)


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
