"""Number and duration of API calls by operation."""

import threading
from dataclasses import dataclass

_READS = ("Describe", "Get", "List", "Head", "BatchGet", "Lookup", "Search", "Select", "Query", "Scan", "Filter", "Simulate")

_lock = threading.Lock()


@dataclass
class Count:
    calls: int = 0
    errors: int = 0
    seconds: float = 0.0
    """Processing time, excluding time spent waiting for other calls."""


_counts: dict[tuple[str, str], Count] = {}


def is_read(operation: str) -> bool:
    """Return whether an operation is read-only, judging by its name."""
    return operation.startswith(_READS)


def record_call(service: str, operation: str, seconds: float, failed: bool) -> None:
    with _lock:
        count = _counts.setdefault((service, operation), Count())
        count.calls += 1
        count.errors += failed
        count.seconds += seconds


def clear_counts() -> None:
    with _lock:
        _counts.clear()


def get_counts() -> dict[tuple[str, str], Count]:
    with _lock:
        return {key: Count(count.calls, count.errors, count.seconds) for key, count in sorted(_counts.items())}


def count_writes() -> dict[str, int]:
    """Return a mapping from `service.Operation` to the number of calls, for operations that are not read-only."""
    return {f"{service}.{name}": count.calls for (service, name), count in get_counts().items() if not is_read(name)}


def count_reads() -> dict[str, int]:
    return {f"{service}.{name}": count.calls for (service, name), count in get_counts().items() if is_read(name)}
