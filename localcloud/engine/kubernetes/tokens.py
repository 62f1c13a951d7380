"""Conversion of Pulumi's type tokens to kinds: `kubernetes:apps/v1:Deployment` stands for kind Deployment in
apps/v1."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PACKAGE = "kubernetes:"
NOT_OBJECTS = ("helm.sh/", "kustomize", "yaml")
"""SDK modules whose resources are not single objects: Helm charts, Kustomize directories, YAML files."""


class NotServed(Exception):
    """The provider does not support the resource type. The message may suggest an alternative."""


@dataclass(frozen=True)
class Kind:
    """Kubernetes kind with its API group and version."""

    group: str
    """API group; empty for the core group."""
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> "Kind":
        group, _, version = str(manifest.get("apiVersion", "")).rpartition("/")
        return cls(group, version, str(manifest.get("kind", "")))

    def __str__(self) -> str:
        return f"{self.api_version}/{self.kind}"


def parse(token: str) -> Kind:
    """Return the kind for which a type token stands. Raises NotServed."""
    module, _, kind = token.removeprefix(PACKAGE).rpartition(":")
    if not token.startswith(PACKAGE) or not module or not kind:
        raise NotServed(f"the local Kubernetes provider does not support the resource type {token}")
    if module.startswith(NOT_OBJECTS):
        raise NotServed(
            f"the local Kubernetes provider does not support {token}; register the objects themselves, "
            "e.g. with kubernetes.apiextensions.CustomResource or the typed classes"
        )
    group, _, version = module.rpartition("/")
    return Kind("" if group == "core" else group, version, kind)


def get_urn_token(urn: str) -> str:
    """Return the type token in a URN."""
    return urn.split("::")[2].split("$")[-1]


def get_urn_name(urn: str) -> str:
    return urn.split("::", 3)[3]


def parse_served_kind(token: str, inputs: Mapping[str, Any]) -> Kind:
    """Return the kind of a resource with these inputs. Raises NotServed for unsupported types, such as lists and
    Patch resources."""
    kind = parse(token)
    stated = inputs.get("kind")
    if kind.kind.endswith("List") and "items" in inputs:
        # Wording of the official provider: https://github.com/pulumi/pulumi-kubernetes/issues/2494
        raise NotServed(
            "list resources exist for compatibility with YAML manifests and Helm charts, "
            "and cannot be created directly. Use the underlying resource type instead"
        )
    if kind.kind.endswith("Patch") and stated != kind.kind:
        raise NotServed(f"the local Kubernetes provider does not support Patch resources such as {token}")
    return kind
