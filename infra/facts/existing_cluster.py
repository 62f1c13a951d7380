"""Facts about an existing cluster at plan time, read with the user's kubeconfig."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from infra.facts import manifests
from infra.facts.gather import list_platform_manifests
from infra.facts.manifests import Manifests
from infra.facts.model import FactsError
from infra.jobs.sizing import parse_bytes, parse_millicores
from infra.kubernetes import kubeconfigs
from infra.naming import GPU_RESOURCE, KUBE_SYSTEM, RDMA_PREFIX, Taint
from infra.settings.existing import ExistingSettings, Kubeconfig

MIB: Final = 1024**2
PLUGIN_SELECTOR: Final = "name=nvidia-device-plugin-ds"
"""Label selector for the pods of NVIDIA's device plugin."""
TRANSIENT_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of taints that Kubernetes adds and removes as a node's conditions change. Job pods must not tolerate these
taints."""


@dataclass(frozen=True)
class Node:
    """Properties of a node on which the platform and jobs depend."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    """Without transient taints."""
    cpu_millis: int
    memory_mib: int
    gpus: int | None
    """GPUs that the node currently offers; None if no device plugin has ever registered GPUs on the node."""
    has_plugin: bool = False
    """True if NVIDIA's device plugin is ready on the node, or fails there. If the plugin is ready, but the node offers
    no GPUs, the plugin has found no GPUs.
    """
    rdma: Mapping[str, int] = field(default_factory=dict)
    """RDMA devices that the node currently offers, keyed by resource name."""

    @property
    def repels_pods(self) -> bool:
        """True if a taint keeps pods without tolerations away from the node."""
        return any(taint.effect in ("NoSchedule", "NoExecute") for taint in self.taints)

    def matches_selector(self, selector: Mapping[str, str]) -> bool:
        return selector.items() <= self.labels.items()


@dataclass(frozen=True)
class ClusterFacts:
    """Facts that the cluster's API server reports."""

    server: str
    context: str
    version: str
    """Major and minor version, such as 1.35."""
    nodes: tuple[Node, ...]
    storage_classes: frozenset[str] = frozenset()
    manifests: Manifests = field(default_factory=lambda: manifests.NONE)

    def find_nodes(self, selector: Mapping[str, str]) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.matches_selector(selector))


def find_kubeconfig(settings: Kubeconfig) -> Path | None:
    """Return the kubeconfig file from the settings; None to use the default (KUBECONFIG or `~/.kube/config`)."""
    return Path(settings.path).expanduser() if settings.path else None


def gather_cluster_facts(settings: ExistingSettings) -> ClusterFacts:
    """Query the cluster for the facts that the settings require. Raises FactsError."""
    connection = _connect_to_cluster(settings.target.kubeconfig)
    api = _Api(connection)
    version = api.version()
    plugins = {
        pod["spec"].get("nodeName", "")
        for pod in api.items(f"api/v1/namespaces/{KUBE_SYSTEM}/pods", PLUGIN_SELECTOR)
        if _is_pod_ready(pod) or _has_failed_container(pod)
    }
    return ClusterFacts(
        connection.server,
        connection.context,
        version,
        tuple(convert_node(node, plugins) for node in api.items("api/v1/nodes")),
        frozenset(each["metadata"]["name"] for each in api.items("apis/storage.k8s.io/v1/storageclasses")),
        manifests.load_manifests(list_platform_manifests(settings.platform), settings.platform.manifest_mirror),
    )


def _is_pod_ready(pod: Mapping[str, Any]) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod.get("status", {}).get("conditions", ()))


def _has_failed_container(pod: Mapping[str, Any]) -> bool:
    """Return whether a container has exited with an error. The plugin fails if the node has no driver."""
    ended = [
        container.get(when, {}).get("terminated", {})
        for container in pod.get("status", {}).get("containerStatuses", ())
        for when in ("state", "lastState")
    ]
    return any(each.get("exitCode", 0) != 0 for each in ended)


