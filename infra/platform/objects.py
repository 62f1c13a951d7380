"""Upstream's objects as ordinary resources: their class in pulumi_kubernetes is found by apiVersion and kind."""

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

Object = dict[str, Any]


def register(name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> pulumi.CustomResource:
    """One object of a kind that Kubernetes itself has, named after its parent, kind and own name."""
    content = {_snake(key): value for key, value in manifest.items() if key not in ("apiVersion", "kind", "status")}
    own = f"{name}-{manifest['kind'].lower()}-{manifest['metadata']['name']}"
    made: pulumi.CustomResource = _class_of(manifest["apiVersion"], manifest["kind"])(own, **content, opts=opts)
    return made


def _class_of(api_version: str, kind: str) -> Any:
    """`rbac.authorization.k8s.io/v1` and `Role` -> pulumi_kubernetes.rbac.v1.Role."""
    group, _, version = api_version.rpartition("/")
    module = getattr(getattr(kubernetes, group.split(".")[0] or "core"), version)
    return getattr(module, kind)


def _snake(camel: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", lambda match: "_" + match.group(1).lower(), camel)


def of_kind(objects: Iterable[Mapping[str, Any]], kind: str) -> list[Object]:
    """Copies that may be changed."""
    return [copy.deepcopy(dict(one)) for one in objects if one["kind"] == kind]


def without_prose(definition: Mapping[str, Any]) -> Object:
    """A custom resource definition without the descriptions in its schemas: they are nine tenths of it, and every copy of
    the state would carry them. A property that is called `description` stays."""
    slim: Object = _without_prose(definition)
    return slim


def _without_prose(node: Any, *, names: bool = False) -> Any:
    """`names`: the keys of this mapping are names that somebody chose, not words of the schema."""
    if isinstance(node, Mapping):
        return {
            key: _without_prose(value, names=key == "properties" and not names)
            for key, value in node.items()
            if names or key != "description" or not isinstance(value, str)
        }
    return [_without_prose(value) for value in node] if isinstance(node, list) else node
