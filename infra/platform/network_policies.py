"""Network policies that block ingress to the namespaces of the platform's own pods."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from infra.monitoring.model import PROMETHEUS
from infra.naming import MONITORING_NAMESPACE


def create_ingress_policy(
    resource: str,
    namespace: str,
    opts: pulumi.ResourceOptions,
    *,
    webhook_ports: Sequence[int] = (),
    metrics_ports: Sequence[int] = (),
) -> pulumi.Resource:
    """Allow ingress to the pods of a namespace only to these ports. The kubelet's probes still work, because network
    plugins always let a node connect to its own pods.

    Webhooks accept connections from any address, because network policies cannot select the API server: on EKS it connects
    from addresses of the VPC.
    """
    rules = [
        *([build_ingress_rule(webhook_ports)] if webhook_ports else []),
        *([build_ingress_rule(metrics_ports, _select_prometheus())] if metrics_ports else []),
    ]
    return kubernetes.networking.v1.NetworkPolicy(
        resource,
        metadata={"name": "ingress", "namespace": namespace},
        spec=build_ingress_spec({}, rules),
        opts=opts,
    )


def build_metrics_spec(labels: Mapping[str, str], ports: Sequence[int]) -> Any:
    """Allow ingress to these pods only from Prometheus."""
    return build_ingress_spec({"match_labels": dict(labels)}, [build_ingress_rule(ports, _select_prometheus())])


def build_ingress_spec(pod_selector: Any, rules: Sequence[Any]) -> Any:
    """Return the spec of a policy. Without rules, the pods accept no connection."""
    return {"pod_selector": pod_selector, "policy_types": ["Ingress"], **({"ingress": list(rules)} if rules else {})}


def build_ingress_rule(ports: Sequence[int], *sources: Any) -> Any:
    """Allow connections to these ports from the sources; from anywhere if there are none."""
    return {
        **({"from_": list(sources)} if sources else {}),
        "ports": [{"port": port, "protocol": "TCP"} for port in ports],
    }


def _select_prometheus() -> Any:
    return {
        "namespace_selector": {"match_labels": {"kubernetes.io/metadata.name": MONITORING_NAMESPACE}},
        "pod_selector": {"match_labels": dict(PROMETHEUS.labels)},
    }
