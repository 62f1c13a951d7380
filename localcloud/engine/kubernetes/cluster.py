"""Provider instance: its settings and the connection to its cluster, which may be unreachable."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from localcloud.engine.kubernetes.api import APPLY, JSON, JSON_PATCH, Api, ApiError, Unreachable
from localcloud.engine.kubernetes.cancellation import Canceled, Cancellation
from localcloud.engine.kubernetes.credentials import Credentials
from localcloud.engine.kubernetes.discovery import Discovery, KindPaths, NoSuchKind
from localcloud.engine.kubernetes.kubeconfig import BadKubeconfig, Kubeconfig
from localcloud.engine.kubernetes.objects import Object, get_name, get_namespace
from localcloud.engine.kubernetes.settings import Settings
from localcloud.engine.kubernetes.tokens import Kind

STRICT = {"fieldValidation": "Strict"}
"""Query parameter that makes the API server reject unknown fields instead of dropping them.
https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation"""


class Cluster:
    """A cluster and the requests for its objects. Each request identifies its object by a manifest."""

    def __init__(self, settings: Settings, environment: Mapping[str, str]) -> None:
        """Connect to the cluster. If that fails, `unreachable` contains the reason."""
        self.settings = settings
        self.unreachable: str | None = None
        self.default_namespace = settings.namespace
        self.cancellation = Cancellation()
        self._api: Api | None = None
        try:
            access = _load_kubeconfig(settings, environment).read_access(settings.context or None, settings.cluster or None)
            self.default_namespace = settings.namespace or access.namespace
            options = {"read_seconds": settings.timeout_seconds} if settings.timeout_seconds else {}
            self._api = Api(access, Credentials(access, environment), **options)
        except BadKubeconfig as error:
            self.unreachable = f"failed to parse kubeconfig data in `kubernetes:config:kubeconfig`- {error}"
        except (ValueError, OSError) as error:  # OpenSSL raises ValueError or SSLError for invalid certificates
            self.unreachable = f"unable to load Kubernetes client configuration from kubeconfig file: {error}"
        self.discovery = Discovery(self._api)
        if self._api:
            # Like the official provider, ignore an error of this request. An error of the discovery request below, including
            # 401 and 403, marks the cluster as unreachable.
            # pulumi/pulumi-kubernetes@9497796:provider/pkg/provider/provider.go
            with suppress(ApiError, Unreachable):
                self._api.get("/version")
            try:
                self.discovery.find(Kind("", "v1", "Namespace"))
            except (ApiError, Unreachable, NoSuchKind) as error:
                self.unreachable = f"unable to load schema information from the API server: {error}"
        if self.unreachable:
            self.discovery = Discovery(None)

    @property
    def server(self) -> str:
        return self._api.server if self._api else ""

    @property
    def api(self) -> Api:
        if self._api is None:
            raise Unreachable(f"configured Kubernetes cluster is unreachable: {self.unreachable}")
        return self._api

    def get(self, obj: Mapping[str, Any]) -> Object:
        """Return the live object with the kind and name of `obj`."""
        return self.api.get(self._build_object_path(obj))

    def items(self, kind: Kind, where: str, **query: str) -> list[Object]:
        answer = self.api.get(self.discovery.find(kind).build_collection_path(where), **query)
        return answer.get("items") or []

    def create(self, obj: Object, manager: str, *, dry_run: bool) -> Object:
        path = self._find_kind_paths(obj).build_collection_path(get_namespace(obj))
        return self._send_change("POST", path, self._build_query(manager, dry_run), obj)

    def apply(self, obj: Object, manager: str, *, force: bool, dry_run: bool) -> Object:
        query = {**self._build_query(manager, dry_run), "force": str(force).lower()}
        return self._send_change("PATCH", self._build_object_path(obj), query, obj, APPLY)

    def replace(self, obj: Object, manager: str, *, dry_run: bool) -> Object:
        return self._send_change("PUT", self._build_object_path(obj), self._build_query(manager, dry_run), obj, JSON)

    def patch(self, obj: Object, operations: list[Object]) -> Object:
        return self._send_change("PATCH", self._build_object_path(obj), None, operations, JSON_PATCH)

    def delete(self, obj: Object, propagation: str) -> None:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        self._send_change("DELETE", self._build_object_path(obj), None, options)

    def build_collection_path(self, obj: Mapping[str, Any]) -> str:
        return self._find_kind_paths(obj).build_collection_path(get_namespace(obj))

    def _send_change(
        self, method: str, path: str, query: Mapping[str, str] | None, body: Any, content_type: str = JSON
    ) -> Object:
        """Send a request that changes an object. Raises ApiError or Unreachable. A cancellation by the engine also
        raises Unreachable.
        """
        try:
            return self.cancellation.run(lambda: self.api.request(method, path, query, body, content_type))
        except Canceled as error:
            raise Unreachable(f'{method.capitalize()} "{self.server}{path}": {error}') from error

    def _find_kind_paths(self, obj: Mapping[str, Any]) -> KindPaths:
        return self.discovery.find(Kind.from_manifest(obj))

    def _build_object_path(self, obj: Mapping[str, Any]) -> str:
        return self._find_kind_paths(obj).build_object_path(get_namespace(obj), get_name(obj))

    def _build_query(self, manager: str, dry_run: bool) -> dict[str, str]:
        return {"fieldManager": manager, **STRICT, **({"dryRun": "All"} if dry_run else {})}


def _load_kubeconfig(settings: Settings, environment: Mapping[str, str]) -> Kubeconfig:
    """Return the kubeconfig from the settings, or else from the engine's $KUBECONFIG, or else from ~/.kube/config."""
    if settings.kubeconfig:
        return Kubeconfig.load(settings.kubeconfig)
    named = environment.get("KUBECONFIG", "").split(os.pathsep)[0]
    path = Path(named) if named else Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"
    return Kubeconfig.load(str(path)) if path.is_file() else Kubeconfig()
