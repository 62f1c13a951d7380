"""Kubernetes objects for Pulumi's mocks: naming, schema validation and duplicate checks without an API server."""

from collections.abc import Mapping
from typing import Any

from localcloud.engine.codec import has_unknowns
from localcloud.engine.kubernetes import naming, objects
from localcloud.engine.kubernetes.discovery import Discovery
from localcloud.engine.kubernetes.objects import DEFINITION, Object
from localcloud.engine.kubernetes.schema import find_schema_errors
from localcloud.engine.kubernetes.tokens import PACKAGE, Kind, NotServed, parse_served_kind

NAMESPACE = "default"


class ObjectRefused(Exception):
    """The program registered an object that an API server would reject."""


def is_kubernetes_type(token: str) -> bool:
    return token.startswith(PACKAGE)


class Recorder:
    """Kubernetes objects registered by one program."""

    def __init__(self) -> None:
        self._discovery = Discovery(None)
        self._made: set[tuple[Kind, str]] = set()

    def record_object(self, token: str, logical: str, inputs: Mapping[str, Any], seed: bytes) -> tuple[str, Object]:
        """Record an object, and return its id and state. Raises ObjectRefused."""
        try:
            kind = parse_served_kind(token, inputs)
            manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}, **objects.from_pulumi(inputs)}
            obj = naming.assign_name(objects.normalize(manifest), {}, logical, seed=seed, proposed="", disabled=False)
        except (NotServed, naming.Unnamed) as error:
            raise ObjectRefused(f"{token} {logical}: {error}") from error
        if wrong := find_schema_errors(obj):
            raise ObjectRefused(f"{token} {logical}: " + "; ".join(wrong))
        if kind == DEFINITION:
            self._discovery.record_crd(obj)
        if not has_unknowns(obj["metadata"]):
            obj = self._assign_namespace(obj, kind, f"{token} {logical}")
        return objects.format_pulumi_id(obj), objects.to_pulumi(obj)

    def _assign_namespace(self, obj: Object, kind: Kind, title: str) -> Object:
        """Set the namespace of a namespaced object, and reject a second object with the same name."""
        where = (objects.get_namespace(obj) or NAMESPACE) if self._discovery.is_namespaced(kind) else None
        obj = objects.copy_with_metadata(obj, namespace=where)
        key = (kind, objects.format_pulumi_id(obj))
        if key in self._made:
            raise ObjectRefused(f"{title}: {kind.kind} {objects.format_pulumi_id(obj)} already exists")
        self._made.add(key)
        return obj
