"""`goodput`: a table of how jobs spent their time."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from cli import options
from cli.clusters.kubernetes_access import Access
from cli.console import Listing, print_result
from cli.durations import format_duration
from cli.errors import NotFound
from cli.jobs import records
from cli.jobs.goodput import time_account
from cli.jobs.goodput.time_account import PARTS, Account
from cli.jobs.records import JobRecord

UNKNOWN = "?"


_Row = tuple[JobRecord, Account]


def command(
    job: Annotated[str | None, typer.Argument(help="Name of a job; without it, all jobs that have records.")] = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Namespace of the jobs.", show_default="all namespaces")
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Shows the time of each job, each namespace and the cluster in six parts, from the records of the job controller.
    Goodput is the share of training in the time outside the queue, weighted by GPUs. Lost time needs `progress` in the
    job.
    """
    now = datetime.now(UTC)
    stored = records.list_records(Access(kubeconfig, context).connect(), namespace)
    own = sorted(
        (record for record in stored if job in (None, record.content["name"])), key=lambda record: record.key[2], reverse=True
    )
    if job and not own:
        raise NotFound(f"job {job} has no record")
    rows = [(record, time_account.compute_account(record.content, now)) for record in own]
    text = _build_listing(rows, one_job=job is not None) if rows else "no job has a record"
    return print_result(build_document(rows), text, as_json=as_json)


def build_document(rows: Sequence[_Row]) -> dict[str, Any]:
    """Return the JSON document: jobs, their namespaces and the cluster."""
    spaces = {
        space: _account_as_json(time_account.sum_accounts([account for _, account in own]))
        for space, own in _group_by_namespace(rows)
    }
    return {
        "jobs": [{**_describe_record(record.content), **_account_as_json(account)} for record, account in rows],
        "namespaces": spaces,
        "total": _account_as_json(time_account.sum_accounts([account for _, account in rows])),
    }


def _describe_record(record: Mapping[str, Any]) -> dict[str, Any]:
    steps = [attempt["steps"] for attempt in record["attempts"] if attempt.get("steps")]
    about = {key: record[key] for key in ("name", "namespace", "phase", "created", "ended", "restarts")}
    return {**about, "step": steps[-1]["last"]["step"] if steps else None}


def _account_as_json(account: Account) -> dict[str, Any]:
    return {
        "wallSeconds": account.wall_time.total_seconds(),
        "seconds": {part: account.spent[part].total_seconds() for part in PARTS},
        "lostIsKnown": account.has_steps,
        "goodput": None if account.goodput is None else round(account.goodput, 4),
    }


def _group_by_namespace(rows: Sequence[_Row]) -> Iterator[tuple[str, list[_Row]]]:
    for space in sorted({record.content["namespace"] for record, _ in rows}):
        yield space, [row for row in rows if row[0].content["namespace"] == space]


def _build_listing(rows: Sequence[_Row], *, one_job: bool) -> Listing:
    columns = ("time", *PARTS, "goodput")
    listed = [(record.content["namespace"], record.content["name"], *_format_cells(account)) for record, account in rows]
    listing = Listing("namespace", "job", *columns, rows=listed, right=columns)
    if not one_job:
        for space, own in _group_by_namespace(rows):
            listing.add_row(space, "all jobs", *_format_cells(time_account.sum_accounts([account for _, account in own])))
        listing.add_row("cluster", "all jobs", *_format_cells(time_account.sum_accounts([account for _, account in rows])))
    return listing


def _format_cells(account: Account) -> Iterator[str]:
    yield format_duration(round(account.wall_time.total_seconds()))
    for part in PARTS:
        is_unknown = part == "lost" and account.is_lost_time_unknown
        yield UNKNOWN if is_unknown else format_duration(round(account.spent[part].total_seconds()))
    yield account.goodput_percentage
