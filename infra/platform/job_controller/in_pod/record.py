"""The record of a job: one versioned JSON document in a ConfigMap of the job's namespace. It outlives the job.

Each part of the controller adds its own keys, and keeps unknown keys, which a newer controller may have written. Users of
the namespace can write records, so the controller and the command line ignore any document that does not have the structure
of a record.
"""

import json
from datetime import datetime
from itertools import pairwise
from typing import Any

from infra.health import documents
from infra.health.documents import (
    allow_none,
    is_duration,
    is_integer,
    is_non_negative_integer,
    is_number,
    is_text,
    is_time,
    must_be_in,
    must_be_list,
    must_be_mapping,
    must_have_fields,
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
_TEXTS, _TIME_OR_NONE = must_be_mapping(is_text), allow_none(is_time)
_SLOW = {
    "rank": is_non_negative_integer,
    "since": is_non_negative_integer,
    "steps": is_non_negative_integer,
    "ratio": is_duration,
}
_POINT = must_have_fields({"step": is_non_negative_integer, "at": is_time})
_STEPS = must_have_fields(
    {
        **{"first": _POINT, "last": _POINT, "until": is_time, "regained": _TIME_OR_NONE},
        **{"goal": allow_none(is_non_negative_integer), "highest": is_non_negative_integer, "savedMs": is_non_negative_integer},
    },
    {"slow": must_have_fields(_SLOW, {"pod": is_text, "node": is_text})},
)
_RANKS = must_have_fields({"ranks": must_be_list(is_non_negative_integer), "at": is_text, "lines": must_be_list(is_text)})
_HANG = must_have_fields(
    {"at": is_time, "step": allow_none(is_non_negative_integer)},
    {**dict.fromkeys(("log", "nccl", "unknown"), must_be_list(is_text)), "ranks": must_be_list(_RANKS), "where": is_text},
)
_EXIT = must_have_fields({**dict.fromkeys(("pod", "container", "reason", "at"), is_text), "code": is_integer})
_ATTEMPT = must_have_fields(
    {
        **{"number": is_non_negative_integer, "from": is_time, "running": _TIME_OR_NONE, "to": _TIME_OR_NONE},
        **{"outcome": allow_none(must_be_in(_OUTCOMES)), "cause": is_text, "fault": is_text},
        **{"exits": must_be_list(_EXIT), "pods": _TEXTS, "companions": _TEXTS},
    },
    {"steps": allow_none(_STEPS), "hang": _HANG},
)
_WORKER = must_have_fields(
    {
        **dict.fromkeys(("uid", "pod", "node", "type", "zone", "capacity", "pool"), is_text),
        **{"gpus": lambda value: is_non_negative_integer(value) and value <= MOST_GPUS, "from": is_time, "to": _TIME_OR_NONE},
    }
)
_RECORD = must_have_fields(
    {
        **{"version": is_non_negative_integer, "uid": is_text, "name": is_text, "namespace": is_text, "reason": is_text},
        **{"created": is_time, "ended": _TIME_OR_NONE, "phase": must_be_in(_PHASES), "exitCode": allow_none(is_integer)},
        "phases": must_be_list(must_have_fields({"phase": must_be_in(_PHASES), "from": is_time, "to": _TIME_OR_NONE})),
        **{"seconds": must_be_mapping(is_duration), "gpuSeconds": is_number},
        **dict.fromkeys(("restarts", "failures", "disruptions"), is_non_negative_integer),
        **{"attempts": must_be_list(_ATTEMPT), "workers": must_be_list(_WORKER)},
    },
    {
        **{"launcher": is_text, "pool": is_text, "size": lambda value: is_non_negative_integer(value) and value <= MOST_WORKERS},
        **{"admitted": is_time, "knownUntil": is_time, "droppedGpuSeconds": is_number, "progressProblem": is_text},
        "verdict": must_have_fields({"reason": is_text, "message": is_text, "at": is_time}),
        "setup": must_have_fields(
            {
                "from": _TIME_OR_NONE,
                "to": _TIME_OR_NONE,
                "outcome": allow_none(must_be_in(_OUTCOMES)),
                "failures": is_non_negative_integer,
            }
        ),
    },
)


def is_valid_record(document: Any) -> bool:
    """Return whether a document is a record whose parts are consistent."""
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


def create_record(uid: str, name: str, namespace: str, created: str) -> Record:
    return {
        **{"version": VERSION, "uid": uid, "name": name, "namespace": namespace, "created": created},
        **{"phase": Phase.QUEUED, "phases": [{"phase": Phase.QUEUED, "from": created, "to": None}], "seconds": {}},
        **{"ended": None, "reason": "", "exitCode": None, "restarts": 0, "failures": 0, "disruptions": 0},
        **{"attempts": [], "workers": [], "gpuSeconds": 0.0},
    }


def is_finished(record: Record) -> bool:
    return Phase(record["phase"]).is_final


def is_complete(record: Record) -> bool:
    """Return whether the controller will never change the record again: the job has ended, and its pods hold no GPUs."""
    return is_finished(record) and record["ended"] is not None and all(worker["to"] for worker in record["workers"])


def enter_phase(record: Record, phase: Phase, when: str) -> None:
    """Begin a phase. If `when` is before the start of the current phase, the new phase begins at that start."""
    last = record["phases"][-1]
    if last["phase"] == phase:
        return
    when = moments.find_latest_time(when, last["from"])
    last["to"] = when
    sums = record["seconds"]
    sums[last["phase"]] = sums.get(last["phase"], 0.0) + moments.count_seconds(last["from"], when)
    record["phase"] = phase
    record["phases"] = [*record["phases"], {"phase": phase, "from": when, "to": when if phase.is_final else None}][-PHASES_KEPT:]
    if phase.is_final:
        record["ended"] = when


def build_config_map_name(job: str, uid: str) -> str:
    """Return the name of the ConfigMap, with the UID: an earlier job with the same name may have a record."""
    return f"{job[:200]}-record-{uid[:8]}"


def build_config_map(record: Record, stored: Object | None = None) -> Object:
    """Return the ConfigMap to write; `stored` is the existing one."""
    metadata = stored["metadata"] if stored else _build_metadata(record)
    labels = {**(metadata.get("labels") or {}), RECORD_LABEL: record["name"], "app.kubernetes.io/managed-by": PROJECT}
    content = json.dumps(record, separators=(",", ":"), sort_keys=True)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "labels": labels}, "data": {RECORD_KEY: content}}


def _build_metadata(record: Record) -> Object:
    return {"name": build_config_map_name(record["name"], record["uid"]), "namespace": record["namespace"]}


def read_record(config_map: Object) -> Record | None:
    """Return the record in a ConfigMap; None if the record does not have the expected structure, has a newer format,
    or contradicts the ConfigMap's metadata."""
    document = documents.load_json((config_map.get("data") or {}).get(RECORD_KEY))
    if not is_valid_record(document) or document["version"] != VERSION:
        return None
    record: Record = document
    metadata = config_map.get("metadata") or {}
    own = metadata.get("namespace"), (metadata.get("labels") or {}).get(RECORD_LABEL)
    return record if own == (record["namespace"], record["name"]) else None


def has_newer_format(config_map: Object) -> bool:
    """Return whether a newer controller has written the record."""
    document = documents.load_json((config_map.get("data") or {}).get(RECORD_KEY))
    return (
        isinstance(document, dict)
        and documents.is_non_negative_integer(document.get("version"))
        and document["version"] > VERSION
    )
