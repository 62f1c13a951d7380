"""Helpers for Kubernetes objects as dictionaries: names, ids, annotations, and the API server's normalization."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from localcloud.engine.codec import Unknown, has_unknowns
from localcloud.engine.kubernetes.tokens import Kind

Object = dict[str, Any]

SECRET = Kind("", "v1", "Secret")
DEFINITION = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")

AUTONAMED = "pulumi.com/autonamed"
SKIP_AWAIT = "pulumi.com/skipAwait"
WAIT_FOR = "pulumi.com/waitFor"
TIMEOUT_SECONDS = "pulumi.com/timeoutSeconds"
REPLACE_UNREADY = "pulumi.com/replaceUnready"
PATCH_FORCE = "pulumi.com/patchForce"
PATCH_FIELD_MANAGER = "pulumi.com/patchFieldManager"
DELETION_PROPAGATION = "pulumi.com/deletionPropagationPolicy"

SET_BY_SERVER = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "uid",
)
"""Metadata fields set by the API server.
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/"""

UNDERSCORED = {
    name.replace("-", "_"): name
    for name in (
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    )
}
"""Maps each property name in the SDK to the name of the field. The SDK's typed classes use underscores because property
names cannot contain dashes."""
DASHED = {name: underscored for underscored, name in UNDERSCORED.items()}


def get_name(obj: Mapping[str, Any]) -> str:
    return str(_get_metadata(obj).get("name") or "")


def get_namespace(obj: Mapping[str, Any]) -> str:
    return str(_get_metadata(obj).get("namespace") or "")


def format_pulumi_id(obj: Mapping[str, Any]) -> str:
    """Return the Pulumi resource id: `namespace/name`, or just the name if there is no namespace."""
    return f"{get_namespace(obj)}/{get_name(obj)}" if get_namespace(obj) else get_name(obj)


def parse_pulumi_id(id: str) -> tuple[str, str]:
    """Split an id into namespace and name."""
    where, _, called = id.rpartition("/")
    return where, called


def get_annotation(obj: Mapping[str, Any], key: str) -> str:
    annotations = _get_metadata(obj).get("annotations")
    value = annotations.get(key) if isinstance(annotations, Mapping) else None
    return value if isinstance(value, str) else ""


def has_true_annotation(obj: Mapping[str, Any], key: str) -> bool:
    return get_annotation(obj, key) == "true"


def copy_with_metadata(obj: Object, **values: Any) -> Object:
    """Return a copy of the object with these metadata fields. A value of None removes the field."""
    metadata = {**_get_metadata(obj), **values}
    return {**obj, "metadata": {key: value for key, value in metadata.items() if value is not None}}


def copy_with_annotation(obj: Object, key: str, value: str) -> Object:
    annotations = _get_metadata(obj).get("annotations", {})
    if isinstance(annotations, Unknown):
        return obj
    return copy_with_metadata(obj, annotations={**annotations, key: value})


def from_pulumi(inputs: Mapping[str, Any]) -> Object:
    """Convert inputs to a manifest: replace the SDK's underscored names with the dashed field names."""
    plain = {key: value for key, value in inputs.items() if not key.startswith("__")}
    return _rename_keys(plain, UNDERSCORED)  # type: ignore[no-any-return]


def to_pulumi(obj: Mapping[str, Any]) -> Object:
    """Convert a manifest to properties: replace dashed field names with the SDK's underscored names."""
    return _rename_keys(dict(obj), DASHED)  # type: ignore[no-any-return]


def normalize(obj: Object) -> Object:
    """Return the manifest as the API server stores it, without server-set fields. `stringData` becomes `data`."""
    metadata = {key: value for key, value in _get_metadata(obj).items() if key not in SET_BY_SERVER}
    obj = {**obj, "metadata": metadata} if isinstance(obj.get("metadata"), Mapping) else obj
    kind = Kind.from_manifest(obj)
    if has_unknowns(obj):
        return obj
    if kind == SECRET:
        return _normalize_secret(obj)
    if kind == DEFINITION:
        return _normalize_crd(obj)
    return obj


def _normalize_secret(obj: Object) -> Object:
    data = {key: _canonicalize_base64(value) for key, value in (obj.get("data") or {}).items()}
    data |= {key: base64.b64encode(str(value).encode()).decode() for key, value in (obj.get("stringData") or {}).items()}
    rest = {key: value for key, value in obj.items() if key not in ("data", "stringData")}
    return {**rest, "data": data} if data else rest


def _canonicalize_base64(value: Any) -> Any:
    """Return base64 text in canonical form. Return invalid base64 unchanged; the API server rejects it."""
    try:
        return base64.b64encode(base64.b64decode(value, validate=False)).decode() if isinstance(value, str) else value
    except (binascii.Error, ValueError):
        return value


def _normalize_crd(obj: Object) -> Object:
    rest = {key: value for key, value in obj.items() if key != "status"}
    spec = rest.get("spec")
    if isinstance(spec, Mapping) and spec.get("preserveUnknownFields") is False:
        rest["spec"] = {key: value for key, value in spec.items() if key != "preserveUnknownFields"}
    return rest


def _get_metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _rename_keys(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {names.get(key, key): _rename_keys(member, names) for key, member in value.items()}
    if isinstance(value, list):
        return [_rename_keys(element, names) for element in value]
    return value


def get_nested(obj: Any, *path: str) -> Any:
    """Return the value at a path of member names, or None."""
    for part in path:
        obj = obj.get(part) if isinstance(obj, Mapping) else None
    return obj
