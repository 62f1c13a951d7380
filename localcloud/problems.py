"""Failures of the local cloud's own components, as shown by `scripts/cluster local status`. AWS has no equivalent of
this list."""

import logging
import threading

log = logging.getLogger(__name__)

LIMIT = 20
"""Maximum number of recorded problems. The log contains all problems."""

_found: dict[str, None] = {}
_lock = threading.Lock()


def report_problem(part: str, error: Exception) -> str:
    """Log and record a component's failure, and return it as a sentence. Must be called in an exception handler."""
    problem = f"{part} failed: {format_error(error)}"
    log.exception("%s", problem)
    with _lock:
        if len(_found) < LIMIT:
            _found[problem] = None
    return problem


def format_error(error: Exception) -> str:
    """Return an error's message, with the error's type unless it is an OSError or RuntimeError with a message."""
    text = str(error)
    return text if text and isinstance(error, OSError | RuntimeError) else repr(error)


def list_problems() -> list[str]:
    """Return all problems since the last reset, oldest first."""
    with _lock:
        return list(_found)


def clear_problems() -> None:
    with _lock:
        _found.clear()
