"""Start and removal times of the nodes in a Capacity Block.

Scheduled actions start the nodes when the block starts, and remove them before it ends
(docs/adr/0027-blocks-by-schedule.md).
"""

from datetime import UTC, datetime
from typing import Final

from infra.facts.model import CapacityReservation, Facts
from infra.plan.specs import DRAIN_BEFORE_END, BlockSchedule
from infra.settings.pools import CapacityBlock, Pool

_NOT_STARTED: Final = ("scheduled", "payment-pending", "pending", "assessing", "delayed")


def plan_block_schedule(pool: Pool, facts: Facts) -> BlockSchedule | None:
    """Return when the pool grows and shrinks; None if there is no Capacity Block, or if both times are in the past."""
    block = facts.reservations.get(pool.reservation_id or "")
    if not isinstance(pool.capacity, CapacityBlock) or block is None or block.end is None:
        return None
    start, drain = find_block_start(block), find_drain_start(block)
    if block.state not in (*_NOT_STARTED, "active") or drain is None:
        return None
    return BlockSchedule(
        start=_format_time(start) if start is not None else None,
        drain=_format_time(drain),
        nodes=min(pool.max_size, block.total),
        minimum=pool.min_size,
    )


def find_block_start(block: CapacityReservation) -> datetime | None:
    """Return the start of a block that has not started yet."""
    is_ahead = block.state in _NOT_STARTED and block.start is not None and block.start > block.read_at
    return block.start if is_ahead else None


def find_drain_start(block: CapacityReservation) -> datetime | None:
    """Return when draining starts, if that is in the future."""
    moment = block.end - DRAIN_BEFORE_END if block.end is not None else None
    return moment if moment is not None and moment > block.read_at else None


def _format_time(moment: datetime) -> str:
    """Return a time in the format that Auto Scaling uses."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
