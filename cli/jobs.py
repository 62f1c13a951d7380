"""`scripts/cluster jobs`: which jobs there are, and where each stands."""

import json
from datetime import UTC, datetime

from cli import job_objects
from cli.cluster_access import Failed
from cli.exit_codes import FINE
from cli.job_state import JobState
from cli.submit import Where, failed

STYLES = {"Succeeded": "green", "Failed": "red", "Running": "cyan"}


def run(where: Where, *, everywhere: bool, as_json: bool) -> int:
    try:
        cluster = where.connect()
        namespace = None if everywhere else job_objects.default_namespace(cluster, where.namespace)
        states = job_objects.all_jobs(cluster, namespace)
        if namespace and not states:
            cluster.get("Namespace", namespace)  # a namespace that is not there has no jobs either
    except Failed as error:
        return failed("jobs", error, as_json=as_json)
    now = datetime.now(UTC)
    if as_json:
        print(json.dumps([state.as_json(now) for state in states], indent=1))
    else:
        _print(states, now, namespace)
    return FINE


def _print(states: list[JobState], now: datetime, namespace: str | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not states:
        console.print(f"no jobs in {f'namespace {namespace}' if namespace else 'any namespace'}", markup=False)
        return
    columns = ["name", *([] if namespace else ["namespace"]), "launcher", "pool", "workers", "phase", "failures", "time"]
    table = Table(*columns, box=None, pad_edge=False)
    for state in states:
        place = [] if namespace else [state.namespace]
        phase = Text(state.phase, style=STYLES.get(state.phase, ""))
        workers, failures = str(state.workers or ""), str(state.failures or "")
        table.add_row(state.name, *place, state.launcher, state.pool, workers, phase, failures, duration(state.seconds(now)))
    if not console.is_terminal:
        console.width = 200  # a pipe has no width to fit
    console.print(table)


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
