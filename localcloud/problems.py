"""Failures of the local cloud's own parts, which AWS does not have. `scripts/cluster local status` shows them."""

import logging
import threading

log = logging.getLogger(__name__)

LIMIT = 20
"""Maximum number of problems kept. The log contains all of them."""

_found: dict[str, None] = {}
_lock = threading.Lock()


def report(part: str, error: Exception) -> str:
    """Log and record the failure of a part. Call this in an exception handler. Return the failure as a sentence."""
    problem = f"{part} failed: {reason(error)}"
    log.exception("%s", problem)
    with _lock:
        if len(_found) < LIMIT:
            _found[problem] = None
    return problem


def reason(error: Exception) -> str:
    """Return the message of an error, with its type unless it is an operating system or runtime error with a text."""
    text = str(error)
    return text if text and isinstance(error, OSError | RuntimeError) else repr(error)


def found() -> list[str]:
    """Return all problems since the last reset, oldest first."""
    with _lock:
        return list(_found)


def forget() -> None:
    with _lock:
        _found.clear()
