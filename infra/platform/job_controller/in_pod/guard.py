"""Isolation of failures: what fails is tried again after a pause, and nothing else waits for it."""

import sys
import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 300.0
MOST_FAILURES = 10_000
"""Failures to remember. Jobs may disappear before they succeed."""


class Guard:
    """Runs tasks, each identified by a text that is also printed with an error."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, tuple[float, float]] = {}
        """Task -> end and length of its pause."""

    def run(self, task: str, work: Callable[[], Answer]) -> Answer | None:
        """Run a task and return its result; None if it fails, or failed recently."""
        end, pause = self._failures.get(task, (0.0, 0.0))
        if task in self._failures and self._clock() < end:
            return None
        try:
            answer = work()
        except Exception as error:  # whatever a user's objects contain, and whatever the API server refuses
            pause = min(2 * pause or PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
            if len(self._failures) >= MOST_FAILURES:
                self._failures.clear()
            self._failures[task] = self._clock() + pause, pause
            print(f"{task}: {type(error).__name__}: {error}; next attempt in {pause:.0f} s", file=sys.stderr, flush=True)
            return None
        self._failures.pop(task, None)
        return answer
