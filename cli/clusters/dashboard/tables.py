"""Rows of the dashboard's tables. All functions are pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from cli.clusters.status.cluster_status import UNKNOWN, JobLine, PoolStatus, QueueStatus, format_number
from cli.durations import format_duration, format_time_ago
from cli.jobs import records
from cli.jobs.goodput import time_account
from cli.jobs.goodput.time_account import PARTS, Account
from cli.jobs.records import JobRecord
from cli.jobs.state import JobState, read_recorded_state
from cli.jobs.waits import shorten_reason
from cli.nodes.health.node_health import SEVERITIES, NodeHealth
from cli.stacks.cost.spending import Spending, Spent
from infra.platform.job_controller.in_pod.moments import parse_time
from infra.platform.job_controller.in_pod.phases import Phase

JOBS_SHOWN, ENDED_SHOWN, NODES_SHOWN = 100, 10, 100
"""Maximum number of rows. A page with thousands of rows would be slow to load and hard to read."""
NOT_REPORTED: Final = "not reported"

Tone = Literal["", "good", "doubtful", "bad"]
Row = dict[str, Any]
"""`key` identifies the row across refreshes; `cells` maps columns to `make_cell()`."""

PHASE_TONES: Final[Mapping[Phase, Tone]] = {
    **{Phase.RUNNING: "good", Phase.SUCCEEDED: "good", Phase.FAILED: "bad"},
    **{Phase.QUEUED: "doubtful", Phase.RESTARTING: "doubtful"},
}
_ORDER: Final = (Phase.RUNNING, Phase.RESTARTING, Phase.STARTING, Phase.SETUP, Phase.ENDING, Phase.QUEUED)


def make_cell(text: object, note: str = "", tone: Tone = "", **more: Any) -> dict[str, Any]:
    """Return a cell: a line of text, a smaller second line and, optionally, a `meter` or the `parts` of a bar."""
    return {"text": str(text), "note": note, "tone": tone, **more}


def _make_row(key: str, **cells: dict[str, Any]) -> Row:
    return {"key": key, "cells": cells}


# --- pools and queues ---------------------------------------------------------------------------------------------------


def build_pool_row(pool: PoolStatus, now: datetime) -> Row:
    expected = pool.nodes if pool.wanted is None else pool.wanted
    enough = pool.ready is not None and pool.ready == expected
    bounds = f"{format_number(pool.min_size)} to {format_number(pool.max_size)}" if pool.max_size is not None else ""
    of = f" of {expected}" if expected is not None else ""
    notes = [*([pool.capacity_block.sentence(now)] if pool.capacity_block else []), *pool.problems]
    if (launch := pool.last_failed_launch) and not launch.later_launch_succeeded:
        notes.append(f"last failed launch {format_time_ago(launch.at, now)}: {launch.reason}")
    return _make_row(
        pool.name,
        pool=make_cell(pool.name, pool.instance_type),
        ready=make_cell(f"{format_number(pool.ready)}{of}", tone="good" if enough else "doubtful"),
        size=make_cell(bounds),
        gpus=_format_gpu_cell(pool),
        notes=make_cell("; ".join(notes), tone="bad" if pool.problems or (launch and not launch.later_launch_succeeded) else ""),
    )


def _format_gpu_cell(pool: PoolStatus) -> dict[str, Any]:
    if pool.gpus == 0:
        return make_cell("none")
    if pool.gpus is None or pool.gpus_used is None:
        return make_cell(UNKNOWN, tone="doubtful")
    return make_cell(f"{pool.gpus_used} of {pool.gpus}", meter={"value": pool.gpus_used, "max": pool.gpus})


def build_queue_rows(statuses: Sequence[QueueStatus]) -> list[Row]:
    return [
        _make_row(
            f"{queue.namespace}/{queue.name}",
            queue=make_cell(queue.name, f"namespace {queue.namespace}"),
            admitted=make_cell(queue.admitted),
            waiting=make_cell(queue.waiting, tone="doubtful" if queue.waiting else ""),
        )
        for queue in statuses
    ]


# --- nodes --------------------------------------------------------------------------------------------------------------


def build_node_rows(healths: Sequence[NodeHealth], now: datetime) -> list[Row]:
    """Return the nodes, the most serious ones first. If there are more than NODES_SHOWN, omit only healthy nodes."""
    rank = {state: number for number, state in enumerate(SEVERITIES)}
    ordered = sorted(healths, key=lambda node: (rank[node.state], node.has_nothing_to_report, node.pool, node.name))
    loud = sum(not node.has_nothing_to_report for node in ordered)
    return [_build_node_row(node, now) for node in ordered[: max(NODES_SHOWN, loud)]]


def _build_node_row(node: NodeHealth, now: datetime) -> Row:
    usable, whole = node.gpus
    return _make_row(
        node.name,
        node=make_cell(node.name, " · ".join(filter(None, (node.instance_type, node.instance)))),
        pool=make_cell(node.pool),
        state=make_cell(node.state_text, format_time_ago(node.since, now), SEVERITIES[node.state]),
        gpus=make_cell(f"{usable} of {whole}" if whole else "none", tone="bad" if usable < whole else ""),
        what=make_cell(shorten_reason(node.problem_text), node.next),
        jobs=make_cell(", ".join(node.jobs)),
    )


# --- jobs ---------------------------------------------------------------------------------------------------------------


def build_job_rows(lines: Sequence[JobLine], recorded: Sequence[JobRecord] | str, now: datetime) -> list[Row]:
    """Return the running jobs, then those that are starting or waiting."""
    ordered = sorted(lines, key=lambda line: _ORDER.index(line.state.phase))
    readable = [] if isinstance(recorded, str) else recorded
    rows = []
    for line in ordered:
        record = records.find_record(readable, line.state.key)
        rows.append(_build_job_row(line.state, line.waits_for or line.state.reason, record, now))
    return rows


def build_ended_job_rows(recorded: Sequence[JobRecord], now: datetime) -> list[Row]:
    """Return the jobs that ended most recently, including deleted ones."""
    return [_build_job_row(state, state.reason, record, now) for state, record in _list_last_ended_jobs(recorded)]


def _list_last_ended_jobs(recorded: Sequence[JobRecord]) -> list[tuple[JobState, JobRecord]]:
    over = [(state, record) for record in recorded if (state := read_recorded_state(record)).ended is not None]
    over.sort(key=lambda pair: pair[0].ended or pair[0].created, reverse=True)
    return over[:ENDED_SHOWN]


def describe_goodput(lines: Sequence[JobLine], recorded: Sequence[JobRecord], now: datetime) -> str:
    """Return the goodput of the jobs in `lines` and the recently ended ones as a sentence; empty if none has left the
    queue.
    """
    exist = [record for line in lines if (record := records.find_record(recorded, line.state.key))]
    shown = {record.key: record for record in (*exist, *(record for _, record in _list_last_ended_jobs(recorded)))}
    every = [
        spent for record in shown.values() if (spent := time_account.compute_account(record.content, now)).goodput is not None
    ]
    blind = sum(spent.is_lost_time_unknown for spent in every)
    if not every:
        return ""
    percentage = time_account.sum_accounts(every).goodput_percentage
    sentence = f"Goodput of these and the most recently ended jobs: {percentage}, weighted by GPUs."
    return f"{sentence} Lost time is unknown for {blind} of {len(every)} jobs, and counts as training." if blind else sentence


def _build_job_row(state: JobState, why: str, record: JobRecord | None, now: datetime) -> Row:
    size = f"{state.workers} worker{'' if state.workers == 1 else 's'}" if state.workers else ""
    place = (f"namespace {state.namespace}", size, state.pool and f"pool {state.pool}")
    spent = time_account.compute_account(record.content, now) if record else None
    share = f"goodput {spent.goodput_percentage}" if spent and spent.goodput_percentage else ""
    when = (f"ended {format_time_ago(state.ended, now)}" if state.ended else "", share, _format_time_parts(spent))
    return _make_row(
        f"{state.namespace}/{state.name}/{state.created.isoformat()}",
        job=make_cell(state.name, " · ".join(filter(None, place))),
        phase=make_cell(state.phase, _explain_job_state(why, record), PHASE_TONES.get(state.phase, "")),
        time=make_cell(format_duration(state.seconds(now)), "; ".join(filter(None, when)), parts=_list_time_parts(spent)),
        progress=format_progress_cell(record, now),
        restarts=_format_restart_cell(state, record),
        hours=make_cell(f"{record.gpu_hours(now):,.2f}" if record else UNKNOWN),
    )


def _explain_job_state(reason: str, record: JobRecord | None) -> str:
    """Return why a job waits, ended or restarted. Omit problems with a job's progress, because the progress cell shows
    them.
    """
    problem = _find_progress_problem(record)
    return shorten_reason(reason if reason != problem else "") or _explain_last_restart(record)


def _format_restart_cell(state: JobState, record: JobRecord | None) -> dict[str, Any]:
    failures = f"{state.failures} failed attempt{'' if state.failures == 1 else 's'}" if state.failures else ""
    if record is None:
        return make_cell(UNKNOWN, failures)
    number = int(record.content.get("restarts", 0))
    hangs = sum(bool(attempt.get("hang")) for attempt in record.content.get("attempts", ()))
    hung = f"{hangs} hang{'' if hangs == 1 else 's'}" if hangs else ""
    return make_cell(number, ", ".join(filter(None, (failures, hung))), "doubtful" if number or hangs else "")


def _explain_last_restart(record: JobRecord | None) -> str:
    """Return why the last failed attempt failed, in the same words as `jobs` prints; empty if no attempt has failed."""
    attempts = list(record.content.get("attempts", ())) if record else []
    failed = [attempt for attempt in attempts if attempt.get("outcome") in ("Failed", "Disrupted") and attempt.get("cause")]
    if record is None or not failed:
        return ""
    cause, is_hang = failed[-1]["cause"], bool(failed[-1].get("hang"))
    if record.content["ended"] and failed[-1] is attempts[-1]:
        return shorten_reason(cause)
    return shorten_reason(f"restarted after a {cause}" if is_hang else f"restarted: {cause}")


def format_progress_cell(record: JobRecord | None, now: datetime) -> dict[str, Any]:
    """Return a cell with the last step in the record. A job reports steps only if its file sets `progress`."""
    attempts = record.content.get("attempts", ()) if record else ()
    problem = _find_progress_problem(record)
    steps = next((attempt["steps"] for attempt in reversed(attempts) if attempt.get("steps")), None)
    tone: Tone = "doubtful" if problem else ""
    if steps is None:
        return make_cell(NOT_REPORTED, problem, tone)
    return make_cell(f"step {steps['last']['step']:,}", problem or format_time_ago(parse_time(steps["until"]), now), tone)


def _find_progress_problem(record: JobRecord | None) -> str:
    return record.slow_rank_reason or str(record.content.get("progressProblem", "")) if record else ""


def _list_time_parts(spent: Account | None) -> list[dict[str, Any]]:
    """Return the parts of a job's bar: how it spent its time, in a fixed order."""
    seconds = {part: spent.spent[part].total_seconds() for part in PARTS} if spent else {}
    return [{"name": part, "seconds": round(number, 1)} for part, number in seconds.items() if number >= 1]


