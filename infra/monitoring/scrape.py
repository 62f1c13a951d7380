"""Configuration of Prometheus and Alertmanager.

https://prometheus.io/docs/prometheus/latest/configuration/configuration/
https://prometheus.io/docs/alerting/latest/configuration/
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from infra.monitoring.model import (
    ALERTMANAGER,
    DCGM_EXPORTER,
    KUBE_STATE_METRICS,
    NODE_EXPORTER,
    PROMETHEUS,
    TOKEN,
    WEBHOOK,
    Monitored,
    Target,
)
from infra.naming import KUBE_SYSTEM, MONITORING_NAMESPACE, QUEUE_NAMESPACE

INTERVAL: Final = "30s"
RULES_FILE: Final = "/etc/prometheus/rules.yml"
ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
AGENT: Final = Target(
    # Port from the agent's chart: nodeAgent.additionalArgs in charts/eks-node-monitoring-agent/values.yaml at v1.7.0.
    "eks-node-monitoring-agent",
    KUBE_SYSTEM,
    {"app.kubernetes.io/name": "eks-node-monitoring-agent"},
    8003,
)
QUEUE: Final = Target("kueue", QUEUE_NAMESPACE, {"app.kubernetes.io/name": "kueue"}, 8443)
AUTOSCALER: Final = Target("cluster-autoscaler", KUBE_SYSTEM, {"app": "cluster-autoscaler"}, 8085)

OF_CONTAINERS: Final = (
    "container_cpu_usage_seconds_total",
    "container_memory_working_set_bytes",
    "container_network_receive_bytes_total",
    "container_network_transmit_bytes_total",
)
"""Kubelet metrics that the dashboards use. A kubelet exports thousands more."""


def build_prometheus_config(cluster: Monitored) -> dict[str, Any]:
    written = cluster.remote_write
    token = {"authorization": {"credentials_file": TOKEN}} if written and written.secret else {}
    return {
        "global": {
            "scrape_interval": INTERVAL,
            "evaluation_interval": INTERVAL,
            "external_labels": {"cluster": cluster.cluster},
        },
        "rule_files": [RULES_FILE],
        "alerting": {
            "alertmanagers": [
                {
                    "kubernetes_sd_configs": [_build_pod_discovery(MONITORING_NAMESPACE)],
                    "relabel_configs": _build_relabel_rules(ALERTMANAGER),
                }
            ]
        },
        "scrape_configs": list(_list_scrape_configs(cluster)),
        **({"remote_write": [{"url": written.url, **token}]} if written else {}),
    }


def list_targets(cluster: Monitored) -> Iterator[Target]:
    """Yield the pods whose metrics Prometheus reads over HTTP."""
    yield from (PROMETHEUS, ALERTMANAGER, KUBE_STATE_METRICS, NODE_EXPORTER)
    if cluster.gpus:
        yield DCGM_EXPORTER
    if cluster.eks:
        yield AGENT
    if cluster.autoscaler:
        yield AUTOSCALER


def _list_scrape_configs(cluster: Monitored) -> Iterator[dict[str, Any]]:
    for target in list_targets(cluster):
        # Two of the exporters label metrics with the pods that the metrics describe.
        described = {"honor_labels": True} if target in (KUBE_STATE_METRICS, DCGM_EXPORTER) else {}
        yield {**_build_pod_scrape_config(target), **described}
    if cluster.queue:
        # Kueue responds only to clients whose token allows them to read its metrics. Kueue's certificate is
        # self-signed.
        yield {
            **_build_pod_scrape_config(QUEUE),
            "scheme": "https",
            **_build_token_auth(),
            "tls_config": {"insecure_skip_verify": True},
        }
    yield _build_kubelet_scrape_config(cluster)


def _build_pod_scrape_config(target: Target) -> dict[str, Any]:
    return {
        "job_name": target.job,
        "kubernetes_sd_configs": [_build_pod_discovery(target.namespace)],
        "relabel_configs": [
            *_build_relabel_rules(target),
            {"source_labels": ["__meta_kubernetes_pod_node_name"], "target_label": "node"},
        ],
    }


def _build_pod_discovery(namespace: str) -> dict[str, Any]:
    return {"role": "pod", "namespaces": {"names": [namespace]}}


def _build_relabel_rules(target: Target) -> list[dict[str, Any]]:
    """Scrape each running pod with the target's labels once, at the target's port: service discovery returns a pod once
    per port."""
    labels = [
        {"source_labels": [f"__meta_kubernetes_pod_label_{_to_metadata_label(key)}"], "regex": re.escape(value), "action": "keep"}
        for key, value in target.labels.items()
    ]
    return [
        *labels,
        {"source_labels": ["__meta_kubernetes_pod_phase"], "regex": "Running", "action": "keep"},
        {
            "source_labels": ["__meta_kubernetes_pod_ip"],
            "regex": "(.+)",
            "target_label": "__address__",
            "replacement": f"$1:{target.port}",
        },
    ]


def _to_metadata_label(key: str) -> str:
    """Return a label's key as it appears in Prometheus's metadata labels."""
    return re.sub(r"\W", "_", key)


def _build_token_auth() -> dict[str, Any]:
    return {"authorization": {"credentials_file": f"{ACCOUNT}/token"}}


def _build_kubelet_scrape_config(cluster: Monitored) -> dict[str, Any]:
    # EKS signs the certificates of kubelets with the cluster's CA. Kubelets of other clusters usually have self-signed
    # certificates.
    trust: dict[str, Any] = {"ca_file": f"{ACCOUNT}/ca.crt"} if cluster.eks else {"insecure_skip_verify": True}
    return {
        "job_name": "kubelet",
        "scheme": "https",
        "metrics_path": "/metrics/cadvisor",
        **_build_token_auth(),
        "tls_config": trust,
        "kubernetes_sd_configs": [{"role": "node"}],
        "relabel_configs": [{"source_labels": ["__meta_kubernetes_node_name"], "target_label": "node"}],
        "metric_relabel_configs": [{"source_labels": ["__name__"], "regex": "|".join(OF_CONTAINERS), "action": "keep"}],
    }


def build_alertmanager_config(cluster: Monitored) -> dict[str, Any]:
    """Return Alertmanager's configuration. Without a webhook, Alertmanager only displays the alerts."""
    hook = {"webhook_configs": [{"url_file": WEBHOOK}]} if cluster.webhook_secret else {}
    return {
        "route": {"receiver": "webhook" if hook else "nobody", "group_by": ["alertname", "cluster"], "repeat_interval": "12h"},
        "receivers": [{"name": "webhook" if hook else "nobody", **hook}],
        "inhibit_rules": [
            # A node that is not ready triggers most other alerts, too.
            {
                "source_matchers": ['alertname="NodeNotReady"'],
                "target_matchers": ['alertname!="NodeNotReady"'],
                "equal": ["node"],
            }
        ],
    }
