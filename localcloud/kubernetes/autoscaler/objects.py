"""Nodes and pods parsed from the API server's JSON, with only the fields that scaling decisions need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from localcloud.kubernetes.autoscaler import quantities
from localcloud.kubernetes.autoscaler.quantities import Amounts

Json = Mapping[str, Any]
PREFIX = "cluster-autoscaler.kubernetes.io"
SAFE_TO_EVICT = f"{PREFIX}/safe-to-evict"
SCALE_DOWN_DISABLED = f"{PREFIX}/scale-down-disabled"
HOSTNAME = "kubernetes.io/hostname"
_ONE_POD = {"pods": 1000}


@dataclass(frozen=True)
class Taint:
    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{{{self.key}: {self.value}}}"


@dataclass(frozen=True)
class Node:
    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Amounts
    is_ready: bool = True
    is_cordoned: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    instance_id: str | None = None
    """ID of the node's EC2 instance."""


@dataclass(frozen=True)
class Pod:
    namespace: str
    name: str
    requests: Amounts
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: tuple[Json, ...] | None = None
    """Required node affinity: at least one of these terms must match. None means no requirement."""
    tolerations: tuple[Json, ...] = ()
    apart: tuple[Json, ...] = ()
    """Required anti-affinity: label selectors of pods that must not run on the same host."""
    node: str | None = None
    owner: str | None = None
    """Kind of the pod's controller."""
    is_mirror: bool = False
    has_local_storage: bool = False
    is_finished: bool = False
    is_unschedulable: bool = False
    """True if the scheduler found no node for the pod."""
    priority: int = 0
    created: float = float("-inf")
    """Creation time in seconds since the epoch."""
    uid: str = ""

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_bound_to_node(self) -> bool:
        """True for DaemonSet pods and static pods, which are bound to their node and are not evicted."""
        return self.owner == "DaemonSet" or self.is_mirror


def parse_node(raw: Json) -> Node:
    metadata, spec, status = raw["metadata"], raw.get("spec", {}), raw.get("status", {})
    conditions = {item["type"]: item["status"] for item in status.get("conditions", ())}
    provider = spec.get("providerID", "")
    return Node(
        name=metadata["name"],
        labels=metadata.get("labels", {}),
        taints=tuple(Taint(item["key"], item.get("value", ""), item["effect"]) for item in spec.get("taints", ())),
        allocatable=quantities.parse_quantities(status.get("allocatable")),
        is_ready=conditions.get("Ready") == "True",
        is_cordoned=spec.get("unschedulable", False),
        annotations=metadata.get("annotations", {}),
        instance_id=provider.rsplit("/", 1)[-1] if provider.startswith("aws://") else None,
    )


def parse_pod(raw: Json) -> Pod:
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status", {})
    affinity = spec.get("affinity") or {}
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    owners = [owner for owner in metadata.get("ownerReferences", ()) if owner.get("controller")]
    annotations = metadata.get("annotations", {})
    return Pod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        requests=compute_requests(spec),
        labels=metadata.get("labels", {}),
        annotations=annotations,
        node_selector=spec.get("nodeSelector") or {},
        node_terms=tuple(required["nodeSelectorTerms"]) if required else None,
        tolerations=tuple(spec.get("tolerations") or ()),
        apart=_parse_anti_affinity(affinity.get("podAntiAffinity") or {}),
        node=spec.get("nodeName"),
        owner=owners[0]["kind"] if owners else None,
        is_mirror="kubernetes.io/config.mirror" in annotations,
        has_local_storage=any(volume.keys() & {"emptyDir", "hostPath"} for volume in spec.get("volumes") or ()),
        is_finished=status.get("phase") in ("Succeeded", "Failed"),
        is_unschedulable=_is_unschedulable(metadata, status),
        priority=spec.get("priority") or 0,
        created=_parse_time(metadata["creationTimestamp"]) if metadata.get("creationTimestamp") else float("-inf"),
        uid=metadata.get("uid", ""),
    )


def _parse_time(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def build_daemon_pod(raw: Json) -> Pod:
    """Return the pod that a DaemonSet would create on each matching node."""
    template = raw["spec"]["template"]
    metadata = {**template.get("metadata", {}), "name": raw["metadata"]["name"], "namespace": raw["metadata"]["namespace"]}
    controller = {"kind": "DaemonSet", "controller": True}
    return parse_pod({"metadata": {**metadata, "ownerReferences": [controller]}, "spec": template["spec"]})


def compute_requests(spec: Json) -> dict[str, int]:
    """Effective requests:
    https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers"""
    containers = [_get_container_requests(container) for container in spec["containers"]]
    initial, sidecars = [], []
    for container in spec.get("initContainers") or ():
        own = _get_container_requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars.append(own)
        initial.append(quantities.sum_amounts([*sidecars, {} if container.get("restartPolicy") == "Always" else own]))
    running = quantities.sum_amounts([*containers, *sidecars])
    overhead = quantities.parse_quantities(spec.get("overhead"))
    return quantities.sum_amounts([quantities.find_maximum_amounts([running, *initial]), overhead, _ONE_POD])


def _get_container_requests(container: Json) -> dict[str, int]:
    """Return the container's requests. A missing request defaults to the limit, as in the API server."""
    resources = container.get("resources") or {}
    return quantities.parse_quantities({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _parse_anti_affinity(anti_affinity: Json) -> tuple[Json, ...]:
    terms: Sequence[Json] = anti_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return tuple(term.get("labelSelector") or {} for term in terms if term.get("topologyKey") == HOSTNAME)


def _is_unschedulable(metadata: Json, status: Json) -> bool:
    if metadata.get("deletionTimestamp") or status.get("phase") != "Pending" or status.get("nominatedNodeName"):
        return False
    conditions = {item["type"]: item for item in status.get("conditions", ())}
    scheduled = conditions.get("PodScheduled", {})
    return bool(scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable")
