"""Access to a Kubernetes cluster through a kubeconfig. Every failure raises a one-sentence CommandError."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from cli import options
from cli.errors import CommandError, Conflict, Forbidden, NotFound
from cli.exit_codes import REFUSED, UNREACHABLE
from cli.local import crashed_parts
from infra.config.messages import format_value
from infra.jobs.cluster import CONFIG_MAP, CONFIG_MAP_KEY, CONFIG_MAP_NAMESPACE, VERSION, ClusterDescription
from infra.kubernetes import kubeconfigs

PATHS: Final = {
    "ConfigMap": "api/v1/{namespace}configmaps",
    "DaemonSet": "apis/apps/v1/{namespace}daemonsets",
    "Event": "api/v1/{namespace}events",
    "Job": "apis/batch/v1/{namespace}jobs",
    "JobSet": "apis/jobset.x-k8s.io/v1alpha2/{namespace}jobsets",
    "MPIJob": "apis/kubeflow.org/v2beta1/{namespace}mpijobs",
    "Namespace": "api/v1/namespaces",
    "Node": "api/v1/nodes",
    "PersistentVolumeClaim": "api/v1/{namespace}persistentvolumeclaims",
    "Pod": "api/v1/{namespace}pods",
    "PyTorchJob": "apis/kubeflow.org/v1/{namespace}pytorchjobs",
    "RayJob": "apis/ray.io/v1/{namespace}rayjobs",
    "Role": "apis/rbac.authorization.k8s.io/v1/{namespace}roles",
    "RoleBinding": "apis/rbac.authorization.k8s.io/v1/{namespace}rolebindings",
    "Secret": "api/v1/{namespace}secrets",
    "Service": "api/v1/{namespace}services",
    "ServiceAccount": "api/v1/{namespace}serviceaccounts",
    "StatefulSet": "apis/apps/v1/{namespace}statefulsets",
    "TrainJob": "apis/trainer.kubeflow.org/v1alpha1/{namespace}trainjobs",
    "Workload": "apis/kueue.x-k8s.io/v1beta2/{namespace}workloads",
}
"""API path of each kind that the verbs read or write."""

Object = dict[str, Any]
_SEGMENT: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._:-]+")
"""Valid names of objects. Other names, such as `..`, could change the path, because HTTP clients resolve them."""
_WEBHOOK: Final = re.compile(r'failed calling webhook "([^"]+)": .*https://([\w-]+)\.([\w-]+)\.svc[^"]*": (.+)', re.DOTALL)
"""Pattern of the API server's message about a failed webhook call. Source: `ToStatusErr` in
https://github.com/kubernetes/kubernetes/blob/v1.35.0/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go
"""


class Cluster:
    """Client for the cluster of one kubeconfig context."""

    def __init__(self, kubeconfig: Path | None, context: str | None) -> None:
        try:
            self._connection = kubeconfigs.load_connection(kubeconfig, context)
        except kubeconfigs.Unusable as error:
            raise CommandError(str(error), UNREACHABLE) from None
        self._is_checked = False

    def __repr__(self) -> str:
        return f"{self._connection.context} at {self.server}"

    @property
    def _context(self) -> str:
        return f"context {format_value(self._connection.context)}"

    @property
    def server(self) -> str:
        """Address of the API server."""
        return self._connection.server

    @property
    def namespace(self) -> str | None:
        """Namespace of the kubeconfig context."""
        return self._connection.namespace

    def version(self) -> str:
        """Return the Kubernetes version, such as `v1.35.0`."""
        return str(self._send_request("GET", "version", doing="ask for its version")["gitVersion"])

    # --- requests ------------------------------------------------------------------------------------------------------

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        content: Object = self._send_request(
            "GET", build_path(kind, namespace, name), doing=f"read {describe_object(kind, name, namespace)}"
        )
        return content

    def find(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Return the object, or None if the object or its kind does not exist."""
        try:
            return self.get(kind, name, namespace)
        except NotFound:
            return None

    def list(
        self,
        kind: str,
        namespace: str | None = None,
        selector: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> "list[Object]":
        """Return all objects of a kind, or an empty list if the cluster does not serve this kind."""
        selectors = {"labelSelector": selector, "fieldSelector": fields}
        query = {
            name: ",".join(f"{key}={value}" for key, value in selector_terms.items())
            for name, selector_terms in selectors.items()
            if selector_terms
        }
        try:
            answer = self._send_request(
                "GET", build_path(kind, namespace), query, doing=f"list {describe_object(kind, None, namespace)}"
            )
        except NotFound:
            return []
        items: list[Object] = answer["items"]
        return items

    def list_labeled(self, kind: str, label: str, namespace: str | None) -> Sequence[Object]:
        """Return all objects of a kind that have the label, with any value."""
        doing = f"list {describe_object(kind, None, namespace)}"
        items: Sequence[Object] = self._send_request("GET", build_path(kind, namespace), {"labelSelector": label}, doing=doing)[
            "items"
        ]
        return items

    def create(self, manifest: Object, *, dry_run: bool = False) -> Object:
        """Create an object. As a dry run, the API server only validates and admits the object."""
        kind, metadata = manifest["kind"], manifest["metadata"]
        namespace = metadata.get("namespace")
        query = {"fieldManager": "gpumpi", "fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
        doing = f"create {describe_object(kind, metadata['name'], namespace)}"
        created: Object = self._send_request("POST", build_path(kind, namespace), query, manifest, doing=doing)
        return created

    def delete(
        self, kind: str, name: str, namespace: str | None, propagation: Literal["Background", "Foreground"] = "Background"
    ) -> None:
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        doing = f"delete {describe_object(kind, name, namespace)}"
        self._send_request("DELETE", build_path(kind, namespace, name), body=body, doing=doing)

    def log(
        self, pod: str, namespace: str, *, container: str | None = None, since: str | None = None, follow: bool
    ) -> Iterator[str]:
        """Yield a container's log lines, each prefixed with a timestamp, until the container or the connection ends."""
        import urllib3.exceptions

        query = {"timestamps": "true", "follow": "true" if follow else "false"}
        if container:
            query["container"] = container
        if since:
            query["sinceTime"] = since
        path = f"{build_path('Pod', namespace, pod)}/log"
        answer = self._send_request("GET", path, query, stream=True, doing=f"read the log of pod {pod}")
        rest = b""
        try:
            for chunk in answer.stream(65536, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line.decode(errors="replace") for line in lines)
        except urllib3.exceptions.HTTPError:
            return  # the connection broke; the caller checks whether the container is still running
        finally:
            answer.release_conn()
        if rest:
            yield rest.decode(errors="replace")

    def websocket(self, pod: str, namespace: str, subresource: str, query: Sequence[tuple[str, str]], *, doing: str) -> Any:
        """Open a WebSocket to a subresource of a pod: `exec` or `portforward`."""
        path = f"{build_path('Pod', namespace, pod)}/{subresource}"
        return self._get_response(lambda: self._connection.open_websocket(path, query), doing)

    def _send_request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        *,
        stream: bool = False,
        doing: str,
    ) -> Any:
        answer = self._get_response(lambda: self._connection.call(method, path, query, body, stream=stream), doing)
        return answer if stream else json.loads(answer.data)

    def _get_response(self, request: Callable[[], Any], doing: str) -> Any:
        """Return the response to a request. Raises CommandError if the request fails."""
        from kubernetes.client.exceptions import ApiException  # slow to import

        try:
            self._check_server_once()
            return request()
        except ApiException as error:
            raise self._convert_api_error(error, doing) from None
        except kubeconfigs.NoAnswer as error:
            crashed_parts.check_control_plane_runs(self.server)
            fix = crashed_parts.suggest_restart(self.server)
            raise CommandError(f"no cluster answers at {self.server} ({error}){fix}", UNREACHABLE) from None

    def _check_server_once(self) -> None:
        """Before the first request, check that the API server is ready. If etcd is down, the API server takes a minute
        to answer a request.
        """
        if self._is_checked:
            return
        crashed_parts.check_control_plane_runs(self.server)
        if unready := self._connection.list_failing_checks():
            parts, fix = ", ".join(unready), crashed_parts.suggest_restart(self.server)
            raise CommandError(f"the API server at {self.server} is not ready: {parts}{fix}", UNREACHABLE)
        self._is_checked = True

    def _convert_api_error(self, error: Any, doing: str) -> CommandError:
        """Convert an API error into a one-sentence CommandError."""
        try:
            status: Mapping[str, Any] = json.loads(error.body)
        except (TypeError, ValueError):
            status = {}
        message = str(status.get("message") or error.reason or "no reason given")
        match error.status:
            case 401:
                fix = "renew them (`aws sso login`, or a new kubeconfig)"
                return CommandError(f"{self.server} does not accept the credentials of {self._context}; {fix}", UNREACHABLE)
            case 403 if "namespaces" in message and "not found" in message:
                return NotFound(message)
            case 403 if status.get("reason") == "Forbidden" and "cannot" in message:
                return Forbidden(f"{self._context} may not {doing}; ask for access: {message}", UNREACHABLE)
            case 404:
                return NotFound(f"cannot {doing}: {message}")
            case 409 if status.get("reason") == "Conflict":
                return Conflict(f"cannot {doing}: it has changed in the meantime; try again")
            case 409:
                return Conflict(f"cannot {doing}: it already exists")
            case 400 | 403 | 422:
                return CommandError(f"cannot {doing}: {message}", REFUSED)
            case 500 if webhook := _WEBHOOK.search(message):
                name, service, namespace, reason = webhook.groups()
                fix = f"try again, or see `kubectl get pods -n {namespace}`; `pulumi up --refresh` restores deleted objects"
                why = f"the webhook {name} of service {service} in namespace {namespace} does not work: {reason}"
                return CommandError(f"cannot {doing}: {why}; {fix}", UNREACHABLE)
        return CommandError(f"cannot {doing}: {self.server} answers {error.status}: {message}", UNREACHABLE)

    # --- written by `pulumi up` ----------------------------------------------------------------------------------------

    def description(self) -> ClusterDescription:
        """Return the cluster description, which `pulumi up` stored in a ConfigMap."""
        try:
            config_map = self.get("ConfigMap", CONFIG_MAP, CONFIG_MAP_NAMESPACE)
        except NotFound:
            where = f"ConfigMap {CONFIG_MAP} in namespace {CONFIG_MAP_NAMESPACE}"
            raise NotFound(f"{self.server} has no {where}: `pulumi up` with `platform.install: true` creates it") from None
        try:
            described = ClusterDescription.from_json(config_map.get("data", {}).get(CONFIG_MAP_KEY, ""))
        except ValueError:
            raise CommandError(f"ConfigMap {CONFIG_MAP} is corrupt; run `pulumi up` to restore it", UNREACHABLE) from None
        if described.version > VERSION:
            raise CommandError("a newer version of this program set up the cluster; use that version or a later one", UNREACHABLE)
        return described


@dataclass(frozen=True)
class Access:
    """Command-line options that select a cluster and a namespace."""

    kubeconfig: options.Kubeconfig = None
    context: options.Context = None
    namespace: options.Namespace = None

    def connect(self) -> Cluster:
        return Cluster(self.kubeconfig, self.context)


def build_path(kind: str, namespace: str | None, name: str | None = None, path: str | None = None) -> str:
    """Return the path of an object, or of all objects of a kind. Raises CommandError for a name that the API server would
    read as another path."""
    for part in (namespace, name):
        if part is not None and not _SEGMENT.fullmatch(part):
            raise CommandError(
                f"{format_value(part)} is not the name of a Kubernetes object. Use a name that kubectl prints.", REFUSED
            )
    where = (path or PATHS[kind]).format(namespace=f"namespaces/{namespace}/" if namespace else "")
    return where if name is None else f"{where}/{name}"


def describe_object(kind: str, name: str | None, namespace: str | None) -> str:
    inside = f" in namespace {namespace}" if namespace else ""
    return f"{kind} {name}{inside}" if name else f"{kind}s{inside}"
