"""Schema validation of built-in kinds without an API server, based on the models of the Python client."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from localcloud.engine.codec import Unknown
from localcloud.engine.kubernetes.tokens import Kind
from localcloud.engine.paths import Path, format_path

LISTED = re.compile(r"list\[(.*)\]")
MAPPED = re.compile(r"dict\[str, (.*)\]")
PLAIN: Mapping[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,), "datetime": (str,)}
GROUPS = frozenset(
    {"", "apps", "autoscaling", "batch", "policy"}
    | {
        f"{name}.k8s.io"
        for name in (
            *("admissionregistration", "apiextensions", "apiregistration", "authentication", "authorization", "certificates"),
            *("coordination", "discovery", "events", "flowcontrol.apiserver", "networking", "node", "rbac.authorization"),
            *("resource", "scheduling", "storage", "storagemigration"),
        )
    }
)
"""API groups of the built-in kinds. Custom kinds in other groups may have the same names as built-in kinds."""
QUANTITIES = frozenset(
    {"allocatable", "capacity", "default", "defaultRequest", "hard", "limits", "max", "maxLimitRequestRatio", "min", "overhead"}
    | {"podFixed", "requests"}
)
"""Fields whose values are quantities: numbers or strings."""


def find_schema_errors(obj: Mapping[str, Any]) -> list[str]:
    """Return the paths of unknown fields and of values with the wrong type. Custom kinds are not validated."""
    model = _find_model(Kind.from_manifest(obj))
    return [] if model is None else [f"{format_path(path)}: {text}" for path, text in _check_object(obj, model, ())]


@cache
def _find_model(kind: Kind) -> Any:
    import kubernetes.client.models as models  # slow (1 s): import only if needed

    version = kind.version.capitalize()
    group = kind.group.split(".")[0].capitalize() or "Core"
    for name in (f"{version}{kind.kind}", f"{group}{version}{kind.kind}"):
        if kind.group in GROUPS and hasattr(models, name):
            return getattr(models, name)
    return None


def _check_object(value: Mapping[str, Any], model: Any, path: Path) -> Iterator[tuple[Path, str]]:
    types = {wire: model.openapi_types[name] for name, wire in model.attribute_map.items()}
    for name, member in value.items():
        if name not in types:
            yield (*path, name), "unknown field"
        else:
            yield from _check_value(member, types[name], (*path, name))


def _check_value(value: Any, type_name: str, path: Path) -> Iterator[tuple[Path, str]]:
    if value is None or isinstance(value, Unknown) or type_name == "object":
        return
    if match := LISTED.fullmatch(type_name):
        if not isinstance(value, list):
            yield path, "must be a list"
            return
        for place, element in enumerate(value):
            yield from _check_value(element, match[1], (*path, place))
    elif match := MAPPED.fullmatch(type_name):
        if not isinstance(value, Mapping):
            yield path, "must be a map"
            return
        for name, member in value.items():
            yield from _check_value(member, match[1], (*path, name))
    elif type_name in PLAIN:
        if not _has_type(value, type_name, path):
            yield path, f"must be of type {type_name}, not {type(value).__name__}"
    else:
        import kubernetes.client.models as models  # slow to import

        if isinstance(value, Mapping):
            yield from _check_object(value, getattr(models, type_name), path)
        else:
            yield path, "must be an object"


def _has_type(value: Any, type_name: str, path: Path) -> bool:
    if isinstance(value, bool):
        return type_name == "bool"
    if isinstance(value, int | float) and type_name == "str":
        return not QUANTITIES.isdisjoint(str(part) for part in path[-2:])
    return isinstance(value, PLAIN[type_name])
