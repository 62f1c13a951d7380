"""Add the stack's spending so far to the output of `status`."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from cli.clusters.status.cluster_status import SpendingStatus, Status
from cli.stacks.cost import cost_sources
from infra.config.stack_file import RawStack

SECONDS: Final = 60.0
"""How long `status --watch` caches the spending, which changes slowly. Each query counts against AWS's rate limits."""

Look = Callable[[], tuple[Status, int]]


def add_spending(raw: RawStack, look: Look, clock: Callable[[], float] = time.monotonic) -> Look:
    """Return a function that calls `look`, queries the stack's spending in parallel, and adds it to the status."""
    last: tuple[float, SpendingStatus | str] | None = None

    def read_cached_spending() -> SpendingStatus | str:
        nonlocal last
        if last is None or clock() - last[0] >= SECONDS:
            last = clock(), read_stack_spending(raw)
        return last[1]

    def query_both() -> tuple[Status, int]:
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(read_cached_spending)
            status, code = look()
            return _merge_spending(status, asked.result()), code

    return query_both


def read_stack_spending(raw: RawStack) -> SpendingStatus | str:
    """Return the spending, or the reason why it is unknown."""
    spent = cost_sources.read_spending_so_far(raw)
    if isinstance(spent, str):
        return spent
    return SpendingStatus(spent.total.usd, spent.since, tuple(spent.unknown))


def _merge_spending(status: Status, spending: SpendingStatus | str) -> Status:
    if isinstance(spending, SpendingStatus):
        return replace(status, spending=spending)
    if any(spending in sentence for sentence in status.unknown):
        return status
    return replace(status, unknown=(*status.unknown, f"spending so far: {spending}"))
