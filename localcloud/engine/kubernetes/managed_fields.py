"""Field ownership. https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from localcloud.engine.kubernetes.objects import Object, get_nested

CREATOR = "pulumi-kubernetes"
"""Field manager that the official provider uses when it creates an object. The first update moves the fields to a
manager that is specific to the resource."""
PREDECESSORS = (
    ("kubectl", "Apply"),
    ("kubectl", "Update"),
    ("before-first-apply", "Update"),
    (CREATOR, "Update"),
    ("pulumi-kubernetes.exe", "Update"),
    ("pulumi-resource-kubernetes", "Update"),
)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
Fields = dict[str, Any]
"""Kubernetes' FieldsV1. Keys: `f:name` for members, `k:{...}` for list elements by key, `v:...` for set elements, `.`
for the field itself."""


def get_entries(obj: Mapping[str, Any]) -> list[Object]:
    return get_nested(obj, "metadata", "managedFields") or []


def take_over_fields(obj: Object, manager: str) -> list[Object] | None:
    """Return the managedFields entries after moving the fields of earlier managers to `manager`, or None if there are
    no such fields."""
    theirs = [entry for entry in get_entries(obj) if _is_managed_by(entry, PREDECESSORS)]
    if not theirs:
        return None
    ours = [entry for entry in get_entries(obj) if _is_managed_by(entry, [(manager, "Apply")])]
    other_entries = [entry for entry in get_entries(obj) if entry not in theirs and entry not in ours]
    fields = _merge_field_sets(entry.get("fieldsV1") or {} for entry in [*ours, *theirs])
    return [*other_entries, {**(ours or theirs)[0], "manager": manager, "operation": "Apply", "fieldsV1": fields}]


def has_earlier_manager(obj: Mapping[str, Any]) -> bool:
    """Return whether an earlier Pulumi field manager owns fields. If so, a preview ignores conflicts, since the update
    takes over these fields."""
    return any(
        _is_managed_by(entry, [("*", "Update")]) and str(entry.get("manager")).startswith("pulumi-") for entry in get_entries(obj)
    )


def is_owned_by_others(obj: Mapping[str, Any], path: Iterable[str], manager: str) -> bool:
    """Return whether only managers other than `manager` own the field."""
    owners = {entry.get("manager") for entry in get_entries(obj) if _has_field(entry.get("fieldsV1"), tuple(path))}
    return bool(owners) and manager not in owners


def select_user_fields(obj: Object) -> Object:
    """Return the fields set by users, without those set by the server or controllers. These are the inputs after an
    import."""
    applied = [entry for entry in get_entries(obj) if entry.get("operation") == "Apply" and not entry.get("subresource")]
    last = get_nested(obj, "metadata", "annotations", LAST_APPLIED)
    if applied:
        fields = _merge_field_sets(entry.get("fieldsV1") or {} for entry in applied)
    elif last:
        fields = _list_manifest_fields(json.loads(last))
    else:
        return {name: value for name, value in obj.items() if name != "status"}
    user_values = _select_fields(obj, fields)
    identity = {key: value for key, value in obj["metadata"].items() if key in ("name", "namespace")}
    whole = {**user_values, "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    whole["metadata"] = {**(user_values.get("metadata") or {}), **identity}
    return whole


def _is_managed_by(entry: Mapping[str, Any], names: Iterable[tuple[str, str]]) -> bool:
    return not entry.get("subresource") and any(
        manager in ("*", entry.get("manager")) and operation == entry.get("operation") for manager, operation in names
    )


def _merge_field_sets(sets: Iterable[Fields]) -> Fields:
    whole: Fields = {}
    for fields in sets:
        for name, inner in fields.items():
            whole[name] = _merge_field_sets([whole.get(name) or {}, inner or {}])
    return whole


def _has_field(fields: Any, path: tuple[str, ...]) -> bool:
    if not path:
        return True
    return isinstance(fields, Mapping) and f"f:{path[0]}" in fields and _has_field(fields[f"f:{path[0]}"], path[1:])


def _select_fields(value: Any, fields: Fields) -> Any:
    inner = [name for name in fields if name != "."]
    if not inner:
        return value
    if isinstance(value, Mapping):
        return {name: _select_fields(member, fields[f"f:{name}"]) for name, member in value.items() if f"f:{name}" in fields}
    if isinstance(value, list):
        chosen = [(element, _find_element_fields(place, element, fields)) for place, element in enumerate(value)]
        return [_select_fields(element, element_fields) for element, element_fields in chosen if element_fields is not None]
    return value


def _find_element_fields(place: int, element: Any, fields: Fields) -> Fields | None:
    for name, inner in fields.items():
        kind, _, text = name.partition(":")
        if kind == "i" and int(text) == place:
            return inner or {}
        if kind == "v" and json.loads(text) == element:
            return {}
        if kind == "k" and _matches_key(element, json.loads(text)):
            return inner or {}
    return None


def _matches_key(element: Any, key: Mapping[str, Any]) -> bool:
    return isinstance(element, Mapping) and all(element.get(name) == value for name, value in key.items())


def _list_manifest_fields(manifest: Any) -> Fields:
    """Return the fields of a manifest. Each list counts as one field."""
    return {
        f"f:{name}": _list_manifest_fields(member) if isinstance(member, Mapping) else {} for name, member in manifest.items()
    }
