"""The annotation of a node that the job controller has taken out of service: when, why, and the state of its repair."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

from infra.health import documents
from infra.health.faults import Action
from infra.naming import TAKEN_OUT_ANNOTATION

FIRST: Final = datetime.min.replace(tzinfo=UTC)
LONGEST_GRACE_SECONDS: Final = 7 * 86400
"""Longest grace period for which a node stays out of service: users can set any number in a pod."""

Object = Mapping[str, Any]
State = Literal["draining", "repairing", "verifying"]


@dataclass(frozen=True)
class TakenOut:
    """Content of the annotation."""

    at: datetime
    """When the node was taken out of service."""
    condition: str = ""
    reason: str = ""
    action: Action = "cordon"
    """Repair that the node needs once its jobs have left."""
    state: State = "draining"
    """draining: jobs leave the node. repairing: the node still has the fault. verifying: the fault is gone, and the
    node must stay healthy for a while."""
    since: datetime = FIRST
    """When the state began."""
    drains: bool = True
    """Whether the controller restarts the node's jobs elsewhere."""
    ending: int = 0
    """Seconds that the kubelet may need, once it can reach the API server again, to end the pods that were deleted
    while it was silent. Until then, the pods hold GPUs, and new pods can get Secrets of deleted jobs from its cache."""

    def text(self) -> str:
        values = asdict(self)
        return json.dumps({**values, "at": _format_time(self.at), "since": _format_time(self.since)})


def read_node_name(node: Object) -> str:
    return str(node["metadata"]["name"])


def read_annotation(node: Object) -> TakenOut | None:
    """Return the content of a node's annotation, or None if it has none.

    If the annotation is damaged, the node counts as drained and as out of service for a long time. The node stays out of
    service until it has no fault.
    """
    text = (node["metadata"].get("annotations") or {}).get(TAKEN_OUT_ANNOTATION)
    return None if text is None else parse_annotation(text)


def parse_annotation(text: str) -> TakenOut:
    """Return the content of an annotation. The node itself can write this annotation."""
    document = documents.load_json(text)
    if not _IS_TAKEN_OUT(document):
        return TakenOut(at=FIRST, state="repairing", drains=False)
    values = {key: document[key] for key in ("condition", "reason", "action", "state", "drains") if key in document}
    at = datetime.fromisoformat(document["at"]).astimezone(UTC)
    since = datetime.fromisoformat(document.get("since", document["at"])).astimezone(UTC)
    return TakenOut(at=at, since=since, ending=min(document.get("ending", 0), LONGEST_GRACE_SECONDS), **values)


_IS_TAKEN_OUT: Final = documents.must_have_fields(
    {"at": documents.is_any_time},
    {
        "condition": documents.is_text,
        "reason": documents.is_text,
        "action": documents.must_be_in(get_args(Action)),
        "state": documents.must_be_in(get_args(State)),
        "since": documents.is_any_time,
        "drains": lambda value: isinstance(value, bool),
        "ending": documents.is_non_negative_integer,
    },
)


def _format_time(when: datetime) -> str:
    return when.astimezone(UTC).isoformat()
