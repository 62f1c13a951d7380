"""The journal of the nodes that were taken out of service: one JSON document in a ConfigMap, which outlives the nodes.

For an existing node, the annotation is authoritative, not the journal. The journal is written before a node is changed,
so the brake counts a node even if the controller is killed between the two steps, or if the node is replaced in the
meantime.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from infra.health import annotation, documents, faults
from infra.health.annotation import Object, TakenOut
from infra.health.cordons import Before

VERSION: Final = 1
CONFIG_MAP: Final = "gpumpi-node-health"
KEY: Final = "nodes.json"
KEPT: Final = 500
"""Number of entries to keep. A ConfigMap holds at most 1 MiB."""
STEPS_KEPT: Final = 20
IN_SERVICE, GONE = "healthy", "gone"
ENDED: Final = (IN_SERVICE, GONE)

Entry = dict[str, Any]
"""One removal of a node from service, with the keys node, uid, instance, at, condition, reason, action, state,
steps."""
Journal = dict[str, Any]


def create_journal() -> Journal:
    return {"version": VERSION, "entries": [], "held": []}


def parse_journal(text: str | None) -> Journal:
    """Return the journal without damaged entries, or an empty journal if the text is damaged, missing or in a newer
    format."""
    document = documents.load_json(text)
    if not _IS_JOURNAL(document):
        return create_journal()
    journal: Journal = {**document, "entries": [entry for entry in document["entries"] if _IS_ENTRY(entry)]}
    return journal


_IS_JOURNAL: Final = documents.must_have_fields(
    {"version": documents.must_be_in((VERSION,)), "entries": lambda value: isinstance(value, list)}
)
_TEXTS: Final = ("node", "uid", "instance", "condition", "reason", "action", "state")
_IS_ENTRY: Final = documents.must_have_fields(
    {
        **dict.fromkeys(_TEXTS, documents.is_text),
        "at": documents.is_any_time,
        "steps": documents.must_be_list(documents.must_have_fields({"state": documents.is_text, "at": documents.is_any_time})),
    }
)


def serialize_journal(journal: Journal) -> str:
    return json.dumps(journal, separators=(",", ":"), sort_keys=True)


def update_journal(journal: Journal, nodes: Sequence[Object], everything: Sequence[str], now: datetime) -> Journal:
    """Return the journal, updated with the states of the nodes. `everything`: UIDs of all nodes of the cluster."""
    after = [dict(entry, steps=list(entry["steps"])) for entry in journal["entries"]]
    open_entries = {entry["uid"]: entry for entry in after if entry["state"] not in ENDED}
    for node in nodes:
        out = annotation.read_annotation(node)
        if out is not None and not _contains_state(after, node, out):
            record_state(after, node, out)
    for uid, entry in open_entries.items():
        if uid not in everything:
            _append_step(entry, GONE, now)
    return {**journal, "entries": after[-KEPT:]}


def _contains_state(entries: Sequence[Entry], node: Object, out: TakenOut) -> bool:
    """Return whether the journal contains this state, or a later state whose patch has not been applied yet."""
    entry = _find_entry(entries, node, out)
    return entry is not None and bool(entry["steps"]) and datetime.fromisoformat(entry["steps"][-1]["at"]) >= out.since


def _find_entry(entries: Sequence[Entry], node: Object, out: TakenOut) -> Entry | None:
    """Return the entry of this removal from service, or an open entry that was written before the node was changed."""
    about = [entry for entry in reversed(entries) if entry["uid"] == node["metadata"]["uid"]]
    same = (entry for entry in about if entry["at"] == out.at.isoformat())
    return next(same, next((entry for entry in about if entry["state"] not in ENDED), None))


def record_state(entries: list[Entry], node: Object, out: TakenOut) -> None:
    """Record a node's state in its entry, or start a new entry."""
    entry = _find_entry(entries, node, out)
    if entry is None:
        entry = {
            "node": str(node["metadata"]["name"]),
            "uid": str(node["metadata"]["uid"]),
            "instance": str(node["spec"].get("providerID", "")).rpartition("/")[2],
            "at": out.at.isoformat(),
            "condition": out.condition,
            "reason": out.reason,
            "action": out.action,
            "state": "",
            "steps": [],
        }
        entries.append(entry)
    entry["at"] = max(entry["at"], out.at.isoformat())
    _append_step(entry, out.state, out.since)


def close_entries(entries: Sequence[Entry], uid: str, now: datetime) -> None:
    """Record that a node accepts jobs again."""
    for entry in entries:
        if entry["uid"] == uid and entry["state"] not in ENDED:
            _append_step(entry, IN_SERVICE, now)


def find_nodes_counted_by_brake(journal: Journal, nodes: Sequence[Object]) -> Before:
    """Return the nodes without an annotation that the brake must count.

    A silent node no longer counts once it is gone: Kubernetes deletes a node only if its instance no longer exists, so
    the silence was not a false alarm. Otherwise, a reclaimed Spot Instance would use up the limit of a small cluster.
    https://kubernetes.io/docs/concepts/architecture/cloud-controller/#node-controller
    """
    names = {str(node["metadata"]["uid"]): str(node["metadata"]["name"]) for node in nodes}
    marked = {str(node["metadata"]["uid"]) for node in nodes if annotation.read_annotation(node) is not None}
    gone: dict[str, datetime] = {}
    counted: dict[str, datetime] = {}
    for entry in journal["entries"]:
        at, uid = datetime.fromisoformat(entry["at"]), entry["uid"]
        if uid in names and uid not in marked:
            counted[names[uid]] = at
        elif uid not in names and entry["reason"] != faults.SILENT:
            gone[f"{entry['node']} ({uid})"] = at  # a new node may have the same name
    return Before(gone, counted)


def _append_step(entry: Entry, state: str, at: datetime) -> None:
    if entry["state"] != state:
        entry["state"] = state
        entry["steps"] = [*entry["steps"], {"state": state, "at": at.isoformat()}][-STEPS_KEPT:]


def find_entries(journal: Mapping[str, Any], name: str) -> list[Entry]:
    """Return the entries about a node, oldest first."""
    return [entry for entry in journal["entries"] if name in (entry["node"], entry["instance"])]
