"""Failures of the local cloud's own components, as shown by `scripts/cluster local status`. AWS has no counterpart."""

import logging
import threading

log = logging.getLogger(__name__)

LIMIT = 20
"""Maximum number of problems kept. The log contains all of them."""

_found: dict[str, None] = {}
_lock = threading.Lock()


def report(part: str, error: Exception) -> str:
    """Log and record the failure of a component. Call it in an exception handler. Return the failure as a sentence."""
    problem = f"{part} failed: {reason(error)}"
    log.exception("%s", problem)
    with _lock:
        if len(_found) < LIMIT:
            _found[problem] = None
    return problem


def reason(error: Exception) -> str:
    """Return the message of an error. Include its type, except for an OSError or RuntimeError with a message."""
    text = str(error)
    return text if text and isinstance(error, OSError | RuntimeError) else repr(error)


def found() -> list[str]:
    """Return all problems since the last reset, oldest first."""
    with _lock:
        return list(_found)


def forget() -> None:
    with _lock:
        _found.clear()