def convert_node(manifest: Mapping[str, Any], plugins: Iterable[str] = ()) -> Node:
    """Convert a Kubernetes node object. `plugins` names the nodes on which NVIDIA's device plugin is ready or fails."""
    metadata, spec, status = manifest["metadata"], manifest.get("spec", {}), manifest.get("status", {})
    offered = status.get("allocatable", {})
    taints = [Taint(each["key"], each.get("value", ""), each["effect"]) for each in spec.get("taints", ())]
    return Node(
        metadata["name"],
        metadata.get("labels", {}),
        tuple(taint for taint in taints if not taint.key.startswith(TRANSIENT_TAINTS)),
        parse_millicores(offered.get("cpu", "0")),
        parse_bytes(offered.get("memory", "0")) // MIB,
        int(offered[GPU_RESOURCE]) if GPU_RESOURCE in offered else None,
        metadata["name"] in set(plugins),
        {name: _parse_quantity(amount) for name, amount in offered.items() if name.startswith(RDMA_PREFIX)},
    )


def _parse_quantity(amount: str) -> int:
    """Return the value of an integer quantity; Kubernetes writes 1000 as `1k`."""
    return parse_millicores(amount) // 1000


def _connect_to_cluster(settings: Kubeconfig) -> kubeconfigs.ApiConnection:
    file = find_kubeconfig(settings)
    if file is not None and not file.is_file():
        raise FactsError(f"target.kubeconfig.path: {file} does not exist. Set it to the cluster's kubeconfig")
    try:
        connection = kubeconfigs.load_connection(file, settings.context)
        kubeconfigs.find_context_file(file, connection.context)  # Pulumi's provider reads only one kubeconfig
    except kubeconfigs.Unusable as error:
        raise FactsError(f"target.kubeconfig: {error}") from None
    return connection


class _Api:
    """Client for required reads from the API server. Every failure raises FactsError."""

    def __init__(self, connection: kubeconfigs.ApiConnection) -> None:
        self._connection = connection

    def version(self) -> str:
        """Return the major and minor version, such as 1.35."""
        version = self._get_object("version", {"major", "minor"})
        return f"{version['major']}.{version['minor'].rstrip('+')}"

    def items(self, path: str, selector: str = "") -> list[dict[str, Any]]:
        return self._get_object(path, {"items"}, {"labelSelector": selector} if selector else {})["items"] or []

    def _get_object(self, path: str, needed: set[str], query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the parsed response of the API server. Raises FactsError if a needed field is missing."""
        text = self._get(path, query or {})
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or not needed <= answer.keys():
            server, context = self._connection.server, self._connection.context
            raise FactsError(f"target.kubeconfig: {server} is not a Kubernetes API server. Check context {context}")
        return answer

    def _get(self, path: str, query: Mapping[str, str]) -> bytes:
        from kubernetes.client.exceptions import ApiException  # slow to import

        try:
            return bytes(self._connection.call("GET", path, query).data)
        except ApiException as error:
            raise FactsError(self._describe_refusal(error.status, path)) from None
        except kubeconfigs.NoAnswer as error:
            fix = "Check that the cluster is up and that its address in the kubeconfig is current"
            raise FactsError(f"target.kubeconfig: {self._connection.server} does not respond ({error}). {fix}") from None

    def _describe_refusal(self, status: int, path: str) -> str:
        server, context = self._connection.server, self._connection.context
        match status:
            case 401 | 403 if not self._connection.has_credentials:
                fix = "Add credentials, or use the administrator's kubeconfig"
                return f"target.kubeconfig: context {context} has no credentials for {server}. {fix}"
            case 401:
                return (
                    f"target.kubeconfig: {server} rejects the credentials of context {context}. They may have expired; renew them"
                )
            case 403:
                fix = "`pulumi up` needs cluster-admin permissions"
                return f"target.kubeconfig: the credentials of context {context} may not read /{path}. {fix}"
        return f"target.kubeconfig: {server} returned status {status} for /{path}. Check that it is a Kubernetes API server"
