"""Render a status as text for a terminal."""

from collections.abc import Iterator
from datetime import datetime

from rich.console import Group, RenderableType
from rich.text import Text

from cli.clusters.status.cluster_status import UNKNOWN, PoolStatus, Status, format_number
from cli.console import Listing
from cli.durations import format_duration, format_time_ago
from cli.jobs.list_jobs import STYLES
from cli.jobs.waits import shorten_reason

GOOD, BAD, DOUBTFUL = "green", "red", "yellow"


def render_status(status: Status, now: datetime) -> RenderableType:
    """Render the status as one screen."""
    return Group(*_render_parts(status, now))


def _render_parts(status: Status, now: datetime) -> Iterator[RenderableType]:
    yield _render_heading(status)
    for problem in status.problems:
        yield Text(f"  {problem}", BAD)
    if status.pools:
        yield Text()
        yield _render_pools(status.pools)
        for pool in status.pools:
            yield from _render_pool_problems(pool, status.aws_time or now)
    yield from _render_queues(status)
    yield from _render_jobs(status, now)
    yield from _render_volumes(status)
    if status.spending:
        yield Text()
        yield Text(status.spending.sentence(), DOUBTFUL if status.spending.unknown else "")
    for sentence in status.unknown:
        yield Text(f"unknown: {sentence}", DOUBTFUL)


def _render_heading(status: Status) -> Text:
    said = [status.state or "", f"Kubernetes {status.version}" if status.version else "", status.address]
    text = Text(status.cluster, "bold")
    for part in filter(None, said):
        text.append(f"  {part}", GOOD if part in ("ACTIVE", "ready") else "default not bold")
    return text


def _render_pools(pools: tuple[PoolStatus, ...]) -> Listing:
    numbers = ("ready", "desired", "GPUs used", "GPUs free")
    listing = Listing("pool", "type", *numbers, "size", right=numbers)
    for pool in pools:
        enough = pool.ready is not None and pool.ready == (pool.ready if pool.wanted is None else pool.wanted)
        counted = not (pool.gpus is None or pool.gpus_used is None)
        gpus = (str(pool.gpus_used), str((pool.gpus or 0) - (pool.gpus_used or 0))) if counted and pool.gpus else ("", "")
        bounds = f"{format_number(pool.min_size)} to {format_number(pool.max_size)}" if pool.max_size is not None else ""
        if pool.gpus is not None and not counted:
            gpus = (UNKNOWN, UNKNOWN)
        ready = Text(format_number(pool.ready), GOOD if enough else DOUBTFUL)
        listing.add_row(pool.name, pool.instance_type, ready, format_number(pool.wanted), *gpus, bounds)
    return listing


def _render_pool_problems(pool: PoolStatus, now: datetime) -> Iterator[Text]:
    if pool.capacity_block:
        is_over = pool.capacity_block.state not in ("active", "scheduled", "payment-pending")
        yield Text(f"{pool.name}: {pool.capacity_block.sentence(now)}", BAD if is_over else "")
    for problem in pool.problems:
        yield Text(f"{pool.name}: {problem}", BAD)
    launch = pool.last_failed_launch
    if launch:
        over, style = ("; a later launch succeeded", "dim") if launch.later_launch_succeeded else ("", BAD)
        yield Text(f"{pool.name}: last failed launch {format_time_ago(launch.at, now)}{over}: {launch.reason}", style)


def _render_queues(status: Status) -> Iterator[RenderableType]:
    if not status.queues:
        return
    yield Text()
    for queue in status.queues:
        words = f"{queue.admitted} admitted, {queue.waiting} waiting"
        yield Text(f"queue {queue.name} in namespace {queue.namespace}: {words}", DOUBTFUL if queue.waiting else "")


def _render_jobs(status: Status, now: datetime) -> Iterator[RenderableType]:
    if status.jobs:
        several = len({job.state.namespace for job in status.jobs}) > 1
        yield Text()
        listing = Listing(
            "job", *(["namespace"] if several else []), "pool", "workers", "phase", "time", "waits for", right=("workers",)
        )
        for line in status.jobs:
            state = line.state
            place = [state.namespace] if several else []
            phase = Text(state.phase, STYLES.get(state.phase, DOUBTFUL))
            waits = Text(shorten_reason(line.waits_for))
            listing.add_row(
                state.name, *place, state.pool, str(state.workers or ""), phase, format_duration(state.seconds(now)), waits
            )
        yield listing
    if status.ended:
        ended = ", ".join(f"{number} {phase.lower()}" for phase, number in status.ended.items())
        yield Text(f"ended jobs: {ended}", "dim")
    elif not status.jobs and status.queues:
        yield Text("no jobs", "dim")


def _render_volumes(status: Status) -> Iterator[RenderableType]:
    if not status.volumes:
        return
    yield Text()
    for volume in status.volumes:
        where = f" in namespace {volume.namespace}" if volume.namespace else ""
        style = "" if volume.phase in ("Bound", "") else BAD
        yield Text(f"volume {volume.name}{where} at {volume.mount_path}{f': {volume.phase}' if volume.phase else ''}", style)
