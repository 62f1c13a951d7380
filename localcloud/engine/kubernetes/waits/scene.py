"""Snapshot of an awaited object and its dependents, and the interface of readiness checks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localcloud.engine.kubernetes.api import ApiError
from localcloud.engine.kubernetes.cluster import Cluster
from localcloud.engine.kubernetes.discovery import NoSuchKind
from localcloud.engine.kubernetes.objects import Object, get_namespace, get_nested
from localcloud.engine.kubernetes.tokens import Kind

POD = Kind("", "v1", "Pod")


@dataclass
class Scene:
    """Input of a readiness check: the object itself, and access to other objects in its namespace."""

    cluster: Cluster
    live: Object
    updating: bool = False
    """True if the object existed before the operation."""
    memory: dict[str, Any] = field(default_factory=dict)
    """Data that a readiness check keeps between the polls of one wait."""

    def find_owned_objects(self, kind: Kind, owner: Object, selector: Mapping[str, Any] | None) -> list[Object]:
        """Return the objects of this kind that `owner` owns; empty if the objects cannot be read."""
        query = {"labelSelector": text} if (text := format_selector(selector or {})) else {}
        uid = get_nested(owner, "metadata", "uid")
        candidates = self.list_objects(kind, **query)
        return [
            obj
            for obj in candidates
            if any(ref.get("uid") == uid for ref in get_nested(obj, "metadata", "ownerReferences") or [])
        ]

    def list_objects(self, kind: Kind, **query: str) -> list[Object]:
        try:
            return self.cluster.items(kind, get_namespace(self.live), **query)
        except (ApiError, NoSuchKind):
            return []

    def find_object(self, kind: Kind, name: str, where: str | None = None) -> Object | None:
        metadata = {"name": name, "namespace": get_namespace(self.live) if where is None else where}
        try:
            return self.cluster.get({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata})
        except (ApiError, NoSuchKind):
            return None


@dataclass(frozen=True)
class Verdict:
    """Result of a readiness check."""

    ready: bool
    progress: str = ""
    """Status message that explains why the object is not ready yet."""
    failed: tuple[str, ...] = ()
    """Reasons why the object will never become ready."""


READY = Verdict(True)


@dataclass(frozen=True)
class Condition:
    """Readiness check of a kind."""

    look: Callable[[Scene], Verdict]
    explain: Callable[[Scene], Sequence[str]] = lambda scene: ()
    """Function that returns the likely reasons for a timeout."""
    related: bool = False
    """True if the check also depends on other objects. A watch on this object does not report changes to those
    objects."""
    when_read: bool = False
    """True if a refresh also runs the check and reports an object that is not ready."""
    seconds: float | None = None
    """Maximum timeout for this kind, in seconds."""


def format_selector(selector: Mapping[str, Any]) -> str:
    """Convert a LabelSelector to the `labelSelector` query parameter."""
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for rule in selector.get("matchExpressions") or []:
        key, operator, values = rule["key"], rule["operator"], ",".join(rule.get("values") or [])
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}"}
        parts.append(forms[operator])
    return ",".join(parts)


def get_conditions(obj: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the status conditions, keyed by type."""
    return {str(condition.get("type")): condition for condition in get_nested(obj, "status", "conditions") or []}


def has_true_condition(obj: Mapping[str, Any], condition: str) -> bool:
    return get_conditions(obj).get(condition, {}).get("status") == "True"


def is_observed(obj: Mapping[str, Any]) -> bool:
    """Return whether the controller has observed the current generation. Until then, the status is outdated."""
    return (get_nested(obj, "status", "observedGeneration") or 0) >= (get_nested(obj, "metadata", "generation") or 1)


def get_count(obj: Mapping[str, Any], *path: str, default: int = 0) -> int:
    value = get_nested(obj, *path)
    return default if value is None else int(value)
