"""Steps of a job in the lines of its log. The pattern comes from the user, so its run time is limited.

With a bad pattern, Python's `re` may run practically forever. It checks for signals while it runs, so a timer can stop
it.
"""

import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from . import moments

SECONDS_PER_READ = 1.0
"""Time for all new lines of one job. 5,000 lines with a typical pattern take 5 ms."""
LINE_LIMIT = 500
"""Number of characters of each line in which to search for the step."""
STEP_LIMIT = 10**15

Lines = Sequence[tuple[str, str]]
"""Time and text of each line."""


@dataclass(frozen=True)
class Step:
    """A line of the log that contains a step."""

    at: str
    number: int
    saved_ms: int = 0
    """How long the last checkpoint took, if the line contains it."""
    slowest: int | None = None
    """The rank that computed longest, if the line contains it."""
    ratio: float = 0.0
    """Its time, divided by the median of all ranks."""


class TooSlow(Exception):
    """The pattern took too long."""


def split(text: str) -> list[tuple[str, str]]:
    """Return the complete lines of a log that was read with `timestamps=true`.

    >>> split("2026-11-23T12:00:00.123456789Z step 1\\n2026-11-23T12:00:01")
    [('2026-11-23T12:00:00.123456Z', 'step 1')]
    """
    found = []
    for line in text.splitlines(keepends=True):
        when, _, rest = line.partition(" ")
        if not line.endswith("\n") or (at := moments.exact(when)) is None:
            continue
        found.append((at, rest.rstrip("\n")[:LINE_LIMIT]))
    return found


def find(lines: Lines, pattern: str, limit: float = SECONDS_PER_READ) -> list[Step]:
    """Return the steps in the lines; nothing for an invalid pattern. Raises TooSlow."""
    steps: list[Step] = []
    with _ended_after(limit):
        try:
            wanted = re.compile(pattern)
        except (re.error, OverflowError, RecursionError):
            return []
        steps += [step for at, text in lines if (found := wanted.search(text)) and (step := _step(at, found)) is not None]
    return steps


def _step(at: str, found: "re.Match[str]") -> Step | None:
    named = found.groupdict()
    try:
        number = int(named["step"] if "step" in named else found.group(1))
        saved, ratio = float(named.get("saved") or 0), float(named.get("ratio") or 0)
        slowest = int(named["slowest"]) if named.get("slowest") else None
    except (IndexError, TypeError, ValueError):
        return None
    is_plausible = 0 <= number < STEP_LIMIT and 0 <= saved < STEP_LIMIT and 0 <= ratio < STEP_LIMIT
    return Step(at, number, round(saved * 1000), slowest, ratio) if is_plausible else None


@contextmanager
def _ended_after(limit: float) -> Iterator[None]:
    """Raise TooSlow in the block after the limit. Only the main thread gets signals."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("steps must be searched in the main thread")

    def stop(*_: Any) -> None:
        raise TooSlow

    former: Callable[..., Any] | int | None = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
