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
"""Time limit for all new lines of one job. 5,000 lines with a typical pattern take 5 ms."""
PIECE_LIMIT = 500
"""Number of characters, per piece of a line, in which to search for the step."""
STEP_LIMIT, SECONDS_LIMIT = 10**15, 10**10
"""Larger numbers cannot be stored in a record (record.py)."""

Lines = Sequence[tuple[str, str]]
"""Time and text of each line."""


@dataclass(frozen=True, slots=True)
class Step:
    """A line of the log that contains a step."""

    at: str
    number: int
    saved_ms: int = 0
    """How long the last checkpoint took, if the line contains it."""
    slowest: int | None = None
    """The rank that computed longest, if the line contains it."""
    ratio: float = 0.0
    """The time of that rank, divided by the median of all ranks."""


class TooSlow(Exception):
    """Searching for the pattern took too long."""


def split_lines(text: str) -> list[tuple[str, str]]:
    """Return the complete lines of a log that was read with `timestamps=true`. Only a line feed ends a line: progress bars
    and standard output share lines, in which carriage returns separate the pieces.

    >>> split_lines("2026-11-23T12:00:00.123456789Z 1 %\\rstep 1\\n2026-11-23T12:00:01")
    [('2026-11-23T12:00:00.123456Z', '1 %\\rstep 1')]
    """
    parts = (line.partition(" ") for line in text.split("\n")[:-1])
    return [(at, rest) for when, _, rest in parts if (at := moments.parse_exact_time(when)) is not None]


def split_unfinished_line(text: str) -> tuple[str, str]:
    """Return the time of a log's last line, which has no line feed yet, and its pieces up to the last carriage return. The
    time is empty if the text begins inside the line: the kubelet writes one time per line, even if the line is long.
    https://github.com/kubernetes/cri-client/blob/v0.35.0/pkg/logs/logs.go (ReadLogs)

    >>> split_unfinished_line("2026-11-23T12:00:00Z step 1\\n2026-11-23T12:00:01Z 1 %\\r2 %\\r3")
    ('2026-11-23T12:00:01.000000Z', '1 %\\r2 %')
    """
    line = text.rpartition("\n")[2]
    when, _, rest = line.partition(" ")
    at = moments.parse_exact_time(when) or ""
    return at, (rest if at else line).rpartition("\r")[0]


def read_visible_part(text: str) -> str:
    """Return what a terminal shows of a line.

    >>> read_visible_part(" 1 %\\r 2 %\\r")
    ' 2 %'
    """
    return text.rstrip("\r").rpartition("\r")[2]


def find_steps(lines: Lines, pattern: str, limit: float = SECONDS_PER_READ) -> list[Step]:
    """Return the last step of each line that contains a step; nothing for an invalid pattern. Raises TooSlow."""
    steps: list[Step] = []
    with _limit_time(limit):
        try:
            expression = re.compile(pattern)
        except (re.error, OverflowError, RecursionError, MemoryError):
            return []
        for at, text in lines:
            matches = (expression.search(piece[:PIECE_LIMIT]) for piece in reversed(text.split("\r")))
            last = next((step for match in matches if match and (step := _parse_step(at, match)) is not None), None)
            steps += [last] if last else []
    return steps


def _parse_step(at: str, match: "re.Match[str]") -> Step | None:
    named = match.groupdict()
    try:
        number = int(named["step"] if "step" in named else match.group(1))
        saved, ratio = float(named.get("saved") or 0), float(named.get("ratio") or 0)
        slowest = int(named["slowest"]) if named.get("slowest") else None
    except (IndexError, TypeError, ValueError):
        return None
    is_plausible = 0 <= number < STEP_LIMIT and 0 <= saved < SECONDS_LIMIT and 0 <= ratio < SECONDS_LIMIT
    is_plausible &= slowest is None or 0 <= slowest < STEP_LIMIT
    return Step(at, number, round(saved * 1000), slowest, ratio) if is_plausible else None


@contextmanager
def _limit_time(limit: float) -> Iterator[None]:
    """Raise TooSlow in the block after the limit. Only the main thread gets signals."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("steps must be searched in the main thread")

    def raise_too_slow(*_: Any) -> None:
        raise TooSlow

    former: Callable[..., Any] | int | None = signal.signal(signal.SIGALRM, raise_too_slow)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
