"""Calendar time of the local AWS: dates of Capacity Blocks, their states, and scheduled actions.

Durations of operations use a separate clock (`durations.now`). The calendar can be advanced to make a Capacity Block
start or end now.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from localcloud.aws import durations, patching


def read_system_clock() -> datetime:
    """Return the time of the machine's clock. Tests replace this function."""
    return datetime.now(UTC)


_ahead = timedelta()
_watchers: list[Callable[[datetime], None]] = []


def now() -> datetime:
    """Return the date and time of the local AWS, in UTC."""
    return read_system_clock() + _ahead


def advance(by: timedelta) -> datetime:
    """Advance the calendar, run everything that became due, and return the new time."""
    if by < timedelta():
        raise ValueError(f"the calendar can only be advanced (got {by.total_seconds():g} s)")
    global _ahead
    _ahead += by
    durations.complete_due_transitions()
    return now()


def on_tick(action: Callable[[datetime], None]) -> Callable[[datetime], None]:
    """Register a function that is called with the calendar time before every request and at every tick of the
    server."""
    _watchers.append(action)
    return action


def on_tick_first(action: Callable[[datetime], None]) -> Callable[[datetime], None]:
    """Register a function that is called before the functions of `watch`. The functions of `watch` may launch
    instances, and launches depend on the states that this function updates."""
    _watchers.insert(0, action)
    return action


def _run_tick_actions() -> None:
    moment = now()
    for action in _watchers:
        action(moment)


durations.add_pre_transition_hook(_run_tick_actions)


@patching.on_reset
def _reset_clock() -> None:
    global _ahead
    _ahead = timedelta()
