"""What must be known of an existing cluster at plan time, read with the user's kubeconfig in one place."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from infra.facts import manifests
from infra.facts.gather import manifests_of
from infra.facts.manifests import Manifests
from infra.facts.model import FactsError
from infra.jobs.quantities import bytes_of, millis_of
from infra.kubernetes import kubeconfigs
from infra.naming import GPU_RESOURCE, KUBE_SYSTEM, Taint
from infra.settings.existing import ExistingSettings, Kubeconfig

MIB: Final = 1024**2
PLUGIN_SELECTOR: Final = "name=nvidia-device-plugin-ds"
"""Pods of NVIDIA's own DaemonSet."""
PASSING_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of taints that come and go with a node's state: no pod of a job shall tolerate them."""


@dataclass(frozen=True)
class Node:
    """A node, as far as the platform and jobs care."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    """Without those that come and go with its state."""
    cpu_millis: int
    memory_mib: int
    gpus: int | None
    """What it offers now; None where no device plugin ever said anything."""
    has_plugin: bool = False
    """NVIDIA's device plugin runs there and is ready: no GPUs now means that it finds none."""

    @property
    def refuses(self) -> bool:
        """Whether pods without tolerations are kept away."""
        return any(taint.effect in ("NoSchedule", "NoExecute") for taint in self.taints)

    def has(self, selector: Mapping[str, str]) -> bool:
        return selector.items() <= self.labels.items()


@dataclass(frozen=True)
class ClusterFacts:
    """What was read."""

    server: str
    context: str
    version: str
    """Major and minor, like 1.35."""
    nodes: tuple[Node, ...]
    storage_classes: frozenset[str] = frozenset()
    manifests: Manifests = field(default_factory=lambda: manifests.NONE)

    def matching(self, selector: Mapping[str, str]) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.has(selector))


def kubeconfig_file(asked: Kubeconfig) -> Path | None:
    """The file that settings name; None where the environment says it."""
    return Path(asked.path).expanduser() if asked.path else None


def gather(settings: ExistingSettings) -> ClusterFacts:
    """Read from the cluster what the settings make necessary. Raises FactsError."""
    way = _way(settings.target.kubeconfig)
    ask = _Questions(way)
    version = ask.version()
    plugins = {
        pod["spec"].get("nodeName", "")
        for pod in ask.items(f"api/v1/namespaces/{KUBE_SYSTEM}/pods", PLUGIN_SELECTOR)
        if any(one["type"] == "Ready" and one["status"] == "True" for one in pod.get("status", {}).get("conditions", ()))
    }
    return ClusterFacts(
        way.server,
        way.context,
        version,
        tuple(node_of(one, plugins) for one in ask.items("api/v1/nodes")),
        frozenset(one["metadata"]["name"] for one in ask.items("apis/storage.k8s.io/v1/storageclasses")),
        manifests.load(manifests_of(settings.platform), settings.platform.manifest_mirror),
    )


def node_of(manifest: Mapping[str, Any], plugins: Iterable[str] = ()) -> Node:
    """A node from its object; `plugins`: the nodes on which NVIDIA's device plugin is ready."""
    metadata, spec, status = manifest["metadata"], manifest.get("spec", {}), manifest.get("status", {})
    offered = status.get("allocatable", {})
    taints = [Taint(one["key"], one.get("value", ""), one["effect"]) for one in spec.get("taints", ())]
    return Node(
        metadata["name"],
        metadata.get("labels", {}),
        tuple(taint for taint in taints if not taint.key.startswith(PASSING_TAINTS)),
        millis_of(offered.get("cpu", "0")),
        bytes_of(offered.get("memory", "0")) // MIB,
        int(offered[GPU_RESOURCE]) if GPU_RESOURCE in offered else None,
        metadata["name"] in set(plugins),
    )


def _way(asked: Kubeconfig) -> kubeconfigs.ApiConnection:
    file = kubeconfig_file(asked)
    if file is not None and not file.is_file():
        raise FactsError(f"target.kubeconfig.path: there is no file {file}; name the cluster's kubeconfig")
    try:
        return kubeconfigs.load(file, asked.context)
    except kubeconfigs.Unusable as error:
        raise FactsError(f"target.kubeconfig: {error}") from None


class _Questions:
    """Reads, each of which is needed: what goes wrong ends as a sentence."""

    def __init__(self, way: kubeconfigs.ApiConnection) -> None:
        self._way = way

    def version(self) -> str:
        """Major and minor, like 1.35."""
        found = self._object("version", {"major", "minor"})
        return f"{found['major']}.{found['minor'].rstrip('+')}"

    def items(self, path: str, selector: str = "") -> list[dict[str, Any]]:
        return self._object(path, {"items"}, {"labelSelector": selector} if selector else {})["items"] or []

    def _object(self, path: str, needed: set[str], query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """What the API server answers, with the fields that every one has in this answer."""
        text = self._get(path, query or {})
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not needed <= found.keys():
            server, context = self._way.server, self._way.context
            raise FactsError(f"target.kubeconfig: {server} answers, but is no Kubernetes; look at context {context}")
        return found

    def _get(self, path: str, query: Mapping[str, str]) -> bytes:
        from kubernetes.client.exceptions import ApiException

        try:
            return bytes(self._way.call("GET", path, query).data)
        except ApiException as error:
            raise FactsError(self._refused(error.status, path)) from None
        except kubeconfigs.NoAnswer as error:
            fix = "is the cluster up, and does the file name its address of today?"
            raise FactsError(f"target.kubeconfig: no cluster answers at {self._way.server} ({error}); {fix}") from None

    def _refused(self, status: int, path: str) -> str:
        who = f"the credentials of context {self._way.context}"
        match status:
            case 401 | 403 if not self._way.has_credentials:
                fix = "give it some, or take the administrator's kubeconfig"
                return f"target.kubeconfig: context {self._way.context} has no credentials for {self._way.server}; {fix}"
            case 401:
                return f"target.kubeconfig: {self._way.server} does not accept {who}; they may have expired, have new ones made"
            case 403:
                return f"target.kubeconfig: {who} may not read /{path}; `pulumi up` needs the rights of cluster-admin"
        return f"target.kubeconfig: {self._way.server} answers {status} to /{path}; is it a Kubernetes cluster?"