def _format_time_parts(spent: Account | None) -> str:
    """Return the parts as text. Without steps, lost time is unknown, as in `goodput`."""
    words = {part_of_bar["name"]: format_duration(round(part_of_bar["seconds"])) for part_of_bar in _list_time_parts(spent)}
    if spent and spent.is_lost_time_unknown and spent.goodput_percentage:
        words["lost"] = UNKNOWN
    return ", ".join(f"{part} {words[part]}" for part in PARTS if part in words)


# --- cost ---------------------------------------------------------------------------------------------------------------


def build_cost_rows(spending: Spending) -> list[Row]:
    rows = [_build_cost_row(f"pool {name}", spent, spending.idle_gpu_hours.get(name)) for name, spent in spending.pools.items()]
    rows += [_build_cost_row(f"namespace {name}", spent, None) for name, spent in spending.namespaces.items()]
    return [*rows, _build_cost_row("all instances", spending.total, None)] if rows else []


def _build_cost_row(name: str, spent: Spent, idle: Any) -> Row:
    return _make_row(
        name,
        what=make_cell(name),
        hours=make_cell(f"{spent.instance_hours:,.2f}"),
        gpu=make_cell(f"{spent.gpu_hours:,.2f}", f"{idle:,.2f} without a job" if idle else ""),
        usd=make_cell(format_usd(spent), tone="doubtful" if spent.unknown else ""),
    )


def format_usd(spent: Spent) -> str:
    if spent.unknown and not spent.usd:
        return "unknown"
    return f"at least {spent.usd:,.2f}" if spent.unknown else f"{spent.usd:,.2f}"
