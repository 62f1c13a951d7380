"""Poll until other processes reach a state. On a timeout, `wait_until` and `wait_while` raise tenacity's RetryError.

The pause between two polls is as long as a poll takes on average. Therefore polls that start a program leave half of
a core to the processes for which they wait.
"""

from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, retry_if_not_result, stop_after_delay

T = TypeVar("T")

LIMIT_SECONDS = 240.0
SHORTEST_PAUSE_SECONDS = 0.1


def _get_poll_interval(polls: RetryCallState) -> float:
    """Return the seconds until the next poll: the average duration of the polls so far."""
    return max(SHORTEST_PAUSE_SECONDS, ((polls.seconds_since_start or 0.0) - polls.idle_for) / polls.attempt_number)


def wait_until(look: Callable[[], T], condition: Callable[[T], object] = bool, seconds: float = LIMIT_SECONDS) -> T:
    """Poll until the condition holds; return the last value."""
    again = retry_if_not_result(lambda value: bool(condition(value)))
    return Retrying(retry=again, wait=_get_poll_interval, stop=stop_after_delay(seconds))(look)


def wait_while(look: Callable[[], T], condition: Callable[[T], object], seconds: float = LIMIT_SECONDS) -> T:
    """Poll until the condition no longer holds; return the last value."""
    return wait_until(look, lambda value: not condition(value), seconds)


def retry_until_success(check: Callable[[], T], *errors: type[Exception], seconds: float = LIMIT_SECONDS) -> T:
    """Retry the check until it raises none of `errors` (default: OSError); return its value. On a timeout, raise the
    last error."""
    again = retry_if_exception_type(errors or (OSError,))
    return Retrying(retry=again, wait=_get_poll_interval, stop=stop_after_delay(seconds), reraise=True)(check)
