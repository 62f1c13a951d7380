"""Shape of a record. Users of the job's namespace can write records, so the controller and the command line ignore any
other document. Optional keys belong to single concerns."""

from datetime import datetime
from itertools import pairwise
from typing import Any

from infra.health.documents import (
    has_fields,
    is_count,
    is_duration,
    is_in,
    is_integer,
    is_list,
    is_mapping,
    is_number,
    is_optional,
    is_text,
    is_time,
)

PHASES = ("Queued", "Setup", "Starting", "Running", "Restarting", "Succeeded", "Failed", "Canceled")
OUTCOMES = ("Succeeded", "Failed", "Disrupted")
MOST_WORKERS, MOST_GPUS = 10**5, 10**4

_TEXTS, _TIME_OR_NONE = is_mapping(is_text), is_optional(is_time)
_SLOW = {"rank": is_count, "since": is_count, "steps": is_count, "ratio": is_duration}
_POINT = has_fields({"step": is_count, "at": is_time})
_STEPS = has_fields(
    {
        **{"first": _POINT, "last": _POINT, "until": is_time, "regained": _TIME_OR_NONE},
        **{"goal": is_optional(is_count), "highest": is_count, "savedMs": is_count},
    },
    {"slow": has_fields(_SLOW, {"pod": is_text, "node": is_text})},
)
_RANKS = has_fields({"ranks": is_list(is_count), "at": is_text, "lines": is_list(is_text)})
_HANG = has_fields(
    {"at": is_time, "step": is_optional(is_count)},
    {**dict.fromkeys(("log", "nccl", "unknown"), is_list(is_text)), "ranks": is_list(_RANKS), "where": is_text},
)
_EXIT = has_fields({**dict.fromkeys(("pod", "container", "reason", "at"), is_text), "code": is_integer})
_ATTEMPT = has_fields(
    {
        **{"number": is_count, "from": is_time, "running": _TIME_OR_NONE, "to": _TIME_OR_NONE},
        **{"outcome": is_optional(is_in(OUTCOMES)), "cause": is_text, "fault": is_text},
        **{"exits": is_list(_EXIT), "pods": _TEXTS, "companions": _TEXTS},
    },
    {"steps": is_optional(_STEPS), "hang": _HANG},
)
_WORKER = has_fields(
    {
        **dict.fromkeys(("uid", "pod", "node", "type", "zone", "capacity", "pool"), is_text),
        **{"gpus": lambda value: is_count(value) and value <= MOST_GPUS, "from": is_time, "to": _TIME_OR_NONE},
    }
)
_RECORD = has_fields(
    {
        **{"version": is_count, "uid": is_text, "name": is_text, "namespace": is_text, "reason": is_text},
        **{"created": is_time, "ended": _TIME_OR_NONE, "phase": is_in(PHASES), "exitCode": is_optional(is_integer)},
        "phases": is_list(has_fields({"phase": is_in(PHASES), "from": is_time, "to": _TIME_OR_NONE})),
        **{"seconds": is_mapping(is_duration), "gpuSeconds": is_number},
        **dict.fromkeys(("restarts", "failures", "disruptions"), is_count),
        **{"attempts": is_list(_ATTEMPT), "workers": is_list(_WORKER)},
    },
    {
        **{"launcher": is_text, "pool": is_text, "size": lambda value: is_count(value) and value <= MOST_WORKERS},
        **{"admitted": is_time, "knownUntil": is_time, "droppedGpuSeconds": is_number, "progressProblem": is_text},
        "verdict": has_fields({"reason": is_text, "message": is_text, "at": is_time}),
        "setup": has_fields(
            {"from": _TIME_OR_NONE, "to": _TIME_OR_NONE, "outcome": is_optional(is_in(OUTCOMES)), "failures": is_count}
        ),
    },
)


def fits(document: Any) -> bool:
    """Return whether a document is a record whose parts agree."""
    return _RECORD(document) and _has_ordered_phases(document) and all(map(_is_closed_or_open, document["attempts"]))


def _has_ordered_phases(record: Any) -> bool:
    phases = record["phases"]
    times = [datetime.fromisoformat(at) for phase in phases for at in (phase["from"], phase["to"]) if at is not None]
    closed = [phase["to"] is not None for phase in phases[:-1]]
    return bool(phases) and phases[-1]["phase"] == record["phase"] and all(closed) and all(a <= b for a, b in pairwise(times))


def _is_closed_or_open(attempt: Any) -> bool:
    return (attempt["outcome"] is None) == (attempt["to"] is None)
