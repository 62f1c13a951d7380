"""Register upstream objects as ordinary resources. apiVersion and kind determine the class in pulumi_kubernetes."""

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

Object = dict[str, Any]


def register_object(name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> pulumi.CustomResource:
    """Register an object of a built-in kind. The Pulumi resource's name combines the parent's name
    with the object's kind and name."""
    content = {_to_snake_case(key): value for key, value in manifest.items() if key not in ("apiVersion", "kind", "status")}
    own = f"{name}-{manifest['kind'].lower()}-{manifest['metadata']['name']}"
    resource: pulumi.CustomResource = _find_class(manifest["apiVersion"], manifest["kind"])(own, **content, opts=opts)
    return resource


def register_custom_resource(name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> pulumi.CustomResource:
    """Register a custom resource under this Pulumi name."""
    return kubernetes.apiextensions.CustomResource(
        name,
        api_version=manifest["apiVersion"],
        kind=manifest["kind"],
        metadata=manifest["metadata"],
        spec=manifest["spec"],
        opts=opts,
    )


def _find_class(api_version: str, kind: str) -> Any:
    """Return the pulumi_kubernetes class of a kind: `rbac.authorization.k8s.io/v1` and `Role` ->
    pulumi_kubernetes.rbac.v1.Role."""
    group, _, version = api_version.rpartition("/")
    module = getattr(getattr(kubernetes, group.split(".")[0] or "core"), version)
    return getattr(module, kind)


def _to_snake_case(camel: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", lambda match: "_" + match.group(1).lower(), camel)


def select_by_kind(objects: Iterable[Mapping[str, Any]], kind: str) -> list[Object]:
    """Return copies of the objects of this kind. The caller may modify them."""
    return [copy.deepcopy(dict(manifest)) for manifest in objects if manifest["kind"] == kind]


def build_role_binding(role: Mapping[str, Any], account: str, namespace: str) -> Object:
    """Return the binding of a role to a service account."""
    return {
        "apiVersion": role["apiVersion"],
        "kind": f"{role['kind']}Binding",
        "metadata": {**role["metadata"], "name": f"{role['metadata']['name']}binding"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def remove_descriptions(node: Any, *, names: bool = False) -> Any:
    """Return a custom resource definition, or a part of it, without the descriptions in its schemas.

    Descriptions make up nine tenths of a definition and would be stored in every copy of the state. With `names`, the keys
    of this mapping are names of properties, which may be `description`, and not schema keywords.
    """
    if isinstance(node, Mapping):
        return {
            key: remove_descriptions(value, names=key == "properties" and not names)
            for key, value in node.items()
            if names or key != "description" or not isinstance(value, str)
        }
    return [remove_descriptions(value) for value in node] if isinstance(node, list) else node
