"""The record of a job: one versioned JSON document in a ConfigMap of the job's namespace. It outlives the job.

Each concern adds its own keys, and keeps unknown keys, which a newer controller may have written. Users of the namespace
can write records, so the controller and the command line ignore any document that does not fit the shape of a record.
"""

import json
from datetime import datetime
from itertools import pairwise
from typing import Any

from infra.health import documents
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
from infra.naming import PROJECT, RECORD_KEY, RECORD_LABEL

from . import moments
from .api import Object
from .job import MOST_GPUS
from .phases import Outcome, Phase

VERSION = 1
PHASES_KEPT, ATTEMPTS_KEPT, WORKERS_KEPT = 200, 50, 2000
"""A ConfigMap can hold 1 MiB. Sums of older entries are kept in `seconds`, `failures`, `disruptions` and
`gpuSeconds`."""
MOST_WORKERS = 10**5

Record = dict[str, Any]

_PHASES, _OUTCOMES = tuple(Phase), tuple(Outcome)
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
        **{"outcome": is_optional(is_in(_OUTCOMES)), "cause": is_text, "fault": is_text},
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
        **{"created": is_time, "ended": _TIME_OR_NONE, "phase": is_in(_PHASES), "exitCode": is_optional(is_integer)},
        "phases": is_list(has_fields({"phase": is_in(_PHASES), "from": is_time, "to": _TIME_OR_NONE})),
        **{"seconds": is_mapping(is_duration), "gpuSeconds": is_number},
        **dict.fromkeys(("restarts", "failures", "disruptions"), is_count),
        **{"attempts": is_list(_ATTEMPT), "workers": is_list(_WORKER)},
    },
    {
        **{"launcher": is_text, "pool": is_text, "size": lambda value: is_count(value) and value <= MOST_WORKERS},
        **{"admitted": is_time, "knownUntil": is_time, "droppedGpuSeconds": is_number, "progressProblem": is_text},
        "verdict": has_fields({"reason": is_text, "message": is_text, "at": is_time}),
        "setup": has_fields(
            {"from": _TIME_OR_NONE, "to": _TIME_OR_NONE, "outcome": is_optional(is_in(_OUTCOMES)), "failures": is_count}
        ),
    },
)


def fits(document: Any) -> bool:
    """Return whether a document is a record whose parts agree."""
    return (
        _RECORD(document)
        and _has_ordered_phases(document)
        and all((attempt["outcome"] is None) == (attempt["to"] is None) for attempt in document["attempts"])
    )


def _has_ordered_phases(record: Any) -> bool:
    phases = record["phases"]
    times = [datetime.fromisoformat(at) for phase in phases for at in (phase["from"], phase["to"]) if at is not None]
    closed = [phase["to"] is not None for phase in phases[:-1]]
    return bool(phases) and phases[-1]["phase"] == record["phase"] and all(closed) and all(a <= b for a, b in pairwise(times))


def new(uid: str, name: str, namespace: str, created: str) -> Record:
    return {
        **{"version": VERSION, "uid": uid, "name": name, "namespace": namespace, "created": created},
        **{"phase": Phase.QUEUED, "phases": [{"phase": Phase.QUEUED, "from": created, "to": None}], "seconds": {}},
        **{"ended": None, "reason": "", "exitCode": None, "restarts": 0, "failures": 0, "disruptions": 0},
        **{"attempts": [], "workers": [], "gpuSeconds": 0.0},
    }


def is_over(record: Record) -> bool:
    return Phase(record["phase"]).is_final


def enter(record: Record, phase: Phase, when: str) -> None:
    """Begin a phase, at the earliest when the current phase began."""
    last = record["phases"][-1]
    if last["phase"] == phase:
        return
    when = moments.find_latest(when, last["from"])
    last["to"] = when
    sums = record["seconds"]
    sums[last["phase"]] = sums.get(last["phase"], 0.0) + moments.count_seconds(last["from"], when)
    record["phase"] = phase
    record["phases"] = [*record["phases"], {"phase": phase, "from": when, "to": when if phase.is_final else None}][-PHASES_KEPT:]
    if phase.is_final:
        record["ended"] = when


def config_map_name(job: str, uid: str) -> str:
    """Return the name of the ConfigMap, with the UID: an earlier job with the same name may have a record."""
    return f"{job[:200]}-record-{uid[:8]}"


def config_map(record: Record, stored: Object | None = None) -> Object:
    """Return the ConfigMap to write; `stored` is the existing one."""
    metadata = stored["metadata"] if stored else _metadata(record)
    labels = {**(metadata.get("labels") or {}), RECORD_LABEL: record["name"], "app.kubernetes.io/managed-by": PROJECT}
    content = json.dumps(record, separators=(",", ":"), sort_keys=True)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "labels": labels}, "data": {RECORD_KEY: content}}


def _metadata(record: Record) -> Object:
    return {"name": config_map_name(record["name"], record["uid"]), "namespace": record["namespace"]}


def read(config_map: Object) -> Record | None:
    """Return the record in a ConfigMap; None if it does not fit its shape, has a newer format, or contradicts the
    ConfigMap's metadata."""
    document = documents.load((config_map.get("data") or {}).get(RECORD_KEY))
    if not fits(document) or document["version"] != VERSION:
        return None
    record: Record = document
    metadata = config_map.get("metadata") or {}
    own = metadata.get("namespace"), (metadata.get("labels") or {}).get(RECORD_LABEL)
    return record if own == (record["namespace"], record["name"]) else None


def is_newer(config_map: Object) -> bool:
    """Return whether a newer controller has written the record."""
    document = documents.load((config_map.get("data") or {}).get(RECORD_KEY))
    return isinstance(document, dict) and documents.is_count(document.get("version")) and document["version"] > VERSION
