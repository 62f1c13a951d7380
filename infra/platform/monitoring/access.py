"""Permissions of Prometheus and kube-state-metrics, and network policies that keep job pods away from metrics."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from infra.monitoring.model import PROMETHEUS
from infra.naming import MONITORING_NAMESPACE
from infra.platform.monitoring.servers import RESOURCES

READ: Final = ["get", "list", "watch"]
_GROUPS: Final = {"daemonsets": "apps", "deployments": "apps", "jobs": "batch", "nodes": "", "pods": ""}


def prometheus_in_cluster() -> list[Any]:
    """Return permissions to find nodes and to read the metrics of kubelets and Kueue. The permissions do not include
    `nodes/proxy`, which would let Prometheus run commands in pods."""
    return [
        {"api_groups": [""], "resources": ["nodes"], "verbs": READ},
        {"api_groups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
        {"non_resource_urls": ["/metrics"], "verbs": ["get"]},
    ]


def prometheus_in_namespace() -> list[Any]:
    """Return the permission to find pods with metrics."""
    return [{"api_groups": [""], "resources": ["pods"], "verbs": READ}]


def kube_state_metrics() -> list[Any]:
    groups: dict[str, list[str]] = {}
    for resource in RESOURCES:
        groups.setdefault(_GROUPS[resource], []).append(resource)
    return [{"api_groups": [group], "resources": names, "verbs": ["list", "watch"]} for group, names in sorted(groups.items())]


def within_monitoring() -> Any:
    """Allow ingress only from pods of the same namespace. `kubectl port-forward` still works, because its connection
    originates inside the pod."""
    return {"pod_selector": {}, "policy_types": ["Ingress"], "ingress": [{"from_": [{"pod_selector": {}}]}]}


def only_prometheus(labels: Mapping[str, str], ports: Sequence[int]) -> Any:
    """Allow ingress to these pods only from Prometheus."""
    source = {
        "namespace_selector": {"match_labels": {"kubernetes.io/metadata.name": MONITORING_NAMESPACE}},
        "pod_selector": {"match_labels": dict(PROMETHEUS.labels)},
    }
    return {
        "pod_selector": {"match_labels": dict(labels)},
        "policy_types": ["Ingress"],
        "ingress": [{"from_": [source], "ports": [{"port": port, "protocol": "TCP"} for port in ports]}],
    }
