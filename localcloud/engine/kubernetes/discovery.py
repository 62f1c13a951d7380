"""Discovery of an API server's kinds and their URL paths.
https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api"""

import threading
from dataclasses import dataclass

from localcloud.engine.kubernetes.api import Api, ApiError
from localcloud.engine.kubernetes.objects import Object, get_nested
from localcloud.engine.kubernetes.tokens import Kind

CLUSTER_WIDE = frozenset(
    {
        "APIService",
        "CSIDriver",
        "CSINode",
        "CertificateSigningRequest",
        "ClusterRole",
        "ClusterRoleBinding",
        "ClusterTrustBundle",
        "ComponentStatus",
        "CustomResourceDefinition",
        "DeviceClass",
        "FlowSchema",
        "IPAddress",
        "IngressClass",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "PriorityLevelConfiguration",
        "ResourceSlice",
        "RuntimeClass",
        "SelfSubjectReview",
        "ServiceCIDR",
        "StorageClass",
        "StorageVersion",
        "StorageVersionMigration",
        "SubjectAccessReview",
        "TokenReview",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
        "VolumeAttributesClass",
    }
)
"""Cluster-scoped kinds of the built-in API groups, for previews without a cluster."""
OWN_GROUPS = ("", "apps", "autoscaling", "batch", "policy", "extensions", "events")


class NoSuchKind(Exception):
    """The API server does not serve the kind, for example because its CRD does not exist yet."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(f'no matches for kind "{kind.kind}" in version "{kind.api_version}"')
        self.kind = kind


@dataclass(frozen=True)
class KindPaths:
    """URL paths of a kind's objects."""

    root: str
    """Path of the group and version, such as /api/v1 or /apis/apps/v1."""
    plural: str
    namespaced: bool

    def build_collection_path(self, namespace: str) -> str:
        if self.namespaced and namespace:
            return f"{self.root}/namespaces/{namespace}/{self.plural}"
        return f"{self.root}/{self.plural}"

    def build_object_path(self, namespace: str, name: str) -> str:
        return f"{self.build_collection_path(namespace)}/{name}"


class Discovery:
    """Cached discovery results, plus the CRDs registered by the program."""

    def __init__(self, api: Api | None) -> None:
        self._api = api
        self._known: dict[str, dict[str, KindPaths]] = {}
        self._announced: dict[Kind, bool] = {}
        self._lock = threading.Lock()

    def find(self, kind: Kind) -> KindPaths:
        """Return the URL paths of a kind's objects. Raises NoSuchKind."""
        with self._lock:
            places = self._known.get(kind.api_version, {})
        if kind.kind not in places:
            places = self._query_kinds(kind)
        if kind.kind not in places:
            raise NoSuchKind(kind)
        return places[kind.kind]

    def is_served(self, kind: Kind) -> bool:
        try:
            self.find(kind)
        except NoSuchKind:
            return False
        return True

    def is_namespaced(self, kind: Kind) -> bool:
        """Return whether a kind is namespaced. This function also works without a server. Unknown kinds count as
        namespaced."""
        if kind.group in OWN_GROUPS or kind.group.endswith(".k8s.io"):
            if kind.kind in CLUSTER_WIDE:
                return False
            if kind.group in OWN_GROUPS:
                return True
        if kind in self._announced:
            return self._announced[kind]
        try:
            return self.find(kind).namespaced if self._api else True
        except NoSuchKind:
            return True

    def record_crd(self, definition: Object) -> None:
        """Record a CRD that the program creates, so that the scope of its kind is known before the CRD exists on the
        server."""
        spec = definition.get("spec")
        scope, kind, group = get_nested(spec, "scope"), get_nested(spec, "names", "kind"), get_nested(spec, "group")
        for version in get_nested(spec, "versions") or []:
            if all(isinstance(value, str) for value in (scope, kind, group, get_nested(version, "name"))):
                self._announced[Kind(group, version["name"], kind)] = scope == "Namespaced"

    def clear_cache(self) -> None:
        """Clear the cache after a CRD was created, changed or deleted."""
        with self._lock:
            self._known.clear()

    def _query_kinds(self, kind: Kind) -> dict[str, KindPaths]:
        if self._api is None:
            raise NoSuchKind(kind)
        root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
        try:
            answer = self._api.get(root)
        except ApiError as error:
            if error.not_found:
                raise NoSuchKind(kind) from error
            raise
        places = {
            entry["kind"]: KindPaths(root, entry["name"], bool(entry["namespaced"]))
            for entry in answer.get("resources") or []
            if "/" not in entry["name"]
        }
        with self._lock:
            self._known[kind.api_version] = places
        return places
