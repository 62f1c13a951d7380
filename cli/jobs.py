"""`jobs`: list jobs and their phases."""

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from cli import job_objects, options
from cli.cluster_access import Access
from cli.console import Listing, make_console, print_json
from cli.exit_codes import OK
from cli.job_state import JobState

STYLES = {"Succeeded": "green", "Failed": "red", "Running": "cyan"}


def command(
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="List jobs of all namespaces.")] = False,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespace = None,
    as_json: options.Json = False,
) -> int:
    """Prints the newest job first."""
    cluster = Access(kubeconfig, context).connect()
    place = None if all_namespaces else job_objects.default_namespace(cluster, namespace)
    states = job_objects.all_jobs(cluster, place)
    if place and not states:
        cluster.get("Namespace", place)  # fails if the namespace does not exist
    now = datetime.now(UTC)
    if as_json:
        print_json([state.as_json(now) for state in states])
    else:
        _print(states, now, place)
    return OK


def _print(states: list[JobState], now: datetime, namespace: str | None) -> None:
    if not states:
        print(f"no jobs in {f'namespace {namespace}' if namespace else 'any namespace'}")
        return
    columns = ["name", *([] if namespace else ["namespace"]), "launcher", "pool", "workers", "phase", "failures", "time"]
    listing = Listing(*columns)
    for state in states:
        place = [] if namespace else [state.namespace]
        phase = Text(state.phase, style=STYLES.get(state.phase, ""))
        workers, failures = str(state.workers or ""), str(state.failures or "")
        listing.add_row(state.name, *place, state.launcher, state.pool, workers, phase, failures, duration(state.seconds(now)))
    make_console().print(listing)


def duration(seconds: int) -> str:
    """
    >>> duration(7), duration(200), duration(7300)
    ('7s', '3m20s', '2h1m')
    """
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
