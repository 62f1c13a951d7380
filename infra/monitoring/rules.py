"""Prometheus's rule file."""

from collections.abc import Mapping
from typing import Any, Final

from infra.monitoring import faults, parts
from infra.monitoring.model import Alert, Monitored

NODE_POOL: Final = "gpumpi_node_pool"
"""Metric with the value 1 for each node, labeled with the node's pool."""
PRICE: Final = "gpumpi_pool_dollars_per_node_hour"
"""On-demand price of a node of each pool, as known when `pulumi up` ran."""


def list_alerts(cluster: Monitored) -> tuple[Alert, ...]:
    return (*faults.list_fault_alerts(), *parts.list_part_alerts(cluster.parts), *parts.list_monitoring_alerts(cluster))


def build_rule_file(cluster: Monitored) -> dict[str, Any]:
    """https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/"""
    return {
        "groups": [
            {"name": "nodes-and-prices", "rules": _build_recording_rules(cluster.hourly_prices)},
            {"name": "faults-of-nodes", "rules": [_build_alerting_rule(alert) for alert in faults.list_fault_alerts()]},
            {"name": "platform", "rules": [_build_alerting_rule(alert) for alert in parts.list_part_alerts(cluster.parts)]},
            {"name": "monitoring", "rules": [_build_alerting_rule(alert) for alert in parts.list_monitoring_alerts(cluster)]},
        ]
    }


def _build_alerting_rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.hold,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "runbook": alert.runbook_url},
    }


def _build_recording_rules(prices: Mapping[str, str]) -> list[dict[str, Any]]:
    pools = 'label_replace(kube_node_labels{label_gpumpi_io_pool!=""}, "pool", "$1", "label_gpumpi_io_pool", "(.+)")'
    return [
        {"record": NODE_POOL, "expr": f"max by (node, pool) ({pools})"},
        *({"record": PRICE, "expr": f"vector({price})", "labels": {"pool": pool}} for pool, price in prices.items()),
    ]
