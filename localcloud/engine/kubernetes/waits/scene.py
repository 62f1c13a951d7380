"""The view of an object while waiting for it: the object and the objects that belong to it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localcloud.engine.kubernetes.api import ApiError
from localcloud.engine.kubernetes.cluster import Cluster
from localcloud.engine.kubernetes.discovery import NoSuchKind
from localcloud.engine.kubernetes.objects import Object, namespace, nested
from localcloud.engine.kubernetes.tokens import Kind

POD = Kind("", "v1", "Pod")


@dataclass
class Scene:
    """An object at one point in time."""

    cluster: Cluster
    live: Object
    updating: bool = False
    """The object existed before the operation."""
    memory: dict[str, Any] = field(default_factory=dict)
    """Memory for conditions over time, shared by all looks of one wait."""

    def owned(self, kind: Kind, owner: Object, selector: Mapping[str, Any] | None) -> list[Object]:
        """Return the objects of a kind that `owner` controls, or an empty list if they cannot be read."""
        query = {"labelSelector": text} if (text := selector_text(selector or {})) else {}
        uid = nested(owner, "metadata", "uid")
        found = self.all(kind, **query)
        return [one for one in found if any(ref.get("uid") == uid for ref in nested(one, "metadata", "ownerReferences") or [])]

    def all(self, kind: Kind, **query: str) -> list[Object]:
        try:
            return self.cluster.items(kind, namespace(self.live), **query)
        except (ApiError, NoSuchKind):
            return []

    def one(self, kind: Kind, name: str, where: str | None = None) -> Object | None:
        metadata = {"name": name, "namespace": namespace(self.live) if where is None else where}
        try:
            return self.cluster.get({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata})
        except (ApiError, NoSuchKind):
            return None


@dataclass(frozen=True)
class Verdict:
    """The readiness of an object."""

    ready: bool
    progress: str = ""
    """What the object is waiting for."""
    failed: tuple[str, ...] = ()
    """Why the object will never be ready."""


READY = Verdict(True)


@dataclass(frozen=True)
class Condition:
    """The readiness check of a kind."""

    look: Callable[[Scene], Verdict]
    explain: Callable[[Scene], Sequence[str]] = lambda scene: ()
    """Explains a timeout."""
    related: bool = False
    """The check also depends on other objects, whose changes a watch on this object does not show."""
    when_read: bool = False
    """A refresh also reports that the object is not ready."""
    seconds: float | None = None
    """Upper limit of the wait for this kind."""


def selector_text(selector: Mapping[str, Any]) -> str:
    """Convert a LabelSelector to query text."""
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for rule in selector.get("matchExpressions") or []:
        key, operator, values = rule["key"], rule["operator"], ",".join(rule.get("values") or [])
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}"}
        parts.append(forms[operator])
    return ",".join(parts)


def conditions_of(obj: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the status conditions by type."""
    return {str(one.get("type")): one for one in nested(obj, "status", "conditions") or []}


def holds(obj: Mapping[str, Any], condition: str) -> bool:
    return conditions_of(obj).get(condition, {}).get("status") == "True"


def observed(obj: Mapping[str, Any]) -> bool:
    """Whether the controller has observed the current generation; until then, the status is outdated."""
    return (nested(obj, "status", "observedGeneration") or 0) >= (nested(obj, "metadata", "generation") or 1)


def count(obj: Mapping[str, Any], *path: str, default: int = 0) -> int:
    value = nested(obj, *path)
    return default if value is None else int(value)
