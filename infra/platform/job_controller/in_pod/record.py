"""The record of a job: one versioned JSON document in a ConfigMap of the job's namespace. It outlives the job.

Each concern adds its own keys, and keeps unknown keys, which a newer controller may have written.
"""

import json
from typing import Any

from infra.health import documents

from . import moments, record_shape
from .api import Object

VERSION = 1
LABEL = "gpumpi.io/record"
"""Label of a record. Its value is the job's name. Records do not have the label of the job's objects, because those are
deleted with the job."""
KEY = "record.json"
PHASES_KEPT, ATTEMPTS_KEPT, WORKERS_KEPT = 200, 50, 2000
"""A ConfigMap can hold 1 MiB. Sums of older entries are kept in `seconds`, `failures`, `disruptions` and
`gpuSeconds`."""

QUEUED, SETUP, STARTING, RUNNING, RESTARTING = "Queued", "Setup", "Starting", "Running", "Restarting"
SUCCEEDED, FAILED, CANCELED = "Succeeded", "Failed", "Canceled"
ENDED = (SUCCEEDED, FAILED, CANCELED)

Record = dict[str, Any]


def new(uid: str, name: str, namespace: str, created: str) -> Record:
    return {
        "version": VERSION,
        "uid": uid,
        "name": name,
        "namespace": namespace,
        "created": created,
        "phase": QUEUED,
        "phases": [{"phase": QUEUED, "from": created, "to": None}],
        "seconds": {},
        "ended": None,
        "reason": "",
        "exitCode": None,
        "restarts": 0,
        "failures": 0,
        "disruptions": 0,
        "attempts": [],
        "workers": [],
        "gpuSeconds": 0.0,
    }


def is_over(record: Record) -> bool:
    return record["phase"] in ENDED


def enter(record: Record, phase: str, when: str) -> None:
    """Begin a phase, at the earliest when the current phase began."""
    last = record["phases"][-1]
    if last["phase"] == phase:
        return
    when = moments.latest(when, last["from"])
    last["to"] = when
    sums = record["seconds"]
    sums[last["phase"]] = sums.get(last["phase"], 0.0) + moments.seconds(last["from"], when)
    record["phase"] = phase
    record["phases"] = [*record["phases"], {"phase": phase, "from": when, "to": when if phase in ENDED else None}][-PHASES_KEPT:]
    if phase in ENDED:
        record["ended"] = when


def name_of(job: str, uid: str) -> str:
    """Return the name of the ConfigMap, with the UID: an earlier job with the same name may have a record."""
    return f"{job[:200]}-record-{uid[:8]}"


def config_map(record: Record, found: Object | None = None) -> Object:
    """Return the ConfigMap to write; `found` is the existing one."""
    metadata = found["metadata"] if found else {"name": name_of(record["name"], record["uid"]), "namespace": record["namespace"]}
    labels = {**(metadata.get("labels") or {}), LABEL: record["name"], "app.kubernetes.io/managed-by": "gpumpi"}
    content = json.dumps(record, separators=(",", ":"), sort_keys=True)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "labels": labels}, "data": {KEY: content}}


def read(config_map: Object) -> Record | None:
    """Return the record in a ConfigMap; None if it does not fit its shape, has a newer format, or contradicts the
    ConfigMap's metadata. Users of the namespace can write any content."""
    document = documents.load((config_map.get("data") or {}).get(KEY))
    if not record_shape.fits(document) or document["version"] != VERSION:
        return None
    record: Record = document
    metadata = config_map.get("metadata") or {}
    own = metadata.get("namespace"), (metadata.get("labels") or {}).get(LABEL)
    return record if own == (record["namespace"], record["name"]) else None


def is_newer(config_map: Object) -> bool:
    """Return whether a newer controller has written the record."""
    document = documents.load((config_map.get("data") or {}).get(KEY))
    return isinstance(document, dict) and documents.is_count(document.get("version")) and document["version"] > VERSION
