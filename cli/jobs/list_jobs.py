"""`jobs`: list jobs and their phases."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from cli import options
from cli.clusters.kubernetes_access import Access
from cli.console import Listing, print_result
from cli.durations import format_duration
from cli.ec2 import remote_runs
from cli.jobs import objects, records
from cli.jobs.records import JobRecord
from cli.jobs.state import JobState, read_recorded_state
from cli.jobs.waits import Waits, shorten_reason
from infra.platform.job_controller.in_pod.phases import Phase

STYLES = {Phase.SUCCEEDED: "green", Phase.FAILED: "red", Phase.RUNNING: "cyan"}


def command(
    stack: options.Ec2Stack = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="List jobs of all namespaces.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Also list deleted jobs, from their records.")] = False,
    *,
    access: Access,
    identity: options.Identity = None,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
) -> int:
    """Prints the newest job first. With --stack, lists the commands that `run` started on the head node."""
    if stack:
        with remote_runs.connect_to_runs(stack, config_dir, identity) as runs:
            return remote_runs.print_list(runs.list(), as_json=as_json)
    cluster = access.connect()
    place = None if all_namespaces else objects.choose_namespace(cluster, access.namespace)
    states = objects.list_jobs(cluster, place)
    if place and not states:
        cluster.get("Namespace", place)  # fails if the namespace does not exist
    waits = Waits(cluster)
    states = [replace(state, reason=state.reason or waits.reason(state)) for state in states]
    now = datetime.now(UTC)
    recorded = records.list_records(cluster, place) if everything else []
    rows = [(state, records.find_record(recorded, state.key)) for state in states]
    living = {state.key for state in states}
    rows += [(read_recorded_state(record), record) for record in recorded if record.key not in living]
    rows.sort(key=lambda row: row[0].created, reverse=True)
    document = [{**state.as_json(now), **(record.as_json(now) if record else {})} for state, record in rows]
    nothing = f"no jobs in {f'namespace {place}' if place else 'any namespace'}"
    text = _build_listing(rows, now, place, gpu_hours=everything) if rows else nothing
    return print_result(document, text, as_json=as_json)


def _build_listing(
    rows: list[tuple[JobState, JobRecord | None]], now: datetime, namespace: str | None, *, gpu_hours: bool
) -> Listing:
    place, hours = ([] if namespace else ["namespace"]), (["GPU hours"] if gpu_hours else [])
    listing = Listing("name", *place, "launcher", "pool", "workers", "phase", "failures", "time", *hours, "reason")
    for state, record in rows:
        place = [] if namespace else [state.namespace]
        phase = Text(state.phase, style=STYLES.get(state.phase, ""))
        workers, failures = str(state.workers or ""), str(state.failures or "")
        time = format_duration(state.seconds(now))
        hours = [f"{record.gpu_hours(now):.2f}" if record else ""] if gpu_hours else []
        reason = shorten_reason(state.reason)
        listing.add_row(state.name, *place, state.launcher, state.pool, workers, phase, failures, time, *hours, reason)
    return listing
